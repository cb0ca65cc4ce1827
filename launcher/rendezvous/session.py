"""
The rendezvous session of one Framework: requests that wait for the addresses of its tasks.

All requests share one watch of the pods and one set of files. The Framework is large and changes with every task, so
it is read when the session starts, and again when its pods are not the expected ones.
"""

import asyncio
import logging
from dataclasses import dataclass

from launcher.core.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    LauncherError,
    NotFound,
    Unavailable,
)
from launcher.core.names import PodIdentityKey, pod_name
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.spec import FrameworkName
from launcher.rendezvous.peer_files import PeerFiles, framework_json
from launcher.rendezvous.peer_tracker import (
    PORT_ANNOTATION,
    DependentRoles,
    PeerPod,
    PeerTracker,
    RendezvousTarget,
    TaskId,
    dependent_roles,
    peer_pod_from_json,
    target_from_json,
)
from launcher.store.backoff import ExponentialBackoff
from launcher.store.informer import Informer
from launcher.store.interface import FRAMEWORKS, PODS, Key, MergePatch, Object, Store
from launcher.store.object_errors import object_errors
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

#: The component of recorded errors.
COMPONENT = "rendezvous"
#: Reads of the Framework take at most this share of the time, so that a small one is read again soon.
_MAX_READ_SHARE = 0.02
#: After this time, a Framework of any size may be read again.
_MAX_READ_PAUSE_SECONDS = 1.0
#: A new request has the Framework read again if it was read longer ago.
_MAX_AGE_SECONDS = 30.0
#: Limit for the first read, and for the reservation of a port.
_START_TIMEOUT_SECONDS = 15.0
#: Limit of waiting requests per task.
_WAITERS_PER_TASK = 8
#: Limit of the missing tasks that a response names.
_MAX_NAMED_TASKS = 20


@dataclass(frozen=True, slots=True)
class PeerRequest:
    """A request for addresses, with a verified token."""

    #: The uid and the attempt in the token.
    uid: str
    attempt: int
    #: The task that sends the request, if it is known.
    task: TaskId | None = None
    #: Only a newer generation is returned.
    after: int = 0
    #: The port that the task has chosen.
    port: int | None = None


@dataclass(frozen=True, slots=True)
class MissingPeers:
    """The tasks without an address when the request timed out: the first of them, and the number of all."""

    tasks: tuple[TaskId, ...]
    count: int


class RendezvousSession:
    """
    The waiting requests of one Framework; ``run`` watches its pods.

    A waiting request continues when its files are ready, when the Framework was read, and when the session is closed.
    """

    def __init__(self, store: Store, key: Key) -> None:
        self._store, self._key = store, key
        self._tracker = PeerTracker()
        self._informer = Informer(
            store, PODS, Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: key[1]}), namespace=key[0]
        )
        self._informer.add_event_handler(self, component=COMPONENT)
        self._files: dict[DependentRoles, PeerFiles] = {}
        #: Whether the files are those of the current pods.
        self._files_current = False
        #: The content of framework.json, by generation; only the last one is kept.
        self._framework_json: dict[int, bytes] = {}
        #: The response to all requests after the session was closed.
        self._closed: Unavailable | None = None
        self._framework_deleted = False
        #: Time of the last read of the Framework, by the clock of the event loop.
        self._read_at = float("-inf")
        #: Time from which it may be read again.
        self._next_read_at = float("-inf")
        self._must_read = True
        #: Set when pods have changed or the Framework must be read.
        self._changed = asyncio.Event()
        self._changed.set()
        #: Set when the Framework and all pods were read once, or the session was closed.
        self._started = asyncio.Event()
        #: Set after the next read of the Framework.
        self._next_read = asyncio.Event()
        #: Set when the files for requests with these dependent roles are ready.
        self._files_ready: dict[DependentRoles, asyncio.Event] = {}
        #: Set when the pod of that name is observed.
        self._pod_observed: dict[str, asyncio.Event] = {}
        #: Ports of nodes whose annotation is being written, with the uids of the pods.
        self._reserved_ports: dict[tuple[str, int], str] = {}
        #: Number of waiting requests.
        self.waiters = 0

    async def run(self) -> None:
        """Watches the Framework's pods until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            await self._handle_changes()

    @property
    def max_waiters(self) -> int:
        """Limit of waiting requests: several per task, since every container of its pod may send one."""
        target = self._tracker.target
        tasks = INDEXES_END if target is None else sum(role.tasks for role in target.spec.roles)
        return _WAITERS_PER_TASK * tasks + _WAITERS_PER_TASK

    def close(self, error: Unavailable) -> None:
        """Fails all waiting and all further requests with *error*."""
        self._closed = error
        self._started.set()
        self._wake_all()

    async def wait_for_peers(self, request: PeerRequest, wait_seconds: float) -> PeerFiles | MissingPeers:
        """
        Returns the files when all tasks have addresses, or the missing tasks after *wait_seconds*.

        Raises NotFound if the Framework was deleted, Forbidden if the attempt has ended, Unavailable, and Conflict if
        another task of the node has reserved the port.
        """
        self.waiters += 1
        try:
            await self._prepare(request)
            async with asyncio.timeout(wait_seconds):
                while (files := self._files_for(request)) is None:
                    excluded = self._dependent_roles(request)
                    await self._files_ready.setdefault(excluded, asyncio.Event()).wait()
                return files
        except TimeoutError:
            return self._missing_peers(request)
        finally:
            self.waiters -= 1

    async def framework_json(self, files: PeerFiles) -> bytes:
        """Returns the Framework with the addresses in *files*; read once per generation. Raises LauncherError."""
        generation = files.peer_list.generation
        if generation not in self._framework_json:
            obj = await self._store.get(FRAMEWORKS, *self._key)
            self._framework_json = {generation: framework_json(obj, files.peer_list)}
        return self._framework_json[generation]

    def on_upsert(self, key: Key, obj: Object) -> None:
        """Event handler: a pod was added or updated."""
        pod = peer_pod_from_json(obj)
        if pod is None:
            self._tracker.delete(key[1])
            self._pods_changed()
            return
        if not self._tracker.upsert(pod):
            return
        if self._tracker.contradicts_target(pod):
            self._must_read = True
        if (observed := self._pod_observed.pop(pod.name, None)) is not None:
            observed.set()
        self._pods_changed()

    def on_delete(self, key: Key) -> None:
        """Event handler: a pod was deleted."""
        self._tracker.delete(key[1])
        self._must_read = True
        self._pods_changed()

    def _pods_changed(self) -> None:
        self._files_current = False
        self._changed.set()

    async def _handle_changes(self) -> None:
        """Reads the Framework if necessary and updates the files, after every change."""
        loop, backoff = asyncio.get_running_loop(), ExponentialBackoff(initial=0.2, maximum=10.0)
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._must_read:
                await asyncio.sleep(self._next_read_at - loop.time())
                try:
                    await self._read_framework()
                except LauncherError as error:
                    log.warning("framework not read", extra={"framework": self._key, "error": str(error)})
                    self._request_read()
                    await asyncio.sleep(backoff.next_delay())
                    continue
                backoff.reset()
            await self._informer.synced.wait()
            with object_errors.handling(COMPONENT, FRAMEWORKS.plural, self._key):
                self._update_files()
            self._started.set()

    async def _read_framework(self) -> None:
        self._must_read = False
        clock = asyncio.get_running_loop().time
        started_at = clock()
        try:
            obj = await self._store.get(FRAMEWORKS, *self._key)
            self._tracker.set_target(target_from_json(obj))
            self._framework_deleted = False
        except NotFound:
            self._framework_deleted = True
        except ValueError as error:
            # The last version that could be parsed stays in use, if there was one.
            log.warning("framework not parsed", extra={"framework": self._key, "error": str(error)})
            self._framework_deleted = self._tracker.target is None
        self._read_at = clock()
        pause = min((self._read_at - started_at) / _MAX_READ_SHARE, _MAX_READ_PAUSE_SECONDS)
        self._next_read_at = self._read_at + pause
        self._wake_all()

    def _update_files(self) -> None:
        """Generates the files of all complete peer lists, and wakes the requests that wait for them."""
        target = self._tracker.target
        if target is None:
            return
        spec = target.spec
        files: dict[DependentRoles, PeerFiles] = {}
        for excluded in {dependent_roles(spec, role) for role in (None, *(each.name for each in spec.roles))}:
            if (peer_list := self._tracker.peer_list(excluded)) is not None:
                known = self._files.get(excluded)
                if known is None or known.peer_list != peer_list:
                    known = PeerFiles(peer_list, spec)
                files[excluded] = known
        self._files, self._files_current = files, True
        for excluded in files.keys() & self._files_ready.keys():
            self._files_ready.pop(excluded).set()

    def _wake_all(self) -> None:
        for event in (*self._files_ready.values(), *self._pod_observed.values(), self._next_read):
            event.set()
        self._files_ready.clear()
        self._pod_observed.clear()
        self._next_read = asyncio.Event()

    async def _prepare(self, request: PeerRequest) -> None:
        """
        Waits until the session has started and has read the Framework of the request, and reserves the port.

        Raises LauncherError.
        """
        received_at = asyncio.get_running_loop().time()
        if received_at > self._read_at + _MAX_AGE_SECONDS:
            self._request_read()
        try:
            async with asyncio.timeout(_START_TIMEOUT_SECONDS):
                await self._started.wait()
                if not self._is_target_of(request) and self._read_at < received_at:
                    self._request_read()
                while (
                    not self._is_target_of(request) and self._read_at < received_at and self._closed is None
                ):
                    await self._next_read.wait()
                if request.port is not None:
                    await self._reserve_port(request, request.port)
        except TimeoutError as error:
            raise Unavailable("the Framework could not be read; retry") from error

    def _is_target_of(self, request: PeerRequest) -> bool:
        """Whether the Framework, as it was read last, is that of the request, in its attempt or a later one."""
        target = self._tracker.target
        if self._framework_deleted or target is None:
            return False
        return target.uid == request.uid and target.attempt >= request.attempt

    def _request_read(self) -> None:
        self._must_read = True
        self._changed.set()

    def _files_for(self, request: PeerRequest) -> PeerFiles | None:
        """Returns the files for the request, or None while there are none. Raises LauncherError if it is rejected."""
        excluded = self._dependent_roles(request)
        files = self._files.get(excluded) if self._files_current else None
        return files if files is not None and files.peer_list.generation > request.after else None

    def _target_of(self, request: PeerRequest) -> RendezvousTarget:
        """Returns the Framework of the request. Raises LauncherError if its current attempt is another one."""
        if self._closed is not None:
            raise Unavailable(str(self._closed))
        target = self._tracker.target
        if self._framework_deleted or target is None or target.uid != request.uid:
            raise NotFound(f'{FRAMEWORKS.resource} "{self._key[1]}" not found')
        if target.attempt > request.attempt or (target.attempt == request.attempt and target.ended):
            raise Forbidden(f"attempt {request.attempt} of this Framework has ended")
        if target.attempt < request.attempt:
            raise Unavailable(f"attempt {request.attempt} has not started; retry")
        return target

    def _dependent_roles(self, request: PeerRequest) -> DependentRoles:
        """Returns the roles that start after that of the request. Raises LauncherError if it is rejected."""
        target = self._target_of(request)
        role = None if request.task is None else request.task.role
        if role is not None and all(each.name != role for each in target.spec.roles):
            raise BadRequest(f"task: role {role} does not exist in this Framework")
        return dependent_roles(target.spec, role)

    def _missing_peers(self, request: PeerRequest) -> MissingPeers:
        tasks = list(self._tracker.missing(self._dependent_roles(request)))
        return MissingPeers(tuple(tasks[:_MAX_NAMED_TASKS]), len(tasks))

    async def _reserve_port(self, request: PeerRequest, port: int) -> None:
        """Writes *port* to an annotation of the task's pod, so that every replica of the launcher knows it."""
        self._target_of(request)
        if request.task is None or not self._tracker.has_auto_port(request.task.role):
            raise BadRequest("port: requires task=ROLE/INDEX of a role with `auto` in spec.discovery.ports")
        pod = await self._observed_pod(request, request.task)
        if pod.port is not None:
            return  # a pod keeps its first port
        node_port = (pod.node, port)
        used_ports = {(other.node, other.port): other.uid for other in self._tracker.pods_with_port()}
        if (used_ports | self._reserved_ports).get(node_port, pod.uid) != pod.uid:
            raise Conflict(f"port {port} of node {pod.node} is used by another task; choose another port")
        self._reserved_ports[node_port] = pod.uid
        try:
            patch = {"metadata": {"uid": pod.uid, "annotations": {PORT_ANNOTATION: str(port)}}}
            self._informer.upsert(await self._store.patch(PODS, self._key[0], pod.name, MergePatch(patch)))
        finally:
            del self._reserved_ports[node_port]

    async def _observed_pod(self, request: PeerRequest, task: TaskId) -> PeerPod:
        """Returns the pod of the task. It exists, since it sent the request, but the watch may be late."""
        name = pod_name(FrameworkName(self._key[1]), task.role, task.index)
        while (pod := self._tracker.pod(name)) is None:
            await self._pod_observed.setdefault(name, asyncio.Event()).wait()
            self._target_of(request)
        return pod
