"""
Folded tasks: one JSON entry for many tasks, so that ten thousand fit into one object.

An entry lists the indexes of its tasks. Every other member is either one value that all tasks share, or a list with
one value per index, in that order. Where messages or completions differ, the list contains positions in the role's
``foldedMessages`` or ``foldedCompletionStatuses`` instead. Times are seconds after the start of the Framework attempt.

A folded task has no node, addresses and termination details of its pod. When there are too many different texts, some
are omitted. Everything that the planner needs is kept.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import orjson

from launcher.core.completion_codes import Completion, interned
from launcher.core.serialization import index_ranges
from launcher.core.serialization.completion_json import completion_from_json, completion_to_json
from launcher.core.status import NO_RETRIES, RetryStatus, State, TaskAttempt, TaskStatus
from launcher.core.timestamps import Time

#: Maximum number of groups of similar tasks; beyond it, tasks of one state share an entry even if they differ.
MAX_GROUPS = 40
#: Maximum size of texts that differ between tasks.
MAX_TEXT_BYTES = 100_000

#: Names of a task's times in an entry.
_TIMES = ("startTime", "runTime", "completionTime", "transitionTime", "attemptStartTime", "attemptRunTime",
          "attemptCompletionTime")  # fmt: skip
#: Names of a task's counters in an entry.
_COUNTERS = ("totalRetriedCount", "accountableRetriedCount", "retryDelaySec", "quickRetryCount")

_T = TypeVar("_T", bound=Hashable)


class TaskFolder:
    """Folds the tasks of one Framework, role by role, with one size limit for texts."""

    def __init__(self, attempt_started: Time, *, has_pod_uids: bool = False) -> None:
        """With *has_pod_uids*, entries have the uids of the pods, by which their logs are found."""
        self._attempt_started, self._has_pod_uids = attempt_started, has_pod_uids
        self._remaining_bytes = MAX_TEXT_BYTES

    def fold(self, tasks: Sequence[TaskStatus]) -> dict[str, Any]:
        """The members of a role's entry for these tasks."""
        groups = _group(tasks, _similarity_key)
        if len(groups) > MAX_GROUPS:
            groups = _group(tasks, _common_key)
        messages: dict[str, int] = {}
        ends: dict[Completion, int] = {}
        members: dict[str, Any] = {
            "foldedTasks": [self._entry(similar, messages, ends) for similar in groups]
        }
        if messages:
            members["foldedMessages"] = list(messages)
        if ends:
            members["foldedCompletionStatuses"] = [completion_to_json(end) for end in ends]
        return members

    def _entry(
        self, tasks: Sequence[TaskStatus], messages: dict[str, int], ends: dict[Completion, int]
    ) -> dict[str, Any]:
        first = tasks[0]
        entry: dict[str, Any] = {
            "indexes": index_ranges.to_text(task.index for task in tasks),
            "state": first.state.value,
        }
        if first.deletion_pending:
            entry["deletionPending"] = True
        texts = self._within_limit([task.message for task in tasks], _text_size, _no_text)
        if any(texts):
            entry["message"] = _shared_or_positions(texts, messages, str)
        if self._has_pod_uids:
            entry["podUID"] = _column([task.attempt.pod_uid for task in tasks])
        if any(task.incarnation for task in tasks):
            entry["incarnation"] = _column([task.incarnation for task in tasks])
        if any(task.retry != NO_RETRIES for task in tasks):
            columns = zip(*(_counters(task.retry) for task in tasks), strict=True)
            entry["retryPolicyStatus"] = dict(zip(_COUNTERS, map(_column, columns), strict=True))
        completions = [end for task in tasks if (end := _without_pod(task.attempt.completion)) is not None]
        if completions:
            completions = self._within_limit(completions, _completion_size, _without_texts)
            entry["completionStatus"] = _shared_or_positions(completions, ends, completion_to_json)
        entry["secondsAfterAttemptStart"] = {
            name: _column([time - self._attempt_started for time in column if time is not None])
            for name, column in zip(_TIMES, zip(*map(_times, tasks), strict=True), strict=True)
            if column[0] is not None
        }
        return entry

    def _within_limit(
        self, values: list[_T], size: Callable[[_T], int], reduce: Callable[[_T], _T]
    ) -> list[_T]:
        """The values up to the size limit, the most common first; the others reduced by *reduce*."""
        reduced: dict[_T, _T] = {}
        for value, _ in Counter(values).most_common():
            needed = size(value)
            reduced[value] = value if needed <= self._remaining_bytes else reduce(value)
            self._remaining_bytes -= needed if needed <= self._remaining_bytes else 0
        return [reduced[value] for value in values]


def unfold(role: Mapping[str, Any], attempt_started: Time) -> Iterator[TaskStatus]:
    """The folded tasks of a role's entry. Raises ValueError, TypeError or KeyError when the entry is invalid."""
    messages = dict(enumerate(role.get("foldedMessages") or ()))
    ends = {
        position: completion_from_entry(end)
        for position, end in enumerate(role.get("foldedCompletionStatuses") or ())
    }
    tasks = chain.from_iterable(
        _unfold(entry, attempt_started, messages, ends) for entry in role.get("foldedTasks") or ()
    )
    for number, task in enumerate(tasks):
        if number >= index_ranges.INDEXES_END:
            raise ValueError(f"foldedTasks: more than {index_ranges.INDEXES_END} tasks")
        yield task


def _unfold(
    entry: Mapping[str, Any],
    attempt_started: Time,
    messages: Mapping[int, str],
    ends: Mapping[int, Completion],
) -> Iterator[TaskStatus]:
    indexes = index_ranges.from_text(entry["indexes"])
    number = len(indexes)
    seconds, counters, end = (
        entry["secondsAfterAttemptStart"],
        entry.get("retryPolicyStatus"),
        entry.get("completionStatus"),
    )
    rows = zip(
        indexes,
        _values_at(entry.get("message", ""), messages, number),
        map(integer, _as_column(entry.get("incarnation", 0), number)),
        [NO_RETRIES] * number if counters is None else _retries(counters, number),
        _values_at(completion_from_entry(end) if isinstance(end, dict) else end, ends, number),
        *(_times_from_json(seconds.get(name), number, attempt_started) for name in _TIMES),
        strict=True,
    )
    state = State(entry["state"])
    for (
        index,
        message,
        incarnation,
        retry,
        end,
        start,
        run,
        completed,
        transitioned,
        attempt_start,
        attempt_run,
        attempt_completed,
    ) in rows:
        if start is None or transitioned is None or attempt_start is None:
            raise KeyError("startTime")
        yield TaskStatus(
            index=index,
            start_time=start,
            transition_time=transitioned,
            attempt=TaskAttempt(attempt_start, attempt_run, attempt_completed, completion=end),
            state=state,
            run_time=run,
            completion_time=completed,
            retry=retry,
            deletion_pending=entry.get("deletionPending", False),
            incarnation=incarnation,
            message=message,
        )


def integer(value: Any) -> int:
    """Returns *value*. Raises TypeError when it is not an integer."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is not an integer")
    return value


def _group(tasks: Iterable[TaskStatus], key: Callable[[TaskStatus], Hashable]) -> list[list[TaskStatus]]:
    groups: dict[Hashable, list[TaskStatus]] = {}
    for task in tasks:
        groups.setdefault(key(task), []).append(task)
    return list(groups.values())


def _common_key(task: TaskStatus) -> Hashable:
    """What all tasks of one entry share: their state, and which fields are set."""
    attempt = task.attempt
    return (
        task.state,
        task.deletion_pending,
        attempt.completion is None,
        task.run_time is None,
        task.completion_time is None,
        attempt.run_time is None,
        attempt.completion_time is None,
    )


def _similarity_key(task: TaskStatus) -> Hashable:
    """What similar tasks share."""
    return _common_key(task), task.message, _without_pod(task.attempt.completion)


def _without_pod(end: Completion | None) -> Completion | None:
    """The completion without the details of the pod."""
    return end if end is None or end.pod is None else _without_texts(end)


def _without_texts(end: Completion) -> Completion:
    return interned(Completion(end.code, end.phrase, end.failed, end.attributes))


def _completion_size(end: Completion) -> int:
    return len(orjson.dumps(completion_to_json(end)))


def _text_size(text: str) -> int:
    return len(orjson.dumps(text))


def _no_text(_: str) -> str:
    return ""


def _shared_or_positions(values: list[_T], positions: dict[_T, int], to_json: Callable[[_T], Any]) -> Any:
    """The value that all share, or the position of each value in *positions*, to which new values are added."""
    if len(set(values)) == 1:
        return to_json(values[0])
    return [positions.setdefault(value, len(positions)) for value in values]


def _column(values: Sequence[Any]) -> Any:
    """The value that all share, or the list of values."""
    return values[0] if len(set(values)) == 1 else values


def _times(task: TaskStatus) -> tuple[Time | None, ...]:
    attempt = task.attempt
    return (task.start_time, task.run_time, task.completion_time, task.transition_time, attempt.start_time,
            attempt.run_time, attempt.completion_time)  # fmt: skip


def _counters(retry: RetryStatus) -> tuple[int | None, ...]:
    return retry.total, retry.accountable, retry.delay, retry.consecutive_quick_retries


def _as_column(value: Any, number: int) -> Sequence[Any]:
    return value if isinstance(value, list) else [value] * number


def _values_at(value: Any, values_by_position: Mapping[int, Any], number: int) -> Sequence[Any]:
    return (
        [values_by_position[integer(position)] for position in value]
        if isinstance(value, list)
        else [value] * number
    )


def completion_from_entry(entry: Mapping[str, Any]) -> Completion:
    """Parses a completionStatus. Raises TypeError when its code is not an integer."""
    integer(entry["code"])
    return completion_from_json(entry)


def _retries(counters: Mapping[str, Any], number: int) -> Sequence[RetryStatus]:
    columns = [_as_column(counters[name], number) for name in _COUNTERS]
    interned: dict[tuple[Any, ...], RetryStatus] = {}
    return [
        interned.get(row) or interned.setdefault(row, retry_from_counters(*row))
        for row in zip(*columns, strict=True)
    ]


def retry_from_counters(total: Any, accountable: Any, delay: Any, quick: Any) -> RetryStatus:
    """Parses the counters; *delay* may be None."""
    retry = RetryStatus(
        integer(total), integer(accountable), None if delay is None else integer(delay), integer(quick)
    )
    return NO_RETRIES if retry == NO_RETRIES else retry


def _times_from_json(value: Any, number: int, attempt_started: Time) -> Sequence[Time | None]:
    if value is None:
        return [None] * number
    return [attempt_started + integer(second) for second in _as_column(value, number)]
