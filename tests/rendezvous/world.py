"""A Framework in a store, whose pods come, get addresses and go as a test says."""

import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from launcher.core.errors import AlreadyExists
from launcher.core.pods.pod_template import PodTemplate
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.spec import FrameworkName, FrameworkSpec, RoleName
from launcher.rendezvous.peer_tracker import PORT, PeerPod, RendezvousTarget, seen_from_json, wanted_from_json
from launcher.rendezvous.tokens import Tokens
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, PODS, Change, DeleteOptions, Object, ResourceKind, Version
from launcher.store.selectors import EVERYTHING, Selector
from tests.api.conftest import uids
from tests.core.manifests import Json, a_framework

NAMESPACE = "default"
WORKER, PS = RoleName("worker"), RoleName("ps")
UID = "5a0c1bb8-7c33-4a8b-9a55-6d1f2f0f8a3e"


async def _key() -> bytes:
    return b"k" * 32


def some_tokens() -> Tokens:
    """Those of a launcher with a key that tests know."""
    return Tokens(_key)


def a_stored_framework(*roles: Json, uid: str = UID, **spec: Any) -> Object:
    """A Framework as a store would give it out."""
    framework = a_framework(*roles, **spec)
    return {**framework, "metadata": {**framework["metadata"], "namespace": NAMESPACE, "uid": uid}}


def wanted(*roles: Json, **spec: Any) -> RendezvousTarget:
    """What is wanted of such a Framework."""
    return wanted_from_json(a_stored_framework(*roles, **spec))


def spec_of(*roles: Json, **spec: Any) -> FrameworkSpec:
    return spec_from_json(a_framework(*roles, **spec)["spec"])


def a_task_pod(framework: Object, task: str, *, attempt: int = 0, task_attempt: int = 0) -> Object:
    """The pod of ``worker/0`` as the controller makes it."""
    role, _, index = task.partition("/")
    spec = spec_from_json(framework["spec"])
    (named,) = (each for each in spec.roles if each.name == role)
    metadata = framework["metadata"]
    counts = {each.name: each.tasks for each in spec.roles}
    template = PodTemplate.of(
        FrameworkName(metadata["name"]), metadata["namespace"], metadata["uid"], attempt, named, counts
    )
    return template.pod(int(index), 0, task_attempt)


def seen(framework: Object, task: str, ip: str = "", *, port: int | None = None, **which: Any) -> PeerPod:
    """That pod as a room sees it, with this address."""
    pod = a_task_pod(framework, task, **which)
    pod["metadata"]["uid"] = f"uid of {task}"
    if port is not None:
        pod["metadata"]["annotations"][PORT] = str(port)
    found = seen_from_json({**pod, "status": {"podIP": ip, "hostIP": ip}})
    assert found is not None
    return found


class Counting(MemoryStore):
    """A store in memory that knows how often something was read, and who follows."""

    def __init__(self) -> None:
        super().__init__(time.time, uids())
        self.read: Counter[str] = Counter()
        self.followers = 0
        self.heard: Version = 0

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        self.read[kind.plural] += 1
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
        self.followers += 1
        changes = super().watch(kind, namespace, where, since=since, bookmarks=bookmarks, seconds=seconds)
        try:
            async for change in changes:
                yield change
                # Whoever comes for the next has taken this one in.
                self.heard = change.version
        finally:
            self.followers -= 1


class World:
    """One Framework and its pods in a store."""

    def __init__(self) -> None:
        self.store = Counting()
        self.framework: Object = {}

    async def submit(self, *roles: Json, **spec: Any) -> None:
        framework = a_framework(*roles, **spec)
        framework["metadata"]["namespace"] = NAMESPACE
        self.framework = await self.store.create(FRAMEWORKS, framework)

    @property
    def uid(self) -> str:
        uid: str = self.framework["metadata"]["uid"]
        return uid

    async def edit(self, change: Callable[[Json], None]) -> None:
        """Change the spec."""
        await self._reload()
        change(self.framework["spec"])
        self.framework = await self.store.update(FRAMEWORKS, self.framework)

    async def status(self, state: str = "AttemptRunning", attempt: int = 0, rescales: int = 0) -> None:
        """The controller has saved that."""
        await self._reload()
        status = {"state": state, "attemptStatus": {"id": attempt, "rescaleCount": rescales}}
        self.framework = await self.store.update_status(FRAMEWORKS, {**self.framework, "status": status})

    async def _reload(self) -> None:
        self.framework = await self.store.get(FRAMEWORKS, NAMESPACE, "mnist")

    async def create(self, task: str, *, node: str = "n1", **which: Any) -> None:
        """The pod of ``worker/0`` is there, and has no address yet."""
        pod = a_task_pod(self.framework, task, **which)
        await self.store.create(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})

    async def place(self, task: str, ip: str, **which: Any) -> None:
        """The pod of ``worker/0`` is there, with this address."""
        with suppress(AlreadyExists):
            await self.create(task, **which)
        pod = await self.pod(task)
        status = {"phase": "Running", "podIP": ip, "hostIP": ip}
        await self.store.update_status(PODS, {**pod, "status": status})

    async def pod(self, task: str) -> Object:
        return await self.store.get(PODS, NAMESPACE, self._name(task))

    async def remove(self, task: str) -> None:
        await self.store.delete(PODS, NAMESPACE, self._name(task), DeleteOptions(grace=0))

    def _name(self, task: str) -> str:
        return f"{self.framework['metadata']['name']}-{task.replace('/', '-')}"
