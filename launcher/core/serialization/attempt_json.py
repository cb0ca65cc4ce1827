"""The earlier attempts of a task from and to JSON."""

from collections.abc import Mapping
from sys import intern
from typing import Any

from launcher.core.serialization.folded_tasks import integer
from launcher.core.status import CompletedAttempt
from launcher.core.timestamps import format_optional, format_rfc3339, parse_optional, parse_rfc3339


def attempt_to_json(attempt: CompletedAttempt) -> dict[str, Any]:
    """One entry of ``attemptHistory``; members without a value are omitted."""
    members = {
        "id": attempt.id,
        "startTime": format_rfc3339(attempt.start_time),
        "runTime": format_optional(attempt.run_time),
        "completionTime": format_rfc3339(attempt.completion_time),
        "podUID": attempt.pod_uid,
        "podNodeName": attempt.node,
        "code": attempt.code,
        "phrase": attempt.phrase,
        "reason": attempt.reason,
        "exitCode": attempt.exit_code,
        "signal": attempt.signal or None,
        "failureRule": attempt.rule or None,
        "counted": attempt.counted,
        "uncountedReason": attempt.uncounted_reason or None,
        "retryReason": attempt.retry_reason,
        "retriesLeft": attempt.retries_left,
    }
    return {name: value for name, value in members.items() if value is not None}


def attempt_from_json(entry: Mapping[str, Any]) -> CompletedAttempt:
    """Parses an entry of ``attemptHistory``. Raises KeyError, TypeError or ValueError when it is invalid."""
    left, exit_code = entry.get("retriesLeft"), entry.get("exitCode")
    return CompletedAttempt(
        id=integer(entry["id"]),
        start_time=parse_rfc3339(entry["startTime"]),
        completion_time=parse_rfc3339(entry["completionTime"]),
        code=integer(entry["code"]),
        phrase=intern(entry["phrase"]),
        reason=intern(entry["reason"]),
        counted=bool(entry["counted"]),
        retry_reason=intern(entry["retryReason"]),
        retries_left=None if left is None else integer(left),
        run_time=parse_optional(entry.get("runTime")),
        pod_uid=entry.get("podUID"),
        node=entry.get("podNodeName"),
        exit_code=None if exit_code is None else integer(exit_code),
        signal=integer(entry.get("signal", 0)),
        rule=intern(entry.get("failureRule", "")),
        uncounted_reason=intern(entry.get("uncountedReason", "")),
    )
