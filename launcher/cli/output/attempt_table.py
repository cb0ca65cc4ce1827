"""The attempts of a Framework's tasks: one row per attempt, and the retries in words."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from launcher.cli.output.framework_summary import attempt_text
from launcher.cli.output.task_entries import role_entries
from launcher.cli.output.task_table import task_state
from launcher.cli.output.terminal import one_line
from launcher.core import timestamps
from launcher.core.timestamps import parse_rfc3339

Json = dict[str, Any]

ATTEMPT_HEADER = ("TASK", "ATTEMPT", "STATE", "NODE", "DURATION", "EXIT", "COUNTED", "REASON")


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

    def __init__(self, role: str, entry: Json, policy: Json | None, now: float) -> None:
        self._role, self._entry, self._policy, self._now = role, entry, policy or {}, now
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
            "task": self.name,
            "droppedAttempts": self.dropped,
            "attempts": [*self.history, self._entry["attemptStatus"]],
        }

    def rows(self) -> Iterator[AttemptRow]:
        """The rows, oldest attempt first."""
        for attempt in self.history:
            yield AttemptRow(
                self.name,
                str(attempt["id"] + 1),
                "Succeeded" if attempt["code"] == 0 else "Failed",
                attempt.get("podNodeName") or "",
                self._duration(attempt),
                str(attempt.get("exitCode", "")),
                "yes" if attempt["counted"] else "no",
                one_line(attempt["reason"]),
            )
        yield self._current_row()

    def ledger(self) -> str:
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
            str(self._retried + 1),
            task_state(self._entry, self._now),
            attempt.get("podNodeName") or "",
            self._duration(attempt),
            str(code) if code >= 0 else "",
            "",
            one_line(self._entry.get("message") or ""),
        )

    def _duration(self, attempt: Json) -> str:
        start, end = attempt.get("runTime") or attempt.get("startTime"), attempt.get("completionTime")
        if not start:
            return ""
        return timestamps.age((parse_rfc3339(end) if end else self._now) - parse_rfc3339(start))


def task_attempts(framework: Json, role: str | None, index: int | None, now: float) -> Iterator[TaskAttempts]:
    """The attempts of the selected tasks, by role and index; None selects all."""
    roles = framework["spec"].get("taskRoles") or ()
    policies = {each["name"]: (each.get("task") or {}).get("retryPolicy") for each in roles}
    for entries in role_entries(framework):
        for entry in entries.tasks if role in (None, entries.name) else ():
            if index in (None, entry["index"]):
                yield TaskAttempts(entries.name, entry, policies.get(entries.name), now)
