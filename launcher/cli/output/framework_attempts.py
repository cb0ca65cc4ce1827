"""The attempts of a Framework and of its tasks, and the pods that they had."""

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from launcher.cli.output.framework_summary import attempt_status
from launcher.cli.output.task_entries import attempt_entries

Json = dict[str, Any]

_ATTEMPT = re.compile(r"([1-9][0-9]*)(?:\.([1-9][0-9]*))?", re.ASCII)


class AttemptNumber(NamedTuple):
    """``2`` or ``1.2``: an attempt as ``launcher attempts`` prints it, counted from 1."""

    first: int
    second: int | None = None

    def __str__(self) -> str:
        return str(self.first) if self.second is None else f"{self.first}.{self.second}"

    def framework_attempt(self, current: int) -> int:
        """The attempt of the Framework; a single number is that of a task if the Framework was never retried."""
        return 1 if self.second is None and current == 1 else self.first

    def task_attempt(self, current: int) -> int | None:
        """The attempt of the tasks; None is the last one of each task. *current* is the Framework's attempt."""
        return self.first if self.second is None and current == 1 else self.second


def attempt_number(text: str) -> AttemptNumber:
    """The attempt in ``2`` or ``1.2``, for argparse."""
    found = _ATTEMPT.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an attempt; launcher attempts NAME lists them, for example 2 or 1.2"
        )
    return AttemptNumber(int(found[1]), None if found[2] is None else int(found[2]))


def current_attempt(framework: Json) -> int:
    """The number of the Framework's current attempt, from 1."""
    return int(attempt_status(framework).get("id") or 0) + 1


def own_records(framework: Json, records: Iterable[Json]) -> list[Json]:
    """The FrameworkAttempts of this Framework, not of a deleted one of the same name, oldest first."""
    uid = framework["metadata"]["uid"]
    own = [
        record
        for record in records
        if any(owner.get("uid") == uid for owner in record["metadata"].get("ownerReferences") or ())
    ]
    return sorted(own, key=lambda record: int(record["attempt"]))


class TaskPod(NamedTuple):
    """The pod of one attempt of a task."""

    attempt: int
    #: Empty if it is not known: the pod was not observed, or the status of a large Framework omits it.
    uid: str


def task_pods(attempt: Json) -> Mapping[str, list[TaskPod]]:
    """The pods of each task in that *attempt*, by names such as ``worker-0``, the oldest attempt first."""
    return {
        f"{role.name}-{task['index']}": list(_pods(task))
        for role in attempt_entries(attempt)
        for task in role.tasks
    }


def _pods(task: Json) -> Iterator[TaskPod]:
    for attempt in task.get("attemptHistory") or ():
        yield TaskPod(int(attempt["id"]) + 1, attempt.get("podUID") or "")
    current = int(task["retryPolicyStatus"]["totalRetriedCount"]) + 1
    yield TaskPod(current, task["attemptStatus"].get("podUID") or "")
