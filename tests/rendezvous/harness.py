"""A Framework and its pods in a memory store, and the rendezvous sessions of a launcher over it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from launcher.core.errors import AlreadyExists
from launcher.core.pods.pod_template import PodTemplate
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName, FrameworkSpec, RoleName
from launcher.rendezvous.peer_files import PeerFiles
from launcher.rendezvous.peer_tracker import (
    PORT_ANNOTATION,
    PeerPod,
    RendezvousTarget,
    TaskId,
    peer_pod_from_json,
    target_from_json,
)
from launcher.rendezvous.session import MissingPeers, PeerRequest
from launcher.rendezvous.session_manager import SessionManager
from launcher.rendezvous.tokens import Tokens
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, PODS, Change, DeleteOptions, Object, ResourceKind, Version
from launcher.store.selectors import EVERYTHING, Selector
from tests.builders import Json, a_framework
from tests.eventually import TIMEOUT_SECONDS, eventually
from tests.store.builders import uids

NAMESPACE = "default"
#: The key of the Framework in the store.
KEY = (NAMESPACE, "mnist")
WORKER, PS = RoleName("worker"), RoleName("ps")
UID = "5a0c1bb8-7c33-4a8b-9a55-6d1f2f0f8a3e"


def some_tokens(key: bytes = b"k" * 32) -> Tokens:
    """Tokens of a launcher with this key."""

    async def key_provider() -> bytes:
        return key

    return Tokens(key_provider)


def a_stored_framework(*roles: Json, uid: str = UID, **spec: Any) -> Object:
    """A Framework as a store returns it."""
    framework = a_framework(*roles, **spec)
    return {**framework, "metadata": {**framework["metadata"], "namespace": NAMESPACE, "uid": uid}}


def a_target(*roles: Json, **spec: Any) -> RendezvousTarget:
    return target_from_json(a_stored_framework(*roles, **spec))


def spec_of(*roles: Json, **spec: Any) -> FrameworkSpec:
    return spec_from_json(a_framework(*roles, **spec)["spec"])


def task_id(task: str) -> TaskId:
    """``worker/0`` as a TaskId."""
    role, _, index = task.partition("/")
    return TaskId(RoleName(role), int(index))


def a_task_pod(framework: Object, task: str, *, attempt: int = 0, task_attempt: int = 0) -> Object:
    """The pod of ``worker/0`` as the controller creates it."""
    name, _, index = task.partition("/")
    spec = spec_from_json(framework["spec"])
    (role,) = (each for each in spec.roles if each.name == name)
    metadata = framework["metadata"]
    counts = {each.name: each.tasks for each in spec.roles}
    template = PodTemplate.compile(
        FrameworkName(metadata["name"]), metadata["namespace"], metadata["uid"], attempt, role, counts
    )
    return template.pod(int(index), 0, task_attempt)


def a_peer_pod(
    framework: Object, task: str, ip: str = "", *, port: int | None = None, **attempts: Any
) -> PeerPod:
    """The pod of ``worker/0`` with this address and port, as a session observes it."""
    pod = a_task_pod(framework, task, **attempts)
    pod["metadata"]["uid"] = f"uid of {task}"
    if port is not None:
        pod["metadata"]["annotations"][PORT_ANNOTATION] = str(port)
    parsed = peer_pod_from_json({**pod, "status": {"podIP": ip, "hostIP": ip}})
    assert parsed is not None
    return parsed


class CountingStore(MemoryStore):
    """A memory store that counts reads and watches."""

    def __init__(self) -> None:
        super().__init__(time.time, uids())
        #: Number of reads by kind.
        self.reads: Counter[str] = Counter()
        #: Number of current watches.
        self.watches = 0
        #: The version of the last change that a watcher has handled.
        self.handled_version: Version = 0

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        self.reads[kind.plural] += 1
        return await super().get(kind, namespace, name)

    async def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
        seconds: float | None = None,
    ) -> AsyncGenerator[Change, None]:
        self.watches += 1
        changes = super().watch(kind, namespace, where, since=since, bookmarks=bookmarks, seconds=seconds)
        try:
            async for change in changes:
                yield change
                # A watcher that requests the next change has handled this one.
                self.handled_version = change.version
        finally:
            self.watches -= 1


class RendezvousHarness:
    """One Framework and its pods in a store, and the sessions over it."""

    def __init__(self, **limits: Any) -> None:
        self.store = CountingStore()
        self.sessions = SessionManager(self.store, **limits)
        self.framework: Object = {}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Runs the sessions inside the context."""
        sessions = asyncio.create_task(self.sessions.run())
        try:
            yield
        finally:
            sessions.cancel()
            await asyncio.wait([sessions])

    @property
    def uid(self) -> str:
        uid: str = self.framework["metadata"]["uid"]
        return uid

    # The Framework and its pods.

    async def submit(self, *roles: Json, **spec: Any) -> None:
        framework = a_framework(*roles, **spec)
        framework["metadata"]["namespace"] = NAMESPACE
        self.framework = await self.store.create(FRAMEWORKS, framework)

    async def update_spec(self, change: Callable[[Json], None]) -> None:
        await self._reload()
        change(self.framework["spec"])
        self.framework = await self.store.update(FRAMEWORKS, self.framework)

    async def set_status(self, state: str = "AttemptRunning", attempt: int = 0, rescales: int = 0) -> None:
        """Write the status as the controller does."""
        await self._reload()
        status = {"state": state, "attemptStatus": {"id": attempt, "rescaleCount": rescales}}
        self.framework = await self.store.update_status(FRAMEWORKS, {**self.framework, "status": status})

    async def _reload(self) -> None:
        self.framework = await self.store.get(FRAMEWORKS, *KEY)

    async def create_pod(self, task: str, *, node: str = "n1", **attempts: Any) -> None:
        """Create the pod of ``worker/0`` without an address."""
        pod = a_task_pod(self.framework, task, **attempts)
        await self.store.create(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})

    async def set_address(self, task: str, ip: str, **pod_options: Any) -> None:
        """Set the address of the pod of ``worker/0``, which is created if it does not exist."""
        with suppress(AlreadyExists):
            await self.create_pod(task, **pod_options)
        pod = await self.pod(task)
        status = {"phase": "Running", "podIP": ip, "hostIP": ip}
        await self.store.update_status(PODS, {**pod, "status": status})

    async def pod(self, task: str) -> Object:
        return await self.store.get(PODS, NAMESPACE, self._pod_name(task))

    async def delete_pod(self, task: str) -> None:
        await self.store.delete(PODS, NAMESPACE, self._pod_name(task), DeleteOptions(grace=0))

    def _pod_name(self, task: str) -> str:
        return f"{self.framework['metadata']['name']}-{task.replace('/', '-')}"

    # Requests.

    def request(self, task: str = "", **fields: Any) -> PeerRequest:
        """A request of ``worker/0``, or of a client that does not name its task."""
        return PeerRequest(
            **{"uid": self.uid, "attempt": 0, "task": task_id(task) if task else None, **fields}
        )

    async def wait_for_peers(
        self, task: str = "", *, wait_seconds: float = TIMEOUT_SECONDS, **fields: Any
    ) -> PeerFiles | MissingPeers:
        _, result = await self.sessions.wait_for_peers(KEY, self.request(task, **fields), wait_seconds)
        return result

    async def addresses(self, task: str = "", **fields: Any) -> dict[str, list[str]]:
        """The addresses in the response, by role."""
        result = await self.wait_for_peers(task, **fields)
        assert isinstance(result, PeerFiles), result
        return {role: [peer.ip for peer in peers] for role, peers in result.peer_list.roles.items()}

    async def until_waiting(self, count: int = 1) -> None:
        """Return when *count* requests wait."""
        await eventually(lambda: self.sessions.waiters == count)

    async def until_handled(self) -> None:
        """Return when the session has handled the last write to the store."""
        version = self.store.version
        await eventually(lambda: self.store.handled_version >= version)


@asynccontextmanager
async def run_harness(**limits: Any) -> AsyncIterator[RendezvousHarness]:
    """A harness with running sessions; what is done with it must end in time."""
    harness = RendezvousHarness(**limits)
    async with asyncio.timeout(TIMEOUT_SECONDS), harness.running():
        yield harness
