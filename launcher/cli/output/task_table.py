"""The rows of a Framework's tasks."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from launcher.cli.output.framework_summary import STOP_FRAMEWORK_REQUESTED, attempt_text, short_state
from launcher.cli.output.task_entries import RoleEntries, role_entries
from launcher.cli.output.terminal import one_line

Json = dict[str, Any]

#: Up to this many tasks, a table shows every one.
MAX_TASKS_IN_FULL = 50
#: Of a larger Framework, at most this many rows of a role are shown for tasks in other states than most.
_MAX_EXCEPTIONS = 20
#: Completion codes of tasks that the launcher ended: the user stopped the Framework, its attempt completed, or the role
#: was scaled down.
_STOPPED = (STOP_FRAMEWORK_REQUESTED, -220, -230)

TASK_HEADER = ("TASK", "STATE", "ATTEMPT", "NODE", "EXIT", "REASON")


class TaskRow(NamedTuple):
    """One row under TASK_HEADER: a task, or a summary of several."""

    task: str
    state: str
    attempt: str = ""
    node: str = ""
    exit: str = ""
    reason: str = ""


class RoleTable:
    """The rows of one role's tasks."""

    def __init__(self, role: RoleEntries, retry_policy: Json | None, now: float) -> None:
        self._name, self._tasks, self._policy, self._now = role.name, role.tasks, retry_policy, now

    @property
    def count(self) -> int:
        return len(self._tasks)

    def rows(self, limit: int | None = None) -> Iterator[TaskRow]:
        """One row per task, at most *limit*."""
        return map(self._row, self._tasks[:limit])

    def summary(self, limit: int) -> Iterator[TaskRow]:
        """One row for the role, then at most *limit* rows for tasks that are in another state than most, or failed."""
        rows = list(self.rows())
        counts = Counter(map(_state_word, rows))
        states = ", ".join(f"{count} {state}" for state, count in counts.most_common())
        yield TaskRow(f"{self._name} ({len(rows)})", states)
        usual = counts.most_common(1)[0][0] if counts else ""
        # Tasks with the same state, exit code and reason share one row, so that each reason is shown.
        groups: dict[tuple[str, str, str], list[TaskRow]] = {}
        for row in rows:
            if _state_word(row) != usual or row.reason:
                groups.setdefault((_state_word(row), row.exit, row.reason), []).append(row)
        exceptions = list(groups.values())
        yield from map(_group_row, exceptions[:limit])
        if rest := exceptions[limit:]:
            yield TaskRow(f"{self._name}-…", f"{sum(map(len, rest))} more")

    def _row(self, task: Json) -> TaskRow:
        attempt = task["attemptStatus"]
        completion = attempt.get("completionStatus") or {}
        code = completion.get("code", -1)
        return TaskRow(
            task=f"{self._name}-{task['index']}",
            state=task_state(task, self._now),
            attempt=attempt_text(task["retryPolicyStatus"], self._policy),
            node=attempt.get("podNodeName") or "",
            exit=str(code) if code >= 0 else "",
            reason=one_line(task.get("message") or "") or _failure(completion),
        )


def role_tables(framework: Json, now: float) -> list[RoleTable]:
    """The roles of the current attempt; none before there is a status."""
    roles = framework["spec"].get("taskRoles") or ()
    policies = {role["name"]: (role.get("task") or {}).get("retryPolicy") for role in roles}
    return [RoleTable(role, policies.get(role.name), now) for role in role_entries(framework)]


def task_rows(framework: Json, now: float, *, show_all: bool = False) -> Iterator[TaskRow]:
    """
    The tasks, by role and index.

    Of a large Framework each role has one row, followed by those of its tasks that are in another state than most,
    unless *show_all*.
    """
    tables = role_tables(framework, now)
    in_full = show_all or sum(table.count for table in tables) <= MAX_TASKS_IN_FULL
    for table in tables:
        yield from table.rows() if in_full else table.summary(_MAX_EXCEPTIONS)


def task_state(task: Json, now: float) -> str:
    """The state of a task in one word, as for Frameworks."""
    if task["state"] != "Completed":
        return short_state(task, now)
    completion = task["attemptStatus"].get("completionStatus") or {}
    if (completion.get("type") or {}).get("name") == "Succeeded":
        return "Succeeded"
    return "Stopped" if completion.get("code") in _STOPPED else "Failed"


def _state_word(row: TaskRow) -> str:
    """The state without the time of a retry, which differs from task to task."""
    return row.state.partition(" ")[0]


def _group_row(rows: Sequence[TaskRow]) -> TaskRow:
    """The row of one task, or of several that are alike."""
    first, last = rows[0], rows[-1]
    if len(rows) == 1:
        return first
    index = last.task.rpartition("-")[2]
    state = first.state if all(row.state == first.state for row in rows) else _state_word(first)
    return TaskRow(f"{first.task} … {index} ({len(rows)})", state, exit=first.exit, reason=first.reason)


def _failure(completion: Json) -> str:
    if not completion or (completion.get("type") or {}).get("name") == "Succeeded":
        return ""
    return f"{completion.get('phrase') or 'Failed'} ({completion['code']})"
