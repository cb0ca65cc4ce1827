"""Attempts that failed because their pod could never start: the cause is that of a pod that waits for the same."""

from dataclasses import replace

from launcher.core.causes import Waiting
from launcher.core.diagnosis.containers import explain_container
from launcher.core.diagnosis.finding import Evidence, Problem
from launcher.core.diagnosis.inputs import TaskView
from launcher.core.diagnosis.scheduling import explain_too_large
from launcher.core.pods.start_failure import capacity_failure, container_failure


def explain_start_failure(view: TaskView, message: str, evidence: tuple[Evidence, ...]) -> Problem | None:
    """The cause in the *message* of such an attempt; None if it has none."""
    if (capacity := capacity_failure(message)) is not None:
        return _ended(explain_too_large(view, capacity, evidence))
    if (failure := container_failure(message)) is None:
        return None
    problem = explain_container(view, {"name": failure.container}, failure.reason, failure.message)
    return replace(_ended(problem), evidence=evidence)


def _ended(problem: Problem) -> Problem:
    """The *problem* of a pod that no longer waits."""
    return replace(
        problem,
        cause=replace(problem.cause, waiting=Waiting.NEVER),
        next_step=f"{problem.next_step}; then submit the Framework again",
    )
