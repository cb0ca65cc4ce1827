"""Workloads (what users run) and kinds of trouble (what goes wrong meanwhile)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from launcher.core.errors import AlreadyExists, Conflict, NotFound
from launcher.store.interface import (
    FRAMEWORKS,
    PODS,
    DeleteOptions,
    JsonPatch,
    MergePatch,
    Object,
    Propagation,
)
from tests.controller.simulation.cluster import Cluster, SimulatedStore
from tests.controller.simulation.faults import Faults

_POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
#: Exit codes: unknown, a signal that is transient, and the three of the contract.
_CODES = (1, 137, 200, 201, 210)


def a_role(name: str, tasks: int, *, fancy: bool = False, retries: int = 0, **more: Any) -> Object:
    """A role as a user writes it."""
    task = {"pod": _POD, "retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": retries}}
    return {"name": name, "taskNumber": tasks, "task": task, **more}


def a_framework(name: str, *roles: Object, fancy: bool = False, retries: int = 0, **spec: Any) -> Object:
    """A Framework as a user writes it."""
    return {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": FRAMEWORKS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": retries},
            "taskRoles": list(roles),
            **spec,
        },
    }


@dataclass(frozen=True)
class Workload:
    """Frameworks to run, and how likely their pods fail."""

    frameworks: Callable[[Random], list[Object]]
    failing: float = 0.1
    longest: float = 30.0

    def fate(self, random: Random) -> Callable[[Object], tuple[float, int]]:
        """How long a pod runs, and its exit code."""

        def decide(_: Object) -> tuple[float, int]:
            code = random.choice(_CODES) if random.random() < self.failing else 0
            return random.random() * self.longest, code

        return decide


def _one_big(random: Random) -> list[Object]:
    return [a_framework("big", a_role("ps", 4), a_role("worker", 30, retries=1), retries=1)]


def _many_small(random: Random) -> list[Object]:
    clean = ("Running", "All")
    return [
        a_framework(f"small{number}", a_role("w", random.randint(1, 3)), cleanPodPolicy=random.choice(clean))
        for number in range(8)
    ]


def _retry_storm(random: Random) -> list[Object]:
    fancy = (True, False)
    return [
        a_framework(
            f"storm{number}",
            a_role("a", 3, fancy=random.choice(fancy), retries=2),
            a_role("b", 2, fancy=random.choice(fancy), retries=1),
            fancy=random.choice(fancy),
            retries=2,
        )
        for number in range(3)
    ]


def _ordered_roles(random: Random) -> list[Object]:
    running, done = [{"role": "ps", "condition": "Running"}], [{"role": "a", "condition": "Succeeded"}]
    return [
        a_framework("seq", a_role("ps", 2), a_role("w", 3, retries=1), roleSequence=["w", "ps"], retries=1),
        a_framework("wait", a_role("w", 3, retries=1, startAfter=running), a_role("ps", 2), retries=1),
        a_framework("chain", a_role("a", 2, retries=1), a_role("b", 2, startAfter=done), retries=1),
    ]


def _gangs(random: Random) -> list[Object]:
    """Some have all the time they need, some hardly any."""
    return [
        a_framework(
            f"gang{number}",
            a_role("a", random.randint(1, 3), retries=1),
            a_role("b", random.randint(1, 2), background=number == 0),
            fancy=random.random() < 0.5,
            retries=2,
            gang={"timeoutSeconds": random.choice((1, 1, 60)), "minTasks": 1 if number == 1 else None},
        )
        for number in range(4)
    ]


WORKLOADS: Mapping[str, Workload] = {
    "one-big": Workload(_one_big, failing=0.03),
    "many-small": Workload(_many_small, failing=0.2),
    "retry-storm": Workload(_retry_storm, failing=0.5, longest=15.0),
    "ordered-roles": Workload(_ordered_roles, failing=0.1),
    "gangs": Workload(_gangs, failing=0.1),
}


@dataclass
class Scene:
    """Everything that trouble may touch."""

    store: SimulatedStore
    cluster: Cluster
    random: Random
    faults: Faults
    #: Start one more controller; the answer stops it, at whatever it is doing.
    start_controller: Callable[[], Callable[[], Awaitable[None]]]
    stop_controller: Callable[[], Awaitable[None]]
    names: list[str] = field(default_factory=list)

    async def some_time(self) -> None:
        await asyncio.sleep(self.random.expovariate(1 / 8))


Trouble = Callable[[Scene], Awaitable[None]]


async def _nothing(scene: Scene) -> None:
    pass


async def _crashes(scene: Scene) -> None:
    for _ in range(12):
        await scene.some_time()
        await scene.stop_controller()
        await asyncio.sleep(scene.random.random() * 5)
        scene.stop_controller = scene.start_controller()


async def _two_controllers(scene: Scene) -> None:
    for _ in range(5):
        await scene.some_time()
        second = scene.start_controller()
        await asyncio.sleep(scene.random.random() * 20)
        await scene.stop_controller()
        scene.stop_controller = second


async def _pods_killed(scene: Scene) -> None:
    for _ in range(20):
        await scene.some_time()
        pods = (await scene.store.list(PODS)).items
        if pods:
            meta = scene.random.choice(list(pods))["metadata"]
            await _tolerating(
                scene.store.delete(PODS, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"]))
            )


async def _nodes_lost(scene: Scene) -> None:
    for _ in range(6):
        await scene.some_time()
        await scene.cluster.lose_node(scene.random.random() * 40)


async def _clock_jumps(scene: Scene) -> None:
    for _ in range(8):
        await scene.some_time()
        scene.store.clock_error += scene.random.choice((-600, -30, -1, 1, 30, 600, 4000))


async def _foreign_pods(scene: Scene) -> None:
    """Somebody's own pod has the name of a task for a while."""
    for _ in range(8):
        await scene.some_time()
        framework = await _some_framework(scene)
        if framework is None:
            continue
        role = scene.random.choice(framework["spec"]["taskRoles"])["name"]
        name = f"{framework['metadata']['name']}-{role}-0"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, **_POD}
        if await _tolerating(scene.store.create(PODS, pod)):
            await asyncio.sleep(scene.random.random() * 30)
            await _tolerating(scene.store.delete(PODS, "default", name, DeleteOptions(grace=0)))


async def _meddling(scene: Scene) -> None:
    """Users stop, rescale, delete and edit at any moment."""
    for _ in range(15):
        await scene.some_time()
        framework = await _some_framework(scene)
        if framework is not None:
            await _tolerating(_meddle(scene, framework))


async def _meddle(scene: Scene, framework: Object) -> Object | None:
    name, random, store = framework["metadata"]["name"], scene.random, scene.store
    what = random.choice(("scale", "scale", "scale", "edit", "label", "stop", "delete", "remove-role"))
    role = random.randrange(len(framework["spec"]["taskRoles"]))
    match what:
        case "scale":
            path = f"/spec/taskRoles/{role}/taskNumber"
            change = {"op": "replace", "path": path, "value": random.randint(1, 5)}
            return await store.patch(FRAMEWORKS, "default", name, JsonPatch([change]))
        case "remove-role" if len(framework["spec"]["taskRoles"]) > 1 and name not in (
            "wait",
            "chain",
            "seq",
            "gang0",  # what is left would have nothing to do, for ever
        ):
            change = {"op": "remove", "path": f"/spec/taskRoles/{role}"}
            return await store.patch(FRAMEWORKS, "default", name, JsonPatch([change]))
        case "edit":
            policy = {"fancyRetryPolicy": random.random() < 0.5, "maxRetryCount": random.randint(0, 2)}
            return await store.patch(
                FRAMEWORKS, "default", name, MergePatch({"spec": {"retryPolicy": policy}})
            )
        case "stop":
            stop = MergePatch({"spec": {"executionType": "Stop"}})
            return await store.patch(FRAMEWORKS, "default", name, stop)
        case "delete":
            how = random.choice((Propagation.FOREGROUND, Propagation.BACKGROUND))
            return await store.delete(FRAMEWORKS, "default", name, DeleteOptions(propagation=how))
        case _:
            label = MergePatch({"metadata": {"labels": {"touched": str(random.randrange(100))}}})
            return await store.patch(FRAMEWORKS, "default", name, label)


async def _some_framework(scene: Scene) -> Object | None:
    frameworks = list((await scene.store.list(FRAMEWORKS)).items)
    return scene.random.choice(frameworks) if frameworks else None


async def _tolerating(call: Awaitable[Any]) -> bool:
    try:
        await call
    except (NotFound, Conflict, AlreadyExists):
        return False
    return True


@dataclass(frozen=True)
class Kind:
    """One kind of trouble: what happens around the launcher, and what happens to its calls."""

    happens: Trouble = _nothing
    faults: Faults = field(default_factory=Faults)
    #: A call may take effect after its sender is dead, or while another launcher thinks otherwise.
    calls_come_late: bool = False


async def _everything(scene: Scene) -> None:
    async with asyncio.TaskGroup() as group:
        for trouble in (_crashes, _pods_killed, _nodes_lost, _clock_jumps, _meddling, _foreign_pods):
            group.create_task(trouble(scene))


KINDS: Mapping[str, Kind] = {
    "calm": Kind(),
    "lost-answers": Kind(faults=Faults(lost_answers=0.2)),
    "refusals": Kind(faults=Faults(refusals=0.25)),
    "late-answers": Kind(faults=Faults(late_answers=0.3)),
    "late-events": Kind(faults=Faults(late_events=0.3)),
    "doubled-events": Kind(faults=Faults(doubled_events=0.3)),
    "cut-streams": Kind(faults=Faults(cut_streams=0.2)),
    "expired": Kind(faults=Faults(cut_streams=0.1, expired=0.5)),
    "stale-lists": Kind(
        _crashes, calls_come_late=True, faults=Faults(cut_streams=0.1, expired=0.5, stale_lists=0.5)
    ),
    "slow-store": Kind(faults=Faults(slow=0.5)),
    "crashes": Kind(_crashes, calls_come_late=True, faults=Faults(slow=0.2)),
    "two-controllers": Kind(_two_controllers, calls_come_late=True, faults=Faults(late_events=0.1)),
    "pods-killed": Kind(_pods_killed),
    "nodes-lost": Kind(_nodes_lost),
    "clock-jumps": Kind(_clock_jumps),
    "foreign-pods": Kind(_foreign_pods),
    "meddling-users": Kind(_meddling),
    "everything": Kind(
        _everything,
        calls_come_late=True,
        faults=Faults(
            lost_answers=0.05,
            refusals=0.05,
            late_answers=0.1,
            late_events=0.1,
            doubled_events=0.1,
            cut_streams=0.02,
            expired=0.2,
            stale_lists=0.2,
            slow=0.1,
        ),
    ),
}
