"""
Folded tasks: one JSON entry for many of them, so that ten thousand fit into one object.

An entry names its tasks by their indexes. Every other member is either one value that all of them share, or a list
with one value for each index, in that order. Where messages or ends differ, the list holds numbers instead: positions
in the role's ``foldedMessages`` or ``foldedCompletionStatuses``, where each stands once. Times are seconds after the
start of the Framework's attempt.

What a folded task does not tell: where its pod runs, and what the pod said at its end. When there are too many
different texts, some tasks do without theirs. All that decides what happens next is kept.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import orjson

from launcher.core.completion_codes import Completion, completion_from_json, completion_to_json, interned
from launcher.core.serialization import index_ranges
from launcher.core.status import NO_RETRIES, RetryStatus, State, TaskAttempt, TaskStatus
from launcher.core.timestamps import Time

#: More kinds of tasks than these in one role, and tasks of one state share an entry even if they ended differently.
KINDS = 40
#: At most this many bytes for texts that differ between tasks.
TEXT_BYTES = 100_000

#: The times of a task, as they are called in an entry.
_TIMES = ("startTime", "runTime", "completionTime", "transitionTime", "attemptStartTime", "attemptRunTime",
          "attemptCompletionTime")  # fmt: skip
#: The counters of a task, as they are called in an entry.
_COUNTERS = ("totalRetriedCount", "accountableRetriedCount", "retryDelaySec", "quickRetryCount")

_T = TypeVar("_T", bound=Hashable)


class TaskFolder:
    """Folds the tasks of one Framework, role by role, while there is room for texts."""

    def __init__(self, began: Time) -> None:
        self._began = began
        self._room = TEXT_BYTES

    def fold(self, tasks: Sequence[TaskStatus]) -> dict[str, Any]:
        """What a role's entry tells of these tasks of its own."""
        kinds = _grouped(tasks, _kind)
        if len(kinds) > KINDS:
            kinds = _grouped(tasks, _shape)
        messages: dict[str, int] = {}
        ends: dict[Completion, int] = {}
        told: dict[str, Any] = {"foldedTasks": [self._entry(alike, messages, ends) for alike in kinds]}
        if messages:
            told["foldedMessages"] = list(messages)
        if ends:
            told["foldedCompletionStatuses"] = [completion_to_json(end) for end in ends]
        return told

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
        texts = self._fitting([task.message for task in tasks], _text_size, _no_text)
        if any(texts):
            entry["message"] = _shared_or_placed(texts, messages, str)
        if any(task.incarnation for task in tasks):
            entry["incarnation"] = _column([task.incarnation for task in tasks])
        if any(task.retry != NO_RETRIES for task in tasks):
            columns = zip(*(_counters(task.retry) for task in tasks), strict=True)
            entry["retryPolicyStatus"] = dict(zip(_COUNTERS, map(_column, columns), strict=True))
        outlines = [end for task in tasks if (end := _outline(task.attempt.completion)) is not None]
        if outlines:
            outlines = self._fitting(outlines, _end_size, _without_words)
            entry["completionStatus"] = _shared_or_placed(outlines, ends, completion_to_json)
        entry["secondsAfterAttemptStart"] = {
            name: _column([time - self._began for time in column if time is not None])
            for name, column in zip(_TIMES, zip(*map(_times, tasks), strict=True), strict=True)
            if column[0] is not None
        }
        return entry

    def _fitting(self, values: list[_T], size: Callable[[_T], int], less: Callable[[_T], _T]) -> list[_T]:
        """The values, as far as there is room for them, the most common first; others cut down to *less*."""
        kept: dict[_T, _T] = {}
        for value, _ in Counter(values).most_common():
            needed = size(value)
            kept[value] = value if needed <= self._room else less(value)
            self._room -= needed if needed <= self._room else 0
        return [kept[value] for value in values]


def unfold(role: Mapping[str, Any], began: Time) -> Iterator[TaskStatus]:
    """The folded tasks of a role's entry. What is none of ours raises ValueError, or what its wrong type raises."""
    messages = dict(enumerate(role.get("foldedMessages") or ()))
    ends = {place: end_from_json(end) for place, end in enumerate(role.get("foldedCompletionStatuses") or ())}
    tasks = chain.from_iterable(
        _unfold(entry, began, messages, ends) for entry in role.get("foldedTasks") or ()
    )
    for number, task in enumerate(tasks):
        if number >= index_ranges.INDEXES_END:
            raise ValueError(f"foldedTasks: {index_ranges.INDEXES_END} tasks at most can be named")
        yield task


def _unfold(
    entry: Mapping[str, Any], began: Time, messages: Mapping[int, str], ends: Mapping[int, Completion]
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
        _placed(entry.get("message", ""), messages, number),
        map(whole, _spread(entry.get("incarnation", 0), number)),
        [NO_RETRIES] * number if counters is None else _retries(counters, number),
        _placed(end_from_json(end) if isinstance(end, dict) else end, ends, number),
        *(_moments(seconds.get(name), number, began) for name in _TIMES),
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
        turned,
        began_try,
        ran_try,
        ended_try,
    ) in rows:
        if start is None or turned is None or began_try is None:
            raise KeyError("startTime")
        yield TaskStatus(
            index=index,
            start_time=start,
            transition_time=turned,
            attempt=TaskAttempt(began_try, ran_try, ended_try, completion=end),
            state=state,
            run_time=run,
            completion_time=completed,
            retry=retry,
            deletion_pending=entry.get("deletionPending", False),
            incarnation=incarnation,
            message=message,
        )


def whole(value: Any) -> int:
    """*value*, which is a whole number. Raises TypeError when it is not."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def _grouped(tasks: Iterable[TaskStatus], key: Callable[[TaskStatus], Hashable]) -> list[list[TaskStatus]]:
    groups: dict[Hashable, list[TaskStatus]] = {}
    for task in tasks:
        groups.setdefault(key(task), []).append(task)
    return list(groups.values())


def _shape(task: TaskStatus) -> Hashable:
    """What tasks of one entry have in common in any case: their state, and what is known of them at all."""
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


def _kind(task: TaskStatus) -> Hashable:
    """What tasks have in common that people would call alike."""
    return _shape(task), task.message, _outline(task.attempt.completion)


def _outline(end: Completion | None) -> Completion | None:
    """An end without its pod's own words."""
    return end if end is None or end.pod is None else _without_words(end)


def _without_words(end: Completion) -> Completion:
    return interned(Completion(end.code, end.phrase, end.failed, end.attributes))


def _end_size(end: Completion) -> int:
    return len(orjson.dumps(completion_to_json(end)))


def _text_size(text: str) -> int:
    return len(orjson.dumps(text))


def _no_text(_: str) -> str:
    return ""


def _shared_or_placed(values: list[_T], places: dict[_T, int], to_json: Callable[[_T], Any]) -> Any:
    """The value that all share, or where in *places* each one's own is, or is put now."""
    if len(set(values)) == 1:
        return to_json(values[0])
    return [places.setdefault(value, len(places)) for value in values]


def _column(values: Sequence[Any]) -> Any:
    """A value that all share, or the values."""
    return values[0] if len(set(values)) == 1 else values


def _times(task: TaskStatus) -> tuple[Time | None, ...]:
    attempt = task.attempt
    return (task.start_time, task.run_time, task.completion_time, task.transition_time, attempt.start_time,
            attempt.run_time, attempt.completion_time)  # fmt: skip


def _counters(retry: RetryStatus) -> tuple[int | None, ...]:
    return retry.total, retry.accountable, retry.delay, retry.consecutive_quick_retries


def _spread(value: Any, number: int) -> Sequence[Any]:
    return value if isinstance(value, list) else [value] * number


def _placed(value: Any, places: Mapping[int, Any], number: int) -> Sequence[Any]:
    return [places[whole(place)] for place in value] if isinstance(value, list) else [value] * number


def end_from_json(entry: Mapping[str, Any]) -> Completion:
    """The end that a completionStatus tells of."""
    whole(entry["code"])
    return completion_from_json(entry)


def _retries(counters: Mapping[str, Any], number: int) -> Sequence[RetryStatus]:
    columns = [_spread(counters[name], number) for name in _COUNTERS]
    known: dict[tuple[Any, ...], RetryStatus] = {}
    return [known.get(row) or known.setdefault(row, retry_of(*row)) for row in zip(*columns, strict=True)]


def retry_of(total: Any, accountable: Any, delay: Any, quick: Any) -> RetryStatus:
    """The counters, each a whole number; *delay* may be None."""
    retry = RetryStatus(
        whole(total), whole(accountable), None if delay is None else whole(delay), whole(quick)
    )
    return NO_RETRIES if retry == NO_RETRIES else retry


def _moments(value: Any, number: int, began: Time) -> Sequence[Time | None]:
    if value is None:
        return [None] * number
    return [began + whole(second) for second in _spread(value, number)]
