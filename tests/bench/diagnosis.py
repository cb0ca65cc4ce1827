"""
The cost of a diagnosis at 10,000 tasks, and per task compared with small Frameworks.

The small Frameworks have as many tasks together, so that they fill the caches of the processor alike.
"""

import gc
from collections.abc import Callable, Sequence
from statistics import median
from time import process_time

from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.inputs import DiagnosisInput
from launcher.core.diagnosis.needed_reads import log_of_failure, running_pods
from launcher.core.status import State
from tests.bench import Row, row
from tests.core.diagnosis.situations import (
    WORKER,
    Json,
    a_failed_task,
    a_pod,
    a_role,
    a_situation,
    a_status,
    a_task,
    an_exit,
    last_exit,
    unschedulable,
    waiting,
)

TASKS, FEW_TASKS = 10_000, 100
GOAL_MILLISECONDS = 50
GOAL_RATIO = 1.2
ROUNDS = 9
#: As the API checks in local mode.
MAX_RUNNING_PODS = 200


def running(tasks: int) -> DiagnosisInput:
    container: Json = {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {}}}
    pods = [a_pod(index, phase="Running", containerStatuses=[container]) for index in range(tasks)]
    return _situation(tasks, State.RUNNING, pods)


def unscheduled(tasks: int) -> DiagnosisInput:
    message = "0/1 nodes are available: 1 Insufficient cpu."
    return _situation(tasks, State.PREPARING, [unschedulable(message, index=index) for index in range(tasks)])


def crashing(tasks: int) -> DiagnosisInput:
    """Every pod has its own message."""
    pods = [
        waiting(
            "CrashLoopBackOff",
            f"back-off 40s restarting failed container=main pod=mnist-worker-{index}_default({index})",
            index=index,
            restartCount=5,
            lastState=last_exit(1 + index % 3, message=f"task {index} failed"),
        )
        for index in range(tasks)
    ]
    return _situation(tasks, State.PREPARING, pods)


def failed(tasks: int) -> DiagnosisInput:
    ends = [a_failed_task(index, an_exit(1 + index % 3, message=f"task {index}")) for index in range(tasks)]
    return a_situation(a_status(ends), roles=[a_role(WORKER, tasks)])


def _situation(tasks: int, state: State, pods: list[Json]) -> DiagnosisInput:
    status = a_status([a_task(index, state) for index in range(tasks)])
    return a_situation(status, *pods, roles=[a_role(WORKER, tasks)])


def rows() -> list[Row]:
    """Measures in turns and returns medians, so that other load on the machine affects all alike."""
    cases = {"running": running, "unschedulable": unscheduled, "crashing": crashing, "failed": failed}
    return [each for name, case in cases.items() for each in _rows(name, case)]


def _rows(name: str, case: Callable[[int], DiagnosisInput]) -> list[Row]:
    large, small = [case(TASKS)], [case(FEW_TASKS) for _ in range(TASKS // FEW_TASKS)]
    seconds: list[float] = []
    ratios: list[float] = []
    for _ in range(ROUNDS):
        gc.collect()
        seconds.append(_seconds(large))
        ratios.append(seconds[-1] / _seconds(small))
    return [
        row(f"diagnosis: {TASKS:,} {name} tasks", median(seconds) * 1e3, "ms", at_most=GOAL_MILLISECONDS),
        row(
            f"diagnosis: cost per {name} task at {TASKS:,} tasks, compared with {FEW_TASKS}",
            median(ratios),
            "ratio",
            at_most=GOAL_RATIO,
        ),
    ]


def _seconds(sources: Sequence[DiagnosisInput]) -> float:
    begun = process_time()
    for source in sources:
        # As for a request: which logs are needed, then the findings.
        log_of_failure(source)
        running_pods(source, None, limit=MAX_RUNNING_PODS)
        diagnose(source)
    return process_time() - begun
