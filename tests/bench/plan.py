"""What planning costs per task, and per pod event, as a Framework grows."""

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
#: All costs are told as ratios to that at this size.
YARDSTICK = 100
GOAL = 1.2
ROUNDS = 7
#: So many tasks are worked on in each round, however small the Framework.
TASKS = 10_000
#: The events of so many pods are told in each round, one at a time.
PODS = 1_000

F, W = FrameworkName("bench"), RoleName("w")
UID, NOW = "11111111-2222-3333-4444-555555555555", 1_767_225_600


def a_framework(tasks: int) -> Framework:
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    return Framework(F, "default", UID, 1, FrameworkSpec((TaskRole(W, tasks, pod),)))


def a_pod(index: int) -> ObservedPod:
    """The pod of one task, just accepted."""
    of = TaskIdentity(F, W, index, 0, 0, task_uid(UID, 0, W, index, 0))
    return ObservedPod(pod_name(F, W, index), f"uid-{index}", 1, UID, of, "Pending", NOW)


ALIVE = {"phase": "Running", "node": "n1", "ip": "10.0.0.1", "host_ip": "192.0.2.1"}
#: What is told of each pod after it was accepted.
STORY: tuple[dict[str, Any], ...] = (
    {**ALIVE, "version": 2},
    {**ALIVE, "version": 3, "phase": "Succeeded", "end": {"phase": "Succeeded"}},
)


def first_plans(tasks: int) -> float:
    """Seconds per task to plan a Framework that nothing has happened to yet."""
    framework = a_framework(tasks)
    repeats = TASKS // tasks
    begun = perf_counter()
    for _ in range(repeats):
        plan(framework, (), NOW)
    return (perf_counter() - begun) / (repeats * tasks)


def pod_events(tasks: int) -> float:
    """Seconds per event of a kept planner: a pod runs, a pod succeeds, with a look after each."""
    # The last task's end ends the attempt, and then every task is looked at by right: it is left out.
    told = min(tasks - 1, PODS)
    planners = [a_planner(tasks) for _ in range(max(1, PODS // tasks))]
    news = [replace(pod, **words) for words in STORY for pod in map(a_pod, range(told))]
    begun = perf_counter()
    for planner in planners:
        for pod in news:
            planner.attempt_state.observe_pod(pod)
            planner.plan(NOW)
    spent = perf_counter() - begun
    if any(planner.status().state is not State.RUNNING for planner in planners):
        raise ValueError("the planners did not follow the story")
    return spent / (len(planners) * len(news))


def a_planner(tasks: int) -> Planner:
    """A planner that has seen every pod accepted."""
    planner = Planner(a_framework(tasks), PlannerOptions())
    planner.plan(NOW)
    for index in range(tasks):
        planner.attempt_state.observe_pod(a_pod(index))
    planner.plan(NOW)
    return planner


def bytes_per_task(tasks: int) -> float:
    """What a planner keeps of one task and its pod."""
    gc.collect()
    tracemalloc.start()
    try:
        planner = a_planner(tasks)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / len(planner.attempt_state.pods)
    finally:
        tracemalloc.stop()


def rows() -> list[Row]:
    """The figures; medians of rounds that take turns, so that a busy moment touches all alike."""
    figures = [
        *_figures("cost per task of the first plan", first_plans),
        *_figures("cost per pod event", pod_events),
    ]
    return [*figures, row("memory per task and pod of a planner", bytes_per_task(SIZES[-1]), "bytes")]


def _figures(name: str, measure: Callable[[int], float]) -> list[Row]:
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size in SIZES:
            gc.collect()
            seconds[size].append(measure(size))
    base = seconds[YARDSTICK]
    ratios = {
        size: median(cost / there for cost, there in zip(costs, base, strict=True))
        for size, costs in seconds.items()
    }
    return [
        row(f"plan: {name} at {YARDSTICK} tasks", median(base) * 1e6, "µs"),
        *(
            # What a Framework itself costs weighs more on ten tasks; only growth is a fault.
            row(
                f"plan: {name} at {size:,} tasks, compared with {YARDSTICK}",
                ratio,
                "ratio",
                at_most=GOAL if size > YARDSTICK else None,
            )
            for size, ratio in ratios.items()
            if size != YARDSTICK
        ),
    ]
