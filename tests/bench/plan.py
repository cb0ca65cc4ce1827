"""The cost of planning per task and per pod event, by the size of the Framework."""

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter
from typing import Any

from launcher.core.framework import Framework
from launcher.core.names import TaskIdentity, pod_name, task_uid
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner, plan
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import FrameworkName, FrameworkSpec, RoleName, TaskRole
from launcher.core.status import State
from tests.bench import Row, row

SIZES = (10, 100, 1_000, 10_000)
#: All costs are ratios to the cost at this size.
BASE_SIZE = 100
GOAL = 1.2
ROUNDS = 7
#: The number of tasks in each round, for every size of Framework.
TASKS = 10_000
#: The number of pods whose events are processed in each round, one at a time.
PODS = 1_000

F, W = FrameworkName("bench"), RoleName("w")
UID, NOW = "11111111-2222-3333-4444-555555555555", 1_767_225_600


def a_framework(tasks: int) -> Framework:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    return Framework(F, "default", UID, 1, FrameworkSpec((TaskRole(W, tasks, pod),)))


def an_observed_pod(index: int) -> ObservedPod:
    """The pod of one task, just created."""
    identity = TaskIdentity(F, W, index, 0, 0, task_uid(UID, 0, W, index, 0))
    return ObservedPod(pod_name(F, W, index), f"uid-{index}", 1, UID, identity, "Pending", NOW)


RUNNING = {"phase": "Running", "node": "n1", "ip": "10.0.0.1", "host_ip": "192.0.2.1"}
#: The states of each pod after its creation.
POD_STATES: tuple[dict[str, Any], ...] = (
    {**RUNNING, "version": 2},
    {**RUNNING, "version": 3, "phase": "Succeeded", "terminal_status": {"phase": "Succeeded"}},
)


def first_plans(tasks: int) -> float:
    """Seconds per task to plan a new Framework."""
    framework = a_framework(tasks)
    repeats = TASKS // tasks
    start = perf_counter()
    for _ in range(repeats):
        plan(framework, (), NOW)
    return (perf_counter() - start) / (repeats * tasks)


def pod_events(tasks: int) -> float:
    """Seconds per event of a persistent planner: a pod runs, a pod succeeds, with a plan after each."""
    # Without the last task: its completion completes the attempt, for which every task is planned.
    observed = min(tasks - 1, PODS)
    planners = [a_planner(tasks) for _ in range(max(1, PODS // tasks))]
    events = [
        replace(pod, **fields) for fields in POD_STATES for pod in map(an_observed_pod, range(observed))
    ]
    start = perf_counter()
    for planner in planners:
        for pod in events:
            planner.observe_pod(pod)
            planner.plan(NOW)
    spent = perf_counter() - start
    if any(planner.status().state is not State.RUNNING for planner in planners):
        raise ValueError("the planners are not in state AttemptRunning")
    return spent / (len(planners) * len(events))


def a_planner(tasks: int) -> Planner:
    """A planner that has observed the creation of every pod."""
    planner = Planner(a_framework(tasks), PlannerOptions())
    planner.plan(NOW)
    for index in range(tasks):
        planner.observe_pod(an_observed_pod(index))
    planner.plan(NOW)
    return planner


def bytes_per_task(tasks: int) -> float:
    """The memory of a planner per task and pod."""
    gc.collect()
    tracemalloc.start()
    try:
        planner = a_planner(tasks)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / len(planner.pods)
    finally:
        tracemalloc.stop()


def rows() -> list[Row]:
    """Measures in turns and returns medians, so that other load on the machine affects all alike."""
    rows = [
        *_rows("cost per task of the first plan", first_plans),
        *_rows("cost per pod event", pod_events),
    ]
    return [*rows, row("memory per task and pod of a planner", bytes_per_task(SIZES[-1]), "bytes")]


def _rows(name: str, measure: Callable[[int], float]) -> list[Row]:
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size in SIZES:
            gc.collect()
            seconds[size].append(measure(size))
    base = seconds[BASE_SIZE]
    ratios = {
        size: median(cost / base_cost for cost, base_cost in zip(costs, base, strict=True))
        for size, costs in seconds.items()
    }
    return [
        row(f"plan: {name} at {BASE_SIZE} tasks", median(base) * 1e6, "µs"),
        *(
            # With ten tasks the cost of the Framework itself counts more; only growth is a failure.
            row(
                f"plan: {name} at {size:,} tasks, compared with {BASE_SIZE}",
                ratio,
                "ratio",
                at_most=GOAL if size > BASE_SIZE else None,
            )
            for size, ratio in ratios.items()
            if size != BASE_SIZE
        ),
    ]
