"""
The files that are mounted at ``/etc/hosts`` in containers, so that the names of Services resolve as on a cluster.

There is one for each Framework, and one for the other pods of a namespace. It contains this machine's own names, those
of the pods themselves, of the Framework's Services, of Services without an owner, and of the nodes. It is rewritten in
place when pods are created, deleted or change their address, so that running programs see the change. Pods that do not
use cluster DNS, and pods without any Service, get a file with their own name and those of the nodes. A pod on the host
network has no name of its own, and gets no file if this machine is the only node.
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
from launcher.core.pods.services import SERVICES_ANNOTATION
from launcher.node.file_names import is_file_name
from launcher.node.pods.hostname import pod_names
from launcher.node.pods.hosts_entries import (
    NamedPod,
    NamedService,
    hosts_lines,
    named_pod,
    named_service,
    node_lines,
    own_lines,
    owning_framework,
)
from launcher.store.informer import SharedInformers
from launcher.store.interface import FRAMEWORKS, SERVICES, Key, Object, Store, key_of
from launcher.store.object_errors import object_errors
from launcher.store.selectors import Selector

T = TypeVar("T")

log = logging.getLogger(__name__)

#: The pods that share a file: a namespace, and the name of a Framework or an empty string.
Scope = tuple[str, str]

#: Changes within this time are written together.
_COALESCE_SECONDS = 0.02
#: The largest part of the time that is spent on writing.
_MAX_WRITE_SHARE = 0.1
#: The file of pods without a Framework; not a valid name of one.
_NO_FRAMEWORK = "_"
#: The file with the names of the nodes only; not a valid namespace.
_NODES = "_nodes"
#: The directory of the files of single pods; not a valid namespace.
_PODS = "_pods"


class HostsFileManager:
    """Writes the files. An event handler for Services."""

    def __init__(
        self,
        store: Store,
        informers: SharedInformers,
        directory: Path,
        machine: Path = Path("/etc/hosts"),
        nodes: Mapping[str, str] | None = None,
    ) -> None:
        """*machine* is this machine's hosts file; *nodes* are the addresses of the nodes with other names."""
        self._store, self._directory, self._machine = store, directory, machine
        self._node_lines = list(node_lines(nodes or {}))
        self._uids: dict[Key, str] = {}
        self._informer = informers.add_event_handler(SERVICES, self, component="hosts-files")
        #: By namespace and owning Framework; empty for Services without one.
        self._services: dict[Scope, dict[str, NamedService]] = {}
        self._owners: dict[Key, Scope] = {}
        self._pods: dict[Scope, dict[str, NamedPod]] = {}
        #: The pods of these nodes by the file that they use.
        self._members: dict[Scope, set[str]] = {}
        self._scopes: dict[Key, Scope] = {}
        #: The uid and address of starting pods, before their status contains the address.
        self._addresses: dict[Key, tuple[str, str]] = {}
        #: The files; the event is set while the file is up to date.
        self._files: dict[Scope, asyncio.Event] = {}
        self._outdated: set[Scope] = set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Rewrites outdated files until cancelled."""
        await self._write_outdated()

    async def file_for(self, pod: Object, address: str) -> Path | None:
        """
        The up-to-date file for ``/etc/hosts`` in the pod; None for that of this machine.

        The pod is about to start at that *address*: its programs may resolve their own name immediately.
        """
        if not _uses_cluster_dns(pod):
            return self._file_without_services(pod, address)
        await self._informer.synced.wait()
        scope = _scope_of(pod)
        if not is_file_name(scope[0]) or not is_file_name(scope[1] or _NO_FRAMEWORK):
            return None
        if scope[1] and _has_services(pod) and scope not in self._services:
            await self._list_services(scope)
        if not self._services_of(scope):
            return self._file_without_services(pod, address)
        key = key_of(pod)
        self._addresses[key] = pod["metadata"]["uid"], address
        if key[1] not in self._pods.get(scope, {}):
            self._set_pod(scope, key[1], self._named_pod(key, pod))
        if scope not in self._files:
            self._add_file(scope)
        await self._files[scope].wait()
        return self._path(scope)

    def hostname_file(self, pod: Object, name: str) -> Path | None:
        """The file for ``/etc/hostname`` in the pod with that host *name*; None if this machine has no such file."""
        if not self._machine.with_name("hostname").exists():
            return None
        return self._write_pod_file(pod, "hostname", f"{name}\n".encode())

    def _file_without_services(self, pod: Object, address: str) -> Path | None:
        spec = pod["spec"]
        if spec.get("hostNetwork"):
            return None if spec.get("dnsPolicy") == "None" else self._nodes_file()
        own = " ".join((address, *pod_names(pod)))
        nodes = [] if spec.get("dnsPolicy") == "None" else self._node_lines
        return self._write_pod_file(pod, "hosts", _text([*self._machine_lines(), own, *nodes]))

    def _write_pod_file(self, pod: Object, kind: str, text: bytes) -> Path | None:
        path = self._directory / _PODS / f"{pod['metadata']['uid']}.{kind}"
        try:
            rewrite(path, text)
        except OSError as error:
            log.warning("hosts file of a pod not written", extra={"pod": key_of(pod), "error": str(error)})
            return None
        return path

    def _remove_pod_files(self, uid: str) -> None:
        for kind in ("hosts", "hostname"):
            (self._directory / _PODS / f"{uid}.{kind}").unlink(missing_ok=True)

    def recover(self) -> None:
        """Continues the files of an earlier launcher, and removes unused ones, once all pods are known."""
        uids = set(self._uids.values())
        for path in self._directory.glob("*/*"):
            if path.parent.name == _PODS:
                if path.stem not in uids:
                    path.unlink(missing_ok=True)
                continue
            scope = (path.parent.name, "" if path.name == _NO_FRAMEWORK else path.name)
            if scope not in self._members:
                path.unlink(missing_ok=True)
            elif scope not in self._files:
                self._add_file(scope)

    # Changes

    def on_upsert(self, key: Key, service: Object) -> None:
        """Handles a Service that was created or changed."""
        self._set_service(key, named_service(service))

    def on_delete(self, key: Key) -> None:
        """Handles a deleted Service."""
        self._set_service(key, None)

    def update_pod(self, key: Key, pod: Object) -> None:
        """Handles a pod of this machine that was created or changed."""
        uid = pod["metadata"]["uid"]
        if self._uids.get(key, uid) != uid or has_terminated(pod):
            self._remove_pod_files(self._uids.get(key, uid))
        self._uids[key] = uid
        scope = _scope_of(pod)
        if self._scopes.get(key, scope) != scope:
            self.remove_pod(key)
        self._scopes[key] = scope
        self._members.setdefault(scope, set()).add(key[1])
        self._set_pod(scope, key[1], self._named_pod(key, pod))

    def remove_pod(self, key: Key) -> None:
        """Handles a deleted pod."""
        if (uid := self._uids.pop(key, None)) is not None:
            self._remove_pod_files(uid)
        scope = self._scopes.pop(key, None)
        self._addresses.pop(key, None)
        if scope is None:
            return
        self._set_pod(scope, key[1], None)
        self._members[scope].discard(key[1])
        if not self._members[scope]:
            del self._members[scope]
            self._remove_file(scope)

    def _named_pod(self, key: Key, pod: Object) -> NamedPod | None:
        uid, address = self._addresses.get(key, ("", ""))
        status = pod.get("status") or {}
        if uid == pod["metadata"]["uid"] and not status.get("podIP"):
            pod = {**pod, "status": {**status, "podIP": address}}
        return named_pod(pod)

    def _set_service(self, key: Key, service: NamedService | None) -> None:
        if (old_scope := self._owners.pop(key, None)) is not None:
            _remove(self._services, old_scope, key[1])
            self._mark_service_outdated(old_scope)
        if service is not None:
            scope = (service.namespace, service.framework)
            self._services.setdefault(scope, {})[key[1]] = service
            self._owners[key] = scope
            self._mark_service_outdated(scope)

    def _set_pod(self, scope: Scope, name: str, pod: NamedPod | None) -> None:
        before = _remove(self._pods, scope, name)
        if pod is not None:
            self._pods.setdefault(scope, {})[name] = pod
        if pod == before:
            return
        self._mark_outdated(scope)
        versions = [version for version in (before, pod) if version is not None]
        unowned = self._services.get((scope[0], ""), {}).values()
        if any(service.selects(version) for service in unowned for version in versions):
            self._mark_service_outdated((scope[0], ""))

    def _mark_service_outdated(self, scope: Scope) -> None:
        """Marks the files with the Services of *scope* as outdated: those without an owner are in all files."""
        files = [scope] if scope[1] else [file for file in self._files if file[0] == scope[0]]
        for file in files:
            self._mark_outdated(file)

    def _mark_outdated(self, scope: Scope) -> None:
        if scope in self._files:
            self._files[scope].clear()
            self._outdated.add(scope)
            self._changed.set()

    # Files

    def _add_file(self, scope: Scope) -> None:
        self._files[scope] = asyncio.Event()
        self._mark_outdated(scope)

    def _remove_file(self, scope: Scope) -> None:
        if (written := self._files.pop(scope, None)) is not None:
            written.set()
            self._path(scope).unlink(missing_ok=True)
            with suppress(OSError):  # not empty
                self._path(scope).parent.rmdir()

    def _path(self, scope: Scope) -> Path:
        return self._directory / scope[0] / (scope[1] or _NO_FRAMEWORK)

    def _services_of(self, scope: Scope) -> list[NamedService]:
        """The Services whose names are in the file of *scope*."""
        unowned = self._services.get((scope[0], ""), {})
        own = self._services.get(scope, {}) if scope[1] else {}
        return [*unowned.values(), *own.values()]

    async def _list_services(self, scope: Scope) -> None:
        """Lists the Framework's Services: they exist before its pods, but the informer may not have observed them."""
        selector = Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: scope[1]})
        for service in (await self._store.list(SERVICES, scope[0], selector)).items:
            self._informer.upsert(service)

    async def _write_outdated(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await self._changed.wait()
            await asyncio.sleep(_COALESCE_SECONDS)
            await self._informer.synced.wait()
            self._changed.clear()
            started_at = clock()
            outdated, self._outdated = self._outdated, set()
            for scope in outdated & self._files.keys():
                is_written = self._files[scope]
                self._write(scope)
                is_written.set()
            await asyncio.sleep((clock() - started_at) / _MAX_WRITE_SHARE)

    def _nodes_file(self) -> Path | None:
        """The file with the names of the nodes; None if they have no names of their own."""
        if not self._node_lines:
            return None
        path = self._directory / _NODES
        try:
            rewrite(path, _text([*self._machine_lines(), *self._node_lines]))
        except OSError as error:
            log.warning("hosts file of nodes not written", extra={"error": str(error)})
            return None
        return path

    def _write(self, scope: Scope) -> None:
        own = own_lines(sorted(self._pods.get(scope, {}).values(), key=lambda pod: pod.name))
        named = hosts_lines(self._services_of(scope), self._selectable_pods(scope))
        try:
            rewrite(self._path(scope), _text([*self._machine_lines(), *own, *named, *self._node_lines]))
        except OSError as error:
            # The next pod that starts retries.
            del self._files[scope]
            log.warning("hosts file not written", extra={"scope": scope, "error": str(error)})
        except Exception as error:  # the other files remain to be written
            del self._files[scope]
            object_errors.record("hosts-files", FRAMEWORKS.plural, scope, error)

    def _machine_lines(self) -> list[str]:
        try:
            return self._machine.read_text(errors="replace").splitlines()
        except OSError:
            return ["127.0.0.1 localhost", "::1 localhost"]

    def _selectable_pods(self, scope: Scope) -> list[NamedPod]:
        """The pods that the file's Services may select: any of the namespace if a Service has no owner."""
        pods = [*self._pods.get(scope, {}).values()]
        if (scope[0], "") in self._services:
            others = [other for other in self._pods if other[0] == scope[0] and other != scope]
            pods += [pod for other in others for pod in self._pods[other].values()]
        return sorted(pods, key=lambda pod: pod.name)


def _remove(items: dict[Scope, dict[str, T]], scope: Scope, name: str) -> T | None:
    """Removes and returns an item, together with its scope if that becomes empty."""
    in_scope = items.get(scope, {})
    item = in_scope.pop(name, None)
    if not in_scope:
        items.pop(scope, None)
    return item


def _text(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _scope_of(pod: Object) -> Scope:
    return pod["metadata"]["namespace"], owning_framework(pod)


def _uses_cluster_dns(pod: Object) -> bool:
    """Whether the pod's DNS policy is that of the cluster."""
    policy = pod["spec"].get("dnsPolicy") or "ClusterFirst"
    cluster_policies = (
        ("ClusterFirstWithHostNet",)
        if pod["spec"].get("hostNetwork")
        else ("ClusterFirst", "ClusterFirstWithHostNet")
    )
    return policy in cluster_policies


def _has_services(pod: Object) -> bool:
    """Whether the pod's Framework certainly has Services."""
    return bool(pod["spec"].get("subdomain")) or SERVICES_ANNOTATION in (
        pod["metadata"].get("annotations") or {}
    )


def rewrite(path: Path, text: bytes) -> None:
    """
    Replace the content of the file in place, because containers have it mounted.

    It never gets shorter, so that one write is enough: no reader finds it empty or with a truncated line.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        os.fchmod(descriptor, 0o644)
        file.write(text.ljust(os.fstat(descriptor).st_size, b"\n"))
