"""One run: a workload, a kind of trouble and a seed, from which everything else follows exactly."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from launcher.controller.framework_controller import FrameworkController
from launcher.core.planning.options import PlannerOptions
from launcher.store.interface import FRAMEWORKS, PODS
from tests.controller.simulation import virtual_time
from tests.controller.simulation.audit import Auditor, Broken
from tests.controller.simulation.cluster import Cluster, SimulatedStore
from tests.controller.simulation.faults import FaultyStore
from tests.controller.simulation.scenes import KINDS, WORKLOADS, Scene

#: Everything ends within this many seconds of virtual time after the last trouble: retries wait up to 15 minutes each.
_LONGEST = 6 * 3600.0


@dataclass(frozen=True)
class Case:
    """What identifies a run."""

    workload: str
    kind: str
    seed: int

    def __str__(self) -> str:
        """As it is given to ``make simulate`` to see it again."""
        return f"{self.workload}/{self.kind}/{self.seed}"


@dataclass(frozen=True)
class Outcome:
    """What a run came to: the final version of the store and the clock tell two runs apart."""

    version: int
    seconds: float


def run(case: Case) -> Outcome:
    """Play the case. Raises Broken when a promise was."""
    return virtual_time.run(_play(case))


async def _play(case: Case) -> Outcome:
    random = Random(str(case))
    store = SimulatedStore(random)
    auditor = Auditor()
    failures: list[Exception] = []
    store.audit = _catching(auditor, failures)
    kind, workload = KINDS[case.kind], WORKLOADS[case.workload]
    faults = replace(kind.faults, old_pages={})
    rules = PlannerOptions()

    def start_controller() -> Callable[[], Awaitable[None]]:
        faulty = FaultyStore(store, faults, random)
        controller = FrameworkController(faulty, clock=store.clock, chance=random.random, rules=rules)
        task = asyncio.get_running_loop().create_task(controller.run())

        async def stop() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        return stop

    cluster = Cluster(store, random, workload.fate(random))
    nodes = asyncio.get_running_loop().create_task(cluster.run())
    scene = Scene(store, cluster, random, faults, start_controller, start_controller())
    for framework in workload.frameworks(random):
        await store.create(FRAMEWORKS, framework)
    await kind.happens(scene)
    await asyncio.sleep(60.0)
    faults.over = True
    await _until_rest(store, failures)
    await scene.stop_controller()
    nodes.cancel()
    if failures:
        raise failures[0]
    if not kind.calls_come_late and any(story.late for story in auditor.stories.values()):
        raise Broken("a pod was created for a try that was over or had its pod, though no call came late")
    frameworks, pods = await store.list(FRAMEWORKS), await store.list(PODS)
    auditor.check_end(list(frameworks.items), list(pods.items), store.clock(), rules)
    return Outcome(pods.version, asyncio.get_running_loop().time())


def _catching(auditor: Auditor, failures: list[Exception]) -> Callable[..., None]:
    """A broken promise is remembered, not thrown at whoever happened to write."""

    def audit(*what: object) -> None:
        try:
            auditor(*what)  # type: ignore[arg-type]  # handed through
        except Broken as broken:
            failures.append(broken)

    return audit


async def _until_rest(store: SimulatedStore, failures: list[Exception]) -> None:
    """Until every Framework has ended or gone, and all that was left of them is cleaned up."""
    deadline = asyncio.get_running_loop().time() + _LONGEST
    while asyncio.get_running_loop().time() < deadline and not failures:
        await asyncio.sleep(20.0)
        frameworks = (await store.list(FRAMEWORKS)).items
        if all((obj.get("status") or {}).get("state") == "Completed" for obj in frameworks):
            await asyncio.sleep(120.0)  # for what came late, and for the garbage collector
            return


def quiet() -> None:
    """The launcher's own log says nothing: troubles are what a simulation is for."""
    logging.getLogger("launcher").setLevel(logging.CRITICAL + 1)
