"""Frameworks of every kind, and what must become of each however much goes wrong meanwhile."""

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.world import a_task_pod


@dataclass(frozen=True, slots=True, order=True)
class Try:
    """One try of one task."""

    attempt: int
    role: str
    index: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A Framework, how it must end, and which pods it takes as long as nobody meddles with them."""

    framework: Json
    result: str
    code: int
    #: Each of these has its pod.
    certain: frozenset[Try]
    #: These have one unless their attempt was over before it came to that.
    possible: frozenset[Try] = frozenset()
    #: Retries that count, of the Framework and of each of its tasks in the last attempt.
    retries: int = 0
    task_retries: int = 0

    @property
    def name(self) -> str:
        name: str = self.framework["metadata"]["name"]
        return name


def short(name: str) -> Job:
    """Many tasks that succeed at once."""
    role = _retrying(a_role("short", 6, pod=a_task_pod("succeeded")), 0)
    return Job(a_framework(role, name=name), "Succeeded", 0, _tries("short", range(6)))


def long(name: str) -> Job:
    """Two roles whose tasks take their time."""
    slow = _retrying(a_role("slow", 2, pod=a_task_pod("succeeded", after="3s")), 0)
    slower = _retrying(a_role("slower", 2, pod=a_task_pod("succeeded", after="6s")), 0)
    return Job(
        a_framework(slow, slower, name=name),
        "Succeeded",
        0,
        _tries("slow", range(2)) | _tries("slower", range(2)),
    )


def retried(name: str) -> Job:
    """Tasks that fail as often as they may, all of them."""
    policy = {"minFailedTaskCount": 2}
    pod = a_task_pod("failed", after="0.5s", exit_code="7")
    role = _retrying(a_role("fails", 2, pod=pod, frameworkAttemptCompletionPolicy=policy), 1)
    tries = _tries("fails", range(2)) | _tries("fails", range(2), number=1)
    return Job(a_framework(role, name=name), "Failed", 7, tries, task_retries=1)


def again(name: str) -> Job:
    """Attempts that fail as often as they may, with a task that would run for ever."""
    fails = _retrying(a_role("fails", 1, pod=a_task_pod("failed", after="1s", exit_code="3")), 0)
    retry = {"fancyRetryPolicy": True, "maxRetryCount": 1}
    return Job(
        a_framework(fails, _runs("ps", 2), name=name, retryPolicy=retry),
        "Failed",
        3,
        _tries("fails", range(1)) | _tries("fails", range(1), attempt=1),
        _tries("ps", range(2)) | _tries("ps", range(2), attempt=1),
        retries=1,
    )


def decided(name: str) -> Job:
    """One task's success is enough; the others would run for ever."""
    policy = {"minSucceededTaskCount": 1}
    chief = a_role(
        "chief", 1, pod=a_task_pod("succeeded", after="2s"), frameworkAttemptCompletionPolicy=policy
    )
    return Job(
        a_framework(_runs("worker", 3), _retrying(chief, 0), name=name),
        "Succeeded",
        0,
        _tries("chief", range(1)),
        _tries("worker", range(3)),
    )


def borne(name: str) -> Job:
    """Failures that do not matter."""
    policy = {"minFailedTaskCount": -1}
    pod = a_task_pod("failed", exit_code="9")
    fails = _retrying(a_role("fails", 2, pod=pod, frameworkAttemptCompletionPolicy=policy), 0)
    good = a_role("good", 2, pod=a_task_pod("succeeded", after="1s"))
    return Job(
        a_framework(fails, _retrying(good, 0), name=name),
        "Succeeded",
        0,
        _tries("fails", range(2)) | _tries("good", range(2)),
    )


KINDS = (short, long, retried, again, decided, borne)


def load(chance: Random, prefix: str, rounds: int = 1) -> list[Job]:
    """That many of each kind, in any order."""
    makers = [(make, number) for make in KINDS for number in range(rounds)]
    chance.shuffle(makers)
    return [make(f"{prefix}-{make.__name__}-{number}") for make, number in makers]


def _runs(name: str, tasks: int) -> Json:
    return _retrying(a_role(name, tasks, pod=a_task_pod()), 0)


def _retrying(role: Json, most: int) -> Json:
    """The role with so many retries for a task that fails, and any number of them for one whose pod is lost."""
    task: dict[str, Any] = role["task"]
    task["retryPolicy"] = {"fancyRetryPolicy": True, "maxRetryCount": most}
    return role


def _tries(role: str, tasks: range, *, attempt: int = 0, number: int = 0) -> frozenset[Try]:
    return frozenset(Try(attempt, role, index, number) for index in tasks)
