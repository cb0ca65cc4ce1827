"""
The tasks in a Framework's status, each as an entry of ``taskStatuses``.

Large Frameworks fold tasks that are alike into one entry of ``foldedTasks``: each member is one value for all of its
tasks, or a list with one value for each of them; lists of messages and completion statuses hold positions in
``foldedMessages`` and ``foldedCompletionStatuses``. Here they are expanded again, as far as tables show them. The
entries stay plain JSON: importing the types of ``core.status`` takes longer than the request for the Framework.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from launcher.cli.output.framework_summary import attempt_status
from launcher.core.serialization import index_ranges
from launcher.core.timestamps import format_rfc3339, parse_rfc3339

Json = dict[str, Any]


class RoleEntries(NamedTuple):
    """The tasks of one role, by index."""

    name: str
    tasks: Sequence[Json]


def role_entries(framework: Json) -> list[RoleEntries]:
    """The tasks of the current attempt, by role; none before there is a status."""
    return attempt_entries(attempt_status(framework))


def attempt_entries(attempt: Json) -> list[RoleEntries]:
    """The tasks of an attempt in a status or in a FrameworkAttempt, by role."""
    return [_role(role, attempt["startTime"]) for role in attempt.get("taskRoleStatuses") or ()]


def _role(role: Json, attempt_start: str) -> RoleEntries:
    tasks = [*(role.get("taskStatuses") or ()), *_expanded_tasks(role, attempt_start)]
    return RoleEntries(role["name"], sorted(tasks, key=lambda task: int(task["index"])))


def _expanded_tasks(role: Json, attempt_start: str) -> Iterator[Json]:
    messages = role.get("foldedMessages") or ()
    completions = role.get("foldedCompletionStatuses") or ()
    for entry in role.get("foldedTasks") or ():
        indexes = index_ranges.from_text(entry["indexes"])
        count = len(indexes)
        retry = entry.get("retryPolicyStatus") or {}
        seconds = entry.get("secondsAfterAttemptStart") or {}
        rows = zip(
            indexes,
            _positions(entry.get("message", ""), messages, count),
            _positions(entry.get("completionStatus"), completions, count),
            _column(retry.get("totalRetriedCount", 0), count),
            _column(retry.get("accountableRetriedCount", 0), count),
            _column(retry.get("retryDelaySec"), count),
            _column(seconds.get("attemptCompletionTime"), count),
            _column(entry.get("podUID"), count),
            strict=True,
        )
        for index, message, completion, retries, accountable, delay, completed, uid in rows:
            end = None if completed is None else format_rfc3339(parse_rfc3339(attempt_start) + completed)
            yield {
                "index": index,
                "state": entry["state"],
                "message": message,
                "retryPolicyStatus": {
                    "totalRetriedCount": retries,
                    "accountableRetriedCount": accountable,
                    "retryDelaySec": delay,
                },
                "attemptStatus": {"completionTime": end, "completionStatus": completion, "podUID": uid},
            }


def _column(value: Any, count: int) -> Sequence[Any]:
    return value if isinstance(value, list) else [value] * count


def _positions(value: Any, texts: Sequence[Any], count: int) -> Sequence[Any]:
    return [texts[position] for position in value] if isinstance(value, list) else [value] * count
