"""Frameworks and tasks as people see them: one word for where each stands, and the rows of tables."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.cli.output.terminal import one_line
from launcher.core import timestamps
from launcher.core.completion_codes import Completion
from launcher.core.replicas import tasks_of_roles
from launcher.core.serialization.status_json import status_from_json
from launcher.core.status import FrameworkStatus, RoleStatus, State, TaskStatus
from launcher.core.timestamps import parse_rfc3339

Json = dict[str, Any]

#: Up to this many tasks, a table shows every one.
SHOWN_IN_FULL = 50
#: Of a larger Framework, at most this many tasks of a role are shown: those that are not as the rest.
_ODD_ONES = 20

TASK_HEADER = ("TASK", "STATE", "ATTEMPT", "NODE", "EXIT", "REASON")


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One line of a Framework's table: a task, or in words many of them."""

    task: str
    state: str
    attempt: str = ""
    node: str = ""
    exit: str = ""
    reason: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.task, self.state, self.attempt, self.node, self.exit, self.reason)


def state_of(framework: Json) -> str:
    """``Running``, ``Succeeded``, …: the state's own name without ``Attempt``; of one that is over, how it ended."""
    status = framework.get("status") or {}
    if framework["metadata"].get("deletionTimestamp"):
        return "Deleting"
    if not status:
        return "New"
    if is_over(framework):
        return "Succeeded" if succeeded(framework) else "Failed"
    if condition(framework, "Suspended"):
        return "Suspended"
    return _short(status["state"])


def is_over(framework: Json) -> bool:
    """Whether nothing will happen to it any more."""
    return (framework.get("status") or {}).get("state") == State.COMPLETED


def succeeded(framework: Json) -> bool:
    """Whether it has ended, and well."""
    return is_over(framework) and end_of(framework).get("type", {}).get("name") == "Succeeded"


def end_of(framework: Json) -> Json:
    """The completionStatus of its current attempt; empty as long as there is none."""
    attempt = (framework.get("status") or {}).get("attemptStatus") or {}
    return attempt.get("completionStatus") or {}


def has_run(framework: Json) -> bool:
    """Whether a task runs, or has run."""
    return bool((framework.get("status") or {}).get("runTime"))


def condition(framework: Json, kind: str) -> bool:
    """Whether the condition of that type is true."""
    conditions = (framework.get("status") or {}).get("conditions") or ()
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def message_of(framework: Json) -> str:
    """Why it is where it is, in one line."""
    return one_line((framework.get("status") or {}).get("message") or "")


def tasks_done(framework: Json) -> str:
    """``3/8``: how many tasks are over, of how many."""
    counts = (framework.get("status") or {}).get("taskCounts")
    if counts is None:
        return f"0/{sum(tasks_of_roles(framework['spec']))}"
    return f"{counts.get(State.COMPLETED, 0)}/{sum(counts.values())}"


def retries(framework: Json) -> int:
    """How often the whole of it was tried again."""
    retry = (framework.get("status") or {}).get("retryPolicyStatus") or {}
    return int(retry.get("totalRetriedCount") or 0)


def age(framework: Json, now: float) -> str:
    """How long ago it was made."""
    return timestamps.format_age(framework["metadata"].get("creationTimestamp"), now)


def duration(framework: Json, now: float) -> str:
    """How long it has taken, or took."""
    status = framework.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    return timestamps.age((parse_rfc3339(end) if end else now) - parse_rfc3339(status["startTime"]))


def headline(framework: Json, now: float) -> str:
    """``mnist: Running, started 3m20s ago, attempt 1, 3/4 tasks over``."""
    took = duration(framework, now)
    when = f" after {took}" if is_over(framework) else f", started {took} ago"
    words = [state_of(framework) + (when if took else "")]
    if attempt := retries(framework):
        words.append(f"attempt {attempt}")
    words.append(f"{tasks_done(framework)} tasks over")
    return f"{framework['metadata']['name']}: {', '.join(words)}"


def task_rows(framework: Json, *, every: bool = False) -> Iterator[TaskRow]:
    """
    The tasks, by role and index.

    In a large Framework each role is summed up in one row, followed by those of its tasks that are not as most
    others, unless *every* one is wanted.
    """
    status = record_of(framework)
    if status is None:
        return
    if every or sum(len(role.tasks) for role in status.roles) <= SHOWN_IN_FULL:
        for role in status.roles:
            yield from (task_row(role, task) for task in role.tasks)
    else:
        for role in status.roles:
            yield from summary(role, _ODD_ONES)


def record_of(framework: Json) -> FrameworkStatus | None:
    """The status with every task unfolded; None before there is one."""
    return status_from_json(framework.get("status") or {})


def summary(role: RoleStatus, most: int) -> Iterator[TaskRow]:
    """One row for the role, then at most so many for those of its tasks that are not as most others."""
    counts = Counter(map(task_state, role.tasks))
    words = ", ".join(f"{count} {state}" for state, count in counts.most_common())
    yield TaskRow(f"{role.name} ({len(role.tasks)})", words)
    usual = counts.most_common(1)[0][0] if counts else ""
    # Tasks that are alike in state, exit code and reason share one row, so that each reason is shown.
    alike: dict[tuple[str, str, str], list[TaskStatus]] = {}
    for task in role.tasks:
        row = task_row(role, task)
        if row.state != usual or row.reason:
            alike.setdefault((row.state, row.exit, row.reason), []).append(task)
    rows = [_folded(role, tasks) for tasks in alike.values()]
    yield from rows[:most]
    if rows[most:]:
        rest = list(alike.values())[most:]
        yield TaskRow(f"{role.name}-…", f"{sum(map(len, rest))} more")


def _folded(role: RoleStatus, tasks: list[TaskStatus]) -> TaskRow:
    """The row of one task, or of several that are alike."""
    row = task_row(role, tasks[0])
    if len(tasks) == 1:
        return row
    return TaskRow(
        f"{row.task} … {tasks[-1].index} ({len(tasks)})", row.state, exit=row.exit, reason=row.reason
    )


def task_row(role: RoleStatus, task: TaskStatus) -> TaskRow:
    """The row of one task."""
    end = task.attempt.completion
    return TaskRow(
        task=f"{role.name}-{task.index}",
        state=task_state(task),
        attempt=str(task.retry.total),
        node=task.attempt.node or "",
        exit=str(end.code) if end is not None and end.code >= 0 else "",
        reason=one_line(task.message) or _why(end),
    )


def task_state(task: TaskStatus) -> str:
    """The word for where a task stands, as for Frameworks."""
    if task.state is State.COMPLETED:
        return "Succeeded" if task.succeeded else "Failed"
    return _short(task.state)


def outcome(framework: Json) -> str:
    """Why it ended as it did: which task decided, and how that one ended."""
    trigger: Json = end_of(framework).get("trigger") or {}
    role, index = trigger.get("taskRoleName"), trigger.get("taskIndex")
    decisive = "" if role is None or index is None else f"{role}-{index}: "
    return decisive + message_of(framework)


def exit_code(framework: Json) -> int:
    """The code to end with after this end: the completion's own where that is one, else 1."""
    code = int(end_of(framework).get("code") or 0)
    if succeeded(framework):
        return 0
    return code if 1 <= code <= 255 else 1


def _short(state: str) -> str:
    # AttemptCompleted keeps its whole name: without, it would be taken for the end.
    return state if state == State.ATTEMPT_COMPLETED else state.removeprefix("Attempt")


def _why(end: Completion | None) -> str:
    return end.summary if end is not None and end.failed else ""
