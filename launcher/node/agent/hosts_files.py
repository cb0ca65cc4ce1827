"""
The files that stand at ``/etc/hosts`` in containers, so that pods know the names of Services here as on a cluster.

There is one for each Framework, and one for the other pods of a namespace: in it are this machine's own names, those of
the pods themselves, of the Framework's Services, of Services that no Framework owns, and of the nodes. It is rewritten
in place when pods come, go or move, so that programs which run see the change. Pods that do not use cluster DNS, and
pods without any Service, get a file with their own name and those of the nodes. On the host network a pod has no name
of its own: there it gets none where only this machine is a node.
"""

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from launcher.core.names import PodIdentityKey
from launcher.core.pods.observed_pod import has_terminated
from launcher.core.pods.services import ANNOTATION
from launcher.node.file_names import is_file_name
from launcher.node.pods.hostname import pod_names
from launcher.node.pods.hosts_entries import (
    NamedPod,
    NamedService,
    framework_of,
    hosts_lines,
    named_pod,
    named_service,
    node_lines,
    own_lines,
)
from launcher.store.informer import Informer
from launcher.store.interface import FRAMEWORKS, SERVICES, Key, Object, Store, key_of
from launcher.store.object_errors import object_errors
from launcher.store.selectors import Selector

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Namespace, and the name of a Framework or nothing: whose file it is.
Scope = tuple[str, str]

#: Seconds in which changes are gathered before they are written.
_GATHER = 0.02
#: Of the time, this part at most goes into writing.
_SHARE = 0.1
#: The file of pods that no Framework owns: no Framework can be called so.
_NOBODYS = "_"
#: The file with the names of nodes alone: no namespace can be called so.
_NODES = "_nodes"
#: The directory of files of single pods: no namespace can be called so.
_OF_PODS = "_pods"


class HostsFileManager:
    """Keeps the files. A handler of the changes of Services."""

    def __init__(
        self,
        store: Store,
        directory: Path,
        machine: Path = Path("/etc/hosts"),
        nodes: Mapping[str, str] | None = None,
    ) -> None:
        """*machine* is where this machine's own names are; *nodes* are the addresses of nodes with other names."""
        self._store, self._directory, self._machine = store, directory, machine
        self._node_lines = list(node_lines(nodes or {}))
        self._uids: dict[Key, str] = {}
        self._informer = Informer(store, SERVICES, self, component="hosts-files")
        #: Those that no Framework owns are nobody's.
        self._services: dict[Scope, dict[str, NamedService]] = {}
        self._owners: dict[Key, Scope] = {}
        self._pods: dict[Scope, dict[str, NamedPod]] = {}
        #: Every pod of our nodes, by whose file is theirs.
        self._members: dict[Scope, set[str]] = {}
        self._scopes: dict[Key, Scope] = {}
        #: Of pods that start: uid and address, before their status tells it.
        self._addresses: dict[Key, tuple[str, str]] = {}
        #: Files that are kept; the event says that the file is up to date.
        self._files: dict[Scope, asyncio.Event] = {}
        self._outdated: set[Scope] = set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow Services, and write what has changed, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informer.run())
            tasks.create_task(self._write_on())

    async def file_for(self, pod: Object, address: str) -> Path | None:
        """
        What is to stand at ``/etc/hosts`` in the pod, up to date; None where this machine's own file does.

        The pod is about to start at that *address*: its programs may ask for their own name first of all.
        """
        if not _asks_cluster(pod):
            return self._file_without_services(pod, address)
        await self._informer.synced.wait()
        scope = _scope_of(pod)
        if not is_file_name(scope[0]) or not is_file_name(scope[1] or _NOBODYS):
            return None
        if scope[1] and _uses_names(pod) and scope not in self._services:
            await self._look_up(scope)
        if not self._in_scope(scope):
            return self._file_without_services(pod, address)
        key = key_of(pod)
        self._addresses[key] = pod["metadata"]["uid"], address
        if key[1] not in self._pods.get(scope, {}):
            self._set_pod(scope, key[1], self._named(key, pod))
        if scope not in self._files:
            self._keep(scope)
        await self._files[scope].wait()
        return self._path(scope)

    def hostname_file(self, pod: Object, name: str) -> Path | None:
        """What is to stand at ``/etc/hostname`` in the pod of that host *name*; None where there is no such file."""
        if not self._machine.with_name("hostname").exists():
            return None
        return self._write_for(pod, "hostname", f"{name}\n".encode())

    def _file_without_services(self, pod: Object, address: str) -> Path | None:
        spec = pod["spec"]
        if spec.get("hostNetwork"):
            return None if spec.get("dnsPolicy") == "None" else self._nodes_file()
        own = " ".join((address, *pod_names(pod)))
        nodes = [] if spec.get("dnsPolicy") == "None" else self._node_lines
        return self._write_for(pod, "hosts", _text([*self._machines_lines(), own, *nodes]))

    def _write_for(self, pod: Object, kind: str, text: bytes) -> Path | None:
        path = self._directory / _OF_PODS / f"{pod['metadata']['uid']}.{kind}"
        try:
            rewrite(path, text)
        except OSError as error:
            log.warning("names of a pod not written", extra={"pod": key_of(pod), "why": str(error)})
            return None
        return path

    def _remove_files_of(self, uid: str) -> None:
        for kind in ("hosts", "hostname"):
            (self._directory / _OF_PODS / f"{uid}.{kind}").unlink(missing_ok=True)

    def recover(self) -> None:
        """Every pod is known: go on with the files of an earlier launcher, and remove those that nobody has."""
        uids = set(self._uids.values())
        for path in self._directory.glob("*/*"):
            if path.parent.name == _OF_PODS:
                if path.stem not in uids:
                    path.unlink(missing_ok=True)
                continue
            scope = (path.parent.name, "" if path.name == _NOBODYS else path.name)
            if scope not in self._members:
                path.unlink(missing_ok=True)
            elif scope not in self._files:
                self._keep(scope)

    # What changes.

    def on_upsert(self, key: Key, service: Object) -> None:
        """A Service is there, or has changed."""
        self._set_service(key, named_service(service))

    def on_delete(self, key: Key) -> None:
        """A Service is no longer there."""
        self._set_service(key, None)

    def pod_seen(self, key: Key, pod: Object) -> None:
        """A pod of this machine is there, or has changed."""
        uid = pod["metadata"]["uid"]
        if self._uids.get(key, uid) != uid or has_terminated(pod):
            self._remove_files_of(self._uids.get(key, uid))
        self._uids[key] = uid
        scope = _scope_of(pod)
        if self._scopes.get(key, scope) != scope:
            self.pod_gone(key)
        self._scopes[key] = scope
        self._members.setdefault(scope, set()).add(key[1])
        self._set_pod(scope, key[1], self._named(key, pod))

    def pod_gone(self, key: Key) -> None:
        """A pod is no longer there."""
        if (uid := self._uids.pop(key, None)) is not None:
            self._remove_files_of(uid)
        scope = self._scopes.pop(key, None)
        self._addresses.pop(key, None)
        if scope is None:
            return
        self._set_pod(scope, key[1], None)
        self._members[scope].discard(key[1])
        if not self._members[scope]:
            del self._members[scope]
            self._drop(scope)

    def _named(self, key: Key, pod: Object) -> NamedPod | None:
        uid, address = self._addresses.get(key, ("", ""))
        status = pod.get("status") or {}
        if uid == pod["metadata"]["uid"] and not status.get("podIP"):
            pod = {**pod, "status": {**status, "podIP": address}}
        return named_pod(pod)

    def _set_service(self, key: Key, service: NamedService | None) -> None:
        if (before := self._owners.pop(key, None)) is not None:
            _remove(self._services, before, key[1])
            self._touch_for(before)
        if service is not None:
            scope = (service.namespace, service.framework)
            self._services.setdefault(scope, {})[key[1]] = service
            self._owners[key] = scope
            self._touch_for(scope)

    def _set_pod(self, scope: Scope, name: str, pod: NamedPod | None) -> None:
        before = _remove(self._pods, scope, name)
        if pod is not None:
            self._pods.setdefault(scope, {})[name] = pod
        if pod == before:
            return
        self._touch(scope)
        pods = [each for each in (before, pod) if each is not None]
        nobodys = self._services.get((scope[0], ""), {}).values()
        if any(service.selects(each) for service in nobodys for each in pods):
            self._touch_for((scope[0], ""))

    def _touch_for(self, scope: Scope) -> None:
        """Every file is outdated that names the Services of that scope: nobody's are in all."""
        for each in [scope] if scope[1] else [each for each in self._files if each[0] == scope[0]]:
            self._touch(each)

    def _touch(self, scope: Scope) -> None:
        """That file, if there is one, is no longer right."""
        if scope in self._files:
            self._files[scope].clear()
            self._outdated.add(scope)
            self._changed.set()

    # Files.

    def _keep(self, scope: Scope) -> None:
        self._files[scope] = asyncio.Event()
        self._touch(scope)

    def _drop(self, scope: Scope) -> None:
        if (written := self._files.pop(scope, None)) is not None:
            written.set()
            self._path(scope).unlink(missing_ok=True)
            with suppress(OSError):  # others are in it
                self._path(scope).parent.rmdir()

    def _path(self, scope: Scope) -> Path:
        return self._directory / scope[0] / (scope[1] or _NOBODYS)

    def _in_scope(self, scope: Scope) -> list[NamedService]:
        """The Services whose names are in that file."""
        nobodys = self._services.get((scope[0], ""), {})
        own = self._services.get(scope, {}) if scope[1] else {}
        return [*nobodys.values(), *own.values()]

    async def _look_up(self, scope: Scope) -> None:
        """Know the Framework's Services at once: they were made before its pods, but are heard of by another way."""
        where = Selector.labelled({PodIdentityKey.FRAMEWORK_NAME: scope[1]})
        for service in (await self._store.list(SERVICES, scope[0], where)).items:
            self._informer.upsert(service)

    async def _write_on(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await self._changed.wait()
            await asyncio.sleep(_GATHER)
            await self._informer.synced.wait()
            self._changed.clear()
            began = clock()
            outdated, self._outdated = self._outdated, set()
            for scope in outdated & self._files.keys():
                is_written = self._files[scope]
                self._write(scope)
                is_written.set()
            await asyncio.sleep((clock() - began) / _SHARE)

    def _nodes_file(self) -> Path | None:
        """The file with the names of the nodes alone; None where they have no names of their own."""
        if not self._node_lines:
            return None
        path = self._directory / _NODES
        try:
            rewrite(path, _text([*self._machines_lines(), *self._node_lines]))
        except OSError as error:
            log.warning("names of nodes not written", extra={"why": str(error)})
            return None
        return path

    def _write(self, scope: Scope) -> None:
        own = own_lines(sorted(self._pods.get(scope, {}).values(), key=lambda pod: pod.name))
        named = hosts_lines(self._in_scope(scope), self._pods_for(scope))
        try:
            rewrite(self._path(scope), _text([*self._machines_lines(), *own, *named, *self._node_lines]))
        except OSError as error:
            # Whoever starts next tries again.
            del self._files[scope]
            log.warning("names not written", extra={"scope": scope, "why": str(error)})
        except Exception as error:  # the files of others are still to be written
            del self._files[scope]
            object_errors.record("hosts-files", FRAMEWORKS.plural, scope, error)

    def _machines_lines(self) -> list[str]:
        try:
            return self._machine.read_text(errors="replace").splitlines()
        except OSError:
            return ["127.0.0.1 localhost", "::1 localhost"]

    def _pods_for(self, scope: Scope) -> list[NamedPod]:
        """The pods that its Services may lead to: the Framework's own, or any where a Service is nobody's."""
        pods = [*self._pods.get(scope, {}).values()]
        if (scope[0], "") in self._services:
            others = [each for each in self._pods if each[0] == scope[0] and each != scope]
            pods += [pod for each in others for pod in self._pods[each].values()]
        return sorted(pods, key=lambda pod: pod.name)


def _remove(shelves: dict[Scope, dict[str, T]], scope: Scope, name: str) -> T | None:
    """What was there, and is no longer; nor is a shelf that has become empty."""
    shelf = shelves.get(scope, {})
    found = shelf.pop(name, None)
    if not shelf:
        shelves.pop(scope, None)
    return found


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _scope_of(pod: Object) -> Scope:
    return pod["metadata"]["namespace"], framework_of(pod)


def _asks_cluster(pod: Object) -> bool:
    """Whether the pod would ask the DNS server of its cluster for names."""
    policy = pod["spec"].get("dnsPolicy") or "ClusterFirst"
    ways = (
        ("ClusterFirstWithHostNet",)
        if pod["spec"].get("hostNetwork")
        else ("ClusterFirst", "ClusterFirstWithHostNet")
    )
    return policy in ways


def _uses_names(pod: Object) -> bool:
    """Whether there are Services of its Framework for certain."""
    return bool(pod["spec"].get("subdomain")) or ANNOTATION in (pod["metadata"].get("annotations") or {})


def rewrite(path: Path, text: bytes) -> None:
    """
    The file has that text, and is the same file as before, which is mounted in containers.

    It never gets shorter, so that one write is enough: nobody who reads meanwhile finds it empty, or a line cut off.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        os.fchmod(descriptor, 0o644)
        file.write(text.ljust(os.fstat(descriptor).st_size, b"\n"))
