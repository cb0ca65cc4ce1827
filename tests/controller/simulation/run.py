"""One run of the simulation, which is determined by a workload, a disruption and a seed."""

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
from tests.controller.simulation.audit import Auditor, InvariantViolation
from tests.controller.simulation.cluster import SimulatedCluster, SimulatedStore
from tests.controller.simulation.faults import FaultyStore
from tests.controller.simulation.log_audit import LogAuditor, both
from tests.controller.simulation.logs import FaultyArchive, SimulatedLogs
from tests.controller.simulation.scenarios import DISRUPTIONS, WORKLOADS, Scenario

#: All Frameworks complete within this virtual time after the last disruption: retries wait up to 15 minutes each.
_TIMEOUT_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class Case:
    """The identity of a run."""

    workload: str
    disruption: str
    seed: int

    def __str__(self) -> str:
        """The CASE argument of ``make simulate``."""
        return f"{self.workload}/{self.disruption}/{self.seed}"


@dataclass(frozen=True)
class CaseOutcome:
    """The final version of the store and the final time, by which runs are compared."""

    version: int
    seconds: float


def run(case: Case) -> CaseOutcome:
    """Runs the case. Raises InvariantViolation."""
    return virtual_time.run(_run(case))


async def _run(case: Case) -> CaseOutcome:
    random = Random(str(case))
    store = SimulatedStore(random)
    auditor = Auditor()
    failures: list[Exception] = []
    store.audit = _recording(auditor, failures)
    disruption, workload = DISRUPTIONS[case.disruption], WORKLOADS[case.workload]
    faults = replace(disruption.faults, old_pages={})
    options = PlannerOptions()
    logs: LogAuditor | None = None
    if disruption.archives:
        logs = LogAuditor(
            store,
            SimulatedLogs(store, faults, random),
            FaultyArchive(faults, random),
            failures,
            is_strict=disruption.only_archive_fails,
        )
        store.audit = both(store.audit, logs)

    def start_controller() -> Callable[[], Awaitable[None]]:
        faulty = FaultyStore(store, faults, random)
        controller = FrameworkController(
            faulty,
            clock=store.clock,
            jitter=random.random,
            planner_options=options,
            log_copier=logs.new_copier() if logs is not None else None,
        )
        if logs is not None:
            logs.observe(controller)
        task = asyncio.get_running_loop().create_task(controller.run())

        async def stop() -> None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        return stop

    cluster = SimulatedCluster(store, random, workload.outcome(random))
    nodes = asyncio.get_running_loop().create_task(cluster.run())
    scenario = Scenario(store, cluster, random, faults, start_controller, start_controller())
    for framework in workload.frameworks(random):
        await store.create(FRAMEWORKS, framework)
    await disruption.run(scenario)
    await asyncio.sleep(60.0)
    faults.disabled = True
    await _wait_for_completion(store, failures)
    if logs is not None:
        await logs.check_end()
    await scenario.stop_controller()
    nodes.cancel()
    if failures:
        raise failures[0]
    if not disruption.calls_are_late and any(pod.created_late for pod in auditor.pods.values()):
        raise InvariantViolation(
            "a pod was created for a completed attempt, or for one with a pod, although no call was late"
        )
    frameworks, pods = await store.list(FRAMEWORKS), await store.list(PODS)
    auditor.check_end(list(frameworks.items), list(pods.items), store.clock(), options)
    return CaseOutcome(pods.version, asyncio.get_running_loop().time())


def _recording(auditor: Auditor, failures: list[Exception]) -> Callable[..., None]:
    """Returns an audit hook that appends violations to *failures* instead of raising them in the writer."""

    def audit(*args: object) -> None:
        try:
            auditor(*args)  # type: ignore[arg-type]  # forwarded
        except InvariantViolation as violation:
            failures.append(violation)

    return audit


async def _wait_for_completion(store: SimulatedStore, failures: list[Exception]) -> None:
    """Waits until every Framework is completed or deleted, and its pods are cleaned up."""
    deadline = asyncio.get_running_loop().time() + _TIMEOUT_SECONDS
    while asyncio.get_running_loop().time() < deadline and not failures:
        await asyncio.sleep(20.0)
        frameworks = (await store.list(FRAMEWORKS)).items
        if all((obj.get("status") or {}).get("state") == "Completed" for obj in frameworks):
            await asyncio.sleep(120.0)  # for late calls and the garbage collector
            return


def disable_logging() -> None:
    """Disables the launcher's log: faults are expected in a simulation."""
    logging.getLogger("launcher").setLevel(logging.CRITICAL + 1)
