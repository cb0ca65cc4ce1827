"""The attempts of a Framework and of its tasks: one row per attempt, and the retries in words."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from launcher.cli.output.framework_attempts import current_attempt
from launcher.cli.output.framework_summary import attempt_status, attempt_text, message_of, state_of
from launcher.cli.output.task_entries import attempt_entries
from launcher.cli.output.task_table import task_state
from launcher.cli.output.terminal import one_line
from launcher.core import timestamps
from launcher.core.timestamps import parse_rfc3339

Json = dict[str, Any]

FRAMEWORK_ATTEMPT_HEADER = ("ATTEMPT", "STATE", "DURATION", "COUNTED", "REASON")
ATTEMPT_HEADER = ("TASK", "ATTEMPT", "STATE", "NODE", "DURATION", "EXIT", "COUNTED", "REASON")


def framework_attempt_rows(
    framework: Json, records: Sequence[Json], now: float
) -> list[tuple[str, str, str, str, str]]:
    """The rows under FRAMEWORK_ATTEMPT_HEADER: the recorded attempts, then the current one."""
    rows = [
        (
            str(record["attempt"]),
            record["attemptStatus"]["completionStatus"]["type"]["name"],
            _duration(record["attemptStatus"], now),
            "yes" if record["counted"] else "no",
            one_line(record["message"]),
        )
        for record in records
    ]
    attempt = attempt_status(framework)
    current = (_duration(attempt, now), "", message_of(framework))
    return [*rows, (str(current_attempt(framework)), state_of(framework, now), *current)]


class AttemptRow(NamedTuple):
    """One row under ATTEMPT_HEADER."""

    task: str
    attempt: str
    state: str
    node: str
    duration: str
    exit: str
    #: Whether the retry that followed counts towards maxRetryCount.
    counted: str
    reason: str


class TaskAttempts:
    """The attempts of one task."""

    def __init__(
        self, role: str, entry: Json, policy: Json | None, now: float, framework_attempt: int | None = None
    ) -> None:
        """*framework_attempt* is None if the Framework was never retried."""
        self._role, self._entry, self._policy, self._now = role, entry, policy or {}, now
        self.framework_attempt = framework_attempt
        self.name = f"{role}-{entry['index']}"
        self.history: list[Json] = entry.get("attemptHistory") or []
        self._retried = int(entry["retryPolicyStatus"]["totalRetriedCount"])

    @property
    def dropped(self) -> int:
        """The number of earlier attempts that the status no longer lists."""
        return self._retried - len(self.history)

    def as_json(self) -> Json:
        """The attempts as the status has them."""
        return {
            **({} if self.framework_attempt is None else {"frameworkAttempt": self.framework_attempt}),
            "task": self.name,
            "droppedAttempts": self.dropped,
            "attempts": [*self.history, self._entry["attemptStatus"]],
        }

    def rows(self) -> Iterator[AttemptRow]:
        """The rows, oldest attempt first."""
        for attempt in self.history:
            yield AttemptRow(
                self.name,
                self._number(attempt["id"] + 1),
                "Succeeded" if attempt["code"] == 0 else "Failed",
                attempt.get("podNodeName") or "",
                _duration(attempt, self._now),
                str(attempt.get("exitCode", "")),
                "yes" if attempt["counted"] else "no",
                one_line(attempt["reason"]),
            )
        yield self._current_row()

    def retry_text(self) -> str:
        """``attempt 3 of 4; 1 retry left; attempt 1 (the node was lost) was not counted: …``."""
        parts = [
            f"attempt {attempt_text(self._entry['retryPolicyStatus'], self._policy)}",
            self._retries_left(),
        ]
        parts += [
            f"attempt {attempt['id'] + 1} ({one_line(attempt['reason'])}) was not counted: "
            + attempt["uncountedReason"]
            for attempt in self.history
            if not attempt["counted"]
        ]
        if self.dropped:
            parts.append(
                f"{self.dropped} older {'attempt is' if self.dropped == 1 else 'attempts are'} not listed"
            )
        return "; ".join(parts)

    def _retries_left(self) -> str:
        limit = int(self._policy.get("maxRetryCount") or 0)
        if limit < 0:
            return "retries are not limited"
        left = max(0, limit - int(self._entry["retryPolicyStatus"].get("accountableRetriedCount") or 0))
        return f"{left or 'no'} {'retry' if left == 1 else 'retries'} left"

    def _current_row(self) -> AttemptRow:
        attempt = self._entry["attemptStatus"]
        code = (attempt.get("completionStatus") or {}).get("code", -1)
        return AttemptRow(
            self.name,
            self._number(self._retried + 1),
            task_state(self._entry, self._now),
            attempt.get("podNodeName") or "",
            _duration(attempt, self._now),
            str(code) if code >= 0 else "",
            "",
            one_line(self._entry.get("message") or ""),
        )

    def _number(self, attempt: int) -> str:
        """``2``, or ``1.2`` for attempt 2 of the task in attempt 1 of the Framework."""
        return str(attempt) if self.framework_attempt is None else f"{self.framework_attempt}.{attempt}"


def _duration(attempt: Json, now: float) -> str:
    start, end = attempt.get("runTime") or attempt.get("startTime"), attempt.get("completionTime")
    if not start:
        return ""
    return timestamps.age((parse_rfc3339(end) if end else now) - parse_rfc3339(start))


def task_attempts(
    framework: Json, role: str | None, index: int | None, now: float, records: Sequence[Json] = ()
) -> Iterator[TaskAttempts]:
    """
    The attempts of the selected tasks, by role and index; None selects all.

    *records* are the FrameworkAttempts whose tasks are listed before the current ones.
    """
    roles = framework["spec"].get("taskRoles") or ()
    policies = {each["name"]: (each.get("task") or {}).get("retryPolicy") for each in roles}
    current = attempt_status(framework)
    is_retried = current_attempt(framework) > 1
    for attempt in (*(record["attemptStatus"] for record in records), current):
        number = int(attempt.get("id") or 0) + 1 if is_retried else None
        for entries in attempt_entries(attempt):
            for entry in entries.tasks if role in (None, entries.name) else ():
                if index in (None, entry["index"]):
                    yield TaskAttempts(entries.name, entry, policies.get(entries.name), now, number)
