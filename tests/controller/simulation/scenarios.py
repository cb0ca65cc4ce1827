"""Workloads (the Frameworks that are submitted) and disruptions (the faults during the run)."""

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
from tests import builders
from tests.controller.simulation.cluster import SimulatedCluster, SimulatedStore
from tests.controller.simulation.faults import Faults

#: Exit codes: unknown, a signal that is transient, and the three of the contract.
_EXIT_CODES = (1, 137, 200, 201, 210)


def a_role(name: str, tasks: int, *, fancy: bool = False, retries: int = 0, **fields: Any) -> Object:
    role = builders.a_role(name, tasks, **fields)
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": fancy, "maxRetryCount": retries}
    return role


def a_framework(name: str, *roles: Object, fancy: bool = False, retries: int = 0, **spec: Any) -> Object:
    return builders.a_framework(
        *roles,
        name=name,
        metadata={"namespace": "default"},
        **{
            "executionType": "Start",
            "retryPolicy": {"fancyRetryPolicy": fancy, "maxRetryCount": retries},
            **spec,
        },
    )


@dataclass(frozen=True)
class Workload:
    """Frameworks to run, and the failure rate and maximum duration of their pods."""

    frameworks: Callable[[Random], list[Object]]
    failure_rate: float = 0.1
    max_seconds: float = 30.0

    def outcome(self, random: Random) -> Callable[[Object], tuple[float, int]]:
        """Returns a function from a pod to its duration in seconds and its exit code."""

        def decide(_: Object) -> tuple[float, int]:
            code = random.choice(_EXIT_CODES) if random.random() < self.failure_rate else 0
            return random.random() * self.max_seconds, code

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
            attemptHistoryLimit=number + 1,
        )
        for number in range(3)
    ]


def _ordered_roles(random: Random) -> list[Object]:
    running, succeeded = [{"role": "ps", "condition": "Running"}], [{"role": "a", "condition": "Succeeded"}]
    return [
        a_framework("seq", a_role("ps", 2), a_role("w", 3, retries=1), roleSequence=["w", "ps"], retries=1),
        a_framework("wait", a_role("w", 3, retries=1, startAfter=running), a_role("ps", 2), retries=1),
        a_framework("chain", a_role("a", 2, retries=1), a_role("b", 2, startAfter=succeeded), retries=1),
    ]


def _gangs(random: Random) -> list[Object]:
    """Gangs with long and short timeouts."""
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
    "one-big": Workload(_one_big, failure_rate=0.03),
    "many-small": Workload(_many_small, failure_rate=0.2),
    "retry-storm": Workload(_retry_storm, failure_rate=0.5, max_seconds=15.0),
    "ordered-roles": Workload(_ordered_roles, failure_rate=0.1),
    "gangs": Workload(_gangs, failure_rate=0.1),
}


@dataclass
class Scenario:
    """The parts that a disruption acts on."""

    store: SimulatedStore
    cluster: SimulatedCluster
    random: Random
    faults: Faults
    #: Starts another controller and returns a function that cancels it.
    start_controller: Callable[[], Callable[[], Awaitable[None]]]
    stop_controller: Callable[[], Awaitable[None]]
    names: list[str] = field(default_factory=list)

    async def random_pause(self) -> None:
        await asyncio.sleep(self.random.expovariate(1 / 8))


RunDisruption = Callable[[Scenario], Awaitable[None]]


async def _no_disruption(scenario: Scenario) -> None:
    pass


async def _crashes(scenario: Scenario) -> None:
    for _ in range(12):
        await scenario.random_pause()
        await scenario.stop_controller()
        await asyncio.sleep(scenario.random.random() * 5)
        scenario.stop_controller = scenario.start_controller()


async def _two_controllers(scenario: Scenario) -> None:
    for _ in range(5):
        await scenario.random_pause()
        second = scenario.start_controller()
        await asyncio.sleep(scenario.random.random() * 20)
        await scenario.stop_controller()
        scenario.stop_controller = second


async def _pods_killed(scenario: Scenario) -> None:
    for _ in range(20):
        await scenario.random_pause()
        pods = (await scenario.store.list(PODS)).items
        if pods:
            meta = scenario.random.choice(list(pods))["metadata"]
            await _ignoring_conflicts(
                scenario.store.delete(PODS, meta["namespace"], meta["name"], DeleteOptions(uid=meta["uid"]))
            )


async def _nodes_disconnected(scenario: Scenario) -> None:
    for _ in range(6):
        await scenario.random_pause()
        await scenario.cluster.disconnect_node(scenario.random.random() * 40)


async def _clock_jumps(scenario: Scenario) -> None:
    for _ in range(8):
        await scenario.random_pause()
        scenario.store.clock_error += scenario.random.choice((-600, -30, -1, 1, 30, 600, 4000))


async def _name_conflicts(scenario: Scenario) -> None:
    """Pods of another owner have the name of a task for some time."""
    for _ in range(8):
        await scenario.random_pause()
        framework = await _random_framework(scenario)
        if framework is None:
            continue
        role = scenario.random.choice(framework["spec"]["taskRoles"])["name"]
        name = f"{framework['metadata']['name']}-{role}-0"
        pod = builders.a_pod(name)
        if await _ignoring_conflicts(scenario.store.create(PODS, pod)):
            await asyncio.sleep(scenario.random.random() * 30)
            await _ignoring_conflicts(scenario.store.delete(PODS, "default", name, DeleteOptions(grace=0)))


async def _user_edits(scenario: Scenario) -> None:
    """Users stop, rescale, delete and edit Frameworks at random times."""
    for _ in range(15):
        await scenario.random_pause()
        framework = await _random_framework(scenario)
        if framework is not None:
            await _ignoring_conflicts(_edit(scenario, framework))


async def _edit(scenario: Scenario, framework: Object) -> Object | None:
    name, random, store = framework["metadata"]["name"], scenario.random, scenario.store
    edit = random.choice(("scale", "scale", "scale", "edit", "label", "stop", "delete", "remove-role"))
    role = random.randrange(len(framework["spec"]["taskRoles"]))
    match edit:
        case "scale":
            path = f"/spec/taskRoles/{role}/taskNumber"
            change = {"op": "replace", "path": path, "value": random.randint(1, 5)}
            return await store.patch(FRAMEWORKS, "default", name, JsonPatch([change]))
        case "remove-role" if len(framework["spec"]["taskRoles"]) > 1 and name not in (
            "wait",
            "chain",
            "seq",
            "gang0",  # the remaining role is a background role, so the Framework would never complete
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
            propagation = random.choice((Propagation.FOREGROUND, Propagation.BACKGROUND))
            return await store.delete(FRAMEWORKS, "default", name, DeleteOptions(propagation=propagation))
        case _:
            label = MergePatch({"metadata": {"labels": {"edited": str(random.randrange(100))}}})
            return await store.patch(FRAMEWORKS, "default", name, label)


async def _random_framework(scenario: Scenario) -> Object | None:
    frameworks = list((await scenario.store.list(FRAMEWORKS)).items)
    return scenario.random.choice(frameworks) if frameworks else None


async def _ignoring_conflicts(call: Awaitable[Any]) -> bool:
    try:
        await call
    except (NotFound, Conflict, AlreadyExists):
        return False
    return True


@dataclass(frozen=True)
class Disruption:
    """Faults of the cluster, and faults of the controller's calls."""

    run: RunDisruption = _no_disruption
    faults: Faults = field(default_factory=Faults)
    #: A call may take effect after its controller stopped, or while another controller runs.
    calls_are_late: bool = False
    #: Logs are archived.
    archives: bool = False

    @property
    def only_archive_fails(self) -> bool:
        """Whether calls fail only of the archive and of logs."""
        return self.run is _no_disruption


async def _everything(scenario: Scenario) -> None:
    async with asyncio.TaskGroup() as group:
        for disruption in (
            _crashes,
            _pods_killed,
            _nodes_disconnected,
            _clock_jumps,
            _user_edits,
            _name_conflicts,
        ):
            group.create_task(disruption(scenario))


DISRUPTIONS: Mapping[str, Disruption] = {
    "calm": Disruption(),
    "lost-responses": Disruption(faults=Faults(lost_responses=0.2)),
    "error-responses": Disruption(faults=Faults(error_responses=0.25)),
    "late-responses": Disruption(faults=Faults(late_responses=0.3)),
    "late-events": Disruption(faults=Faults(late_events=0.3)),
    "duplicate-events": Disruption(faults=Faults(duplicate_events=0.3)),
    "closed-watches": Disruption(faults=Faults(closed_watches=0.2)),
    "expired": Disruption(faults=Faults(closed_watches=0.1, expired=0.5)),
    "stale-lists": Disruption(
        _crashes, calls_are_late=True, faults=Faults(closed_watches=0.1, expired=0.5, stale_lists=0.5)
    ),
    "slow-store": Disruption(faults=Faults(slow=0.5)),
    "crashes": Disruption(_crashes, calls_are_late=True, faults=Faults(slow=0.2)),
    "two-controllers": Disruption(
        _two_controllers, calls_are_late=True, faults=Faults(late_events=0.1, late_responses=0.1)
    ),
    "pods-killed": Disruption(_pods_killed),
    "nodes-disconnected": Disruption(_nodes_disconnected),
    "clock-jumps": Disruption(_clock_jumps),
    "name-conflicts": Disruption(_name_conflicts),
    "user-edits": Disruption(_user_edits),
    "log-archive": Disruption(archives=True),
    "failing-archive": Disruption(archives=True, faults=Faults(archive_errors=0.5, log_errors=0.1)),
    "slow-archive": Disruption(archives=True, faults=Faults(archive_slow=0.7)),
    "hanging-archive": Disruption(
        archives=True, faults=Faults(archive_hangs=0.3, archive_lost_responses=0.3)
    ),
    "crashes-with-archive": Disruption(
        _crashes,
        calls_are_late=True,
        archives=True,
        faults=Faults(slow=0.2, archive_slow=0.3, archive_lost_responses=0.3),
    ),
    "everything": Disruption(
        _everything,
        calls_are_late=True,
        archives=True,
        faults=Faults(
            lost_responses=0.05,
            error_responses=0.05,
            late_responses=0.1,
            late_events=0.1,
            duplicate_events=0.1,
            closed_watches=0.02,
            expired=0.2,
            stale_lists=0.2,
            slow=0.1,
            archive_errors=0.1,
            archive_hangs=0.05,
            archive_slow=0.1,
            archive_lost_responses=0.05,
            log_errors=0.05,
        ),
    ),
}
