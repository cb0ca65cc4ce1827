"""Frameworks of every kind, and the expected result of each regardless of faults."""

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.builders import Json, a_framework, a_role
from tests.kubernetes.namespace_client import a_task_pod


@dataclass(frozen=True, slots=True, order=True)
class RecordedTaskAttempt:
    """One attempt of one task."""

    attempt: int
    role: str
    index: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A Framework, its expected completion, and its pods if no other client interferes."""

    framework: Json
    result: str
    code: int
    #: Each of these has a pod.
    expected: frozenset[RecordedTaskAttempt]
    #: These have one unless their attempt completed earlier.
    possible: frozenset[RecordedTaskAttempt] = frozenset()
    #: Counted retries of the Framework, and of each of its tasks in the last attempt.
    retries: int = 0
    task_retries: int = 0

    @property
    def name(self) -> str:
        name: str = self.framework["metadata"]["name"]
        return name


def short_tasks(name: str) -> Job:
    """Many tasks that succeed at once."""
    role = _with_retries(a_role("short", 6, pod=a_task_pod("succeeded")), 0)
    return Job(a_framework(role, name=name), "Succeeded", 0, _attempts("short", range(6)))


def long_tasks(name: str) -> Job:
    """Two roles with tasks that take some time."""
    slow = _with_retries(a_role("slow", 2, pod=a_task_pod("succeeded", after="3s")), 0)
    slower = _with_retries(a_role("slower", 2, pod=a_task_pod("succeeded", after="6s")), 0)
    return Job(
        a_framework(slow, slower, name=name),
        "Succeeded",
        0,
        _attempts("slow", range(2)) | _attempts("slower", range(2)),
    )


def task_retries_used(name: str) -> Job:
    """Tasks that all fail until their retries are used."""
    policy = {"minFailedTaskCount": 2}
    pod = a_task_pod("failed", after="0.5s", exit_code="7")
    role = _with_retries(a_role("fails", 2, pod=pod, frameworkAttemptCompletionPolicy=policy), 1)
    attempts = _attempts("fails", range(2)) | _attempts("fails", range(2), number=1)
    return Job(a_framework(role, name=name), "Failed", 7, attempts, task_retries=1)


def framework_retries(name: str) -> Job:
    """Framework attempts that fail until the retries are used, with a task that would run forever."""
    fails = _with_retries(a_role("fails", 1, pod=a_task_pod("failed", after="1s", exit_code="3")), 0)
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    return Job(
        a_framework(fails, _endless_role("ps", 2), name=name, retryPolicy=retry),
        "Failed",
        3,
        _attempts("fails", range(1)) | _attempts("fails", range(1), attempt=1),
        _attempts("ps", range(2)) | _attempts("ps", range(2), attempt=1),
        retries=1,
    )


def one_success(name: str) -> Job:
    """One success completes the Framework; the other tasks would run forever."""
    policy = {"minSucceededTaskCount": 1}
    chief = a_role(
        "chief", 1, pod=a_task_pod("succeeded", after="2s"), frameworkAttemptCompletionPolicy=policy
    )
    return Job(
        a_framework(_endless_role("worker", 3), _with_retries(chief, 0), name=name),
        "Succeeded",
        0,
        _attempts("chief", range(1)),
        _attempts("worker", range(3)),
    )


def tolerated_failures(name: str) -> Job:
    """Failures below the threshold."""
    policy = {"minFailedTaskCount": -1}
    pod = a_task_pod("failed", exit_code="9")
    fails = _with_retries(a_role("fails", 2, pod=pod, frameworkAttemptCompletionPolicy=policy), 0)
    good = a_role("good", 2, pod=a_task_pod("succeeded", after="1s"))
    return Job(
        a_framework(fails, _with_retries(good, 0), name=name),
        "Succeeded",
        0,
        _attempts("fails", range(2)) | _attempts("good", range(2)),
    )


BUILDERS = (short_tasks, long_tasks, task_retries_used, framework_retries, one_success, tolerated_failures)


def random_workload(random: Random, prefix: str, rounds: int = 1) -> list[Job]:
    """Returns that many Frameworks of each kind, in random order."""
    builders = [(builder, number) for builder in BUILDERS for number in range(rounds)]
    random.shuffle(builders)
    return [
        builder(f"{prefix}-{builder.__name__.replace('_', '-')}-{number}") for builder, number in builders
    ]


def _endless_role(name: str, tasks: int) -> Json:
    return _with_retries(a_role(name, tasks, pod=a_task_pod()), 0)


def _with_retries(role: Json, retries: int) -> Json:
    """Returns the role with this number of retries for failed tasks, and unlimited ones for lost pods."""
    task: dict[str, Any] = role["task"]
    task["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": retries}
    return role


def _attempts(
    role: str, tasks: range, *, attempt: int = 0, number: int = 0
) -> frozenset[RecordedTaskAttempt]:
    return frozenset(RecordedTaskAttempt(attempt, role, index, number) for index in tasks)
