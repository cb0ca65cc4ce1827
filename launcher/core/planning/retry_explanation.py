"""What follows when a task of a role fails in a given way: the rule that matches, and each retry until the last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.completion_codes import Completion
from launcher.core.failures.classifier import DEFAULT_CLASSIFIER
from launcher.core.planning import messages, retry
from launcher.core.planning.retry import GiveUp, Retry, RetryBackoff
from launcher.core.spec import FrameworkSpec, RetryPolicy, TaskRole
from launcher.core.status import NO_RETRIES

#: Reasons of a terminated container; any other reason is that of a pod.
CONTAINER_REASONS = (
    "OOMKilled",
    "Error",
    "ContainerCannotRun",
    "StartError",
    "ContainerStatusUnknown",
    "DeadlineExceeded",
)
#: Reasons that a node sets together with this exit code.
_USUAL_EXIT_CODES: Mapping[str, int] = {"OOMKilled": 137, "StartError": 128, "ContainerCannotRun": 127}
#: Attempts of an unlimited policy that are listed.
_MAX_DECISIONS = 6


@dataclass(frozen=True, slots=True)
class RetryExplanation:
    """The completion of the failed attempt, and the decision after each attempt that fails in the same way."""

    completion: Completion
    cause: str
    task_decisions: tuple[Retry | GiveUp, ...]
    #: What a task that is not retried means for the Framework attempt; empty if it is always retried.
    completes_attempt: str
    #: Empty if the failed task does not fail the Framework attempt.
    framework_decisions: tuple[Retry | GiveUp, ...]


def explain_retry(
    spec: FrameworkSpec, role: TaskRole, exit_code: int | None, reason: str
) -> RetryExplanation:
    """Explains a failure of a task of *role* by the exit code of its first container, by a reason, or by both."""
    classifier = DEFAULT_CLASSIFIER.for_role(role.pod_failure_spec)
    completion = classifier.classify(_failed_pod_status(role, exit_code, reason), f"{role.name}-0")
    decisions = _decisions(role.retry, completion)
    fails = isinstance(decisions[-1], GiveUp)
    fails_attempt = fails and not role.background and role.completion.min_failed > 0
    return RetryExplanation(
        completion,
        messages.describe_completion(completion, role),
        decisions,
        _completes_attempt(role) if fails else "",
        _decisions(spec.retry, completion) if fails_attempt else (),
    )


def _decisions(policy: RetryPolicy, completion: Completion) -> tuple[Retry | GiveUp, ...]:
    """The decisions after consecutive short attempts, up to the one that gives up."""
    status, decisions = NO_RETRIES, list[Retry | GiveUp]()
    while len(decisions) < _MAX_DECISIONS:
        decision = retry.after_completion(policy, completion, status, duration=0, backoff=RetryBackoff())
        decisions.append(decision)
        if isinstance(decision, GiveUp):
            break
        status = retry.with_executed_retry(status, decision)
    return tuple(decisions)


def _completes_attempt(role: TaskRole) -> str:
    if role.background:
        return "A failed task of a background role does not complete the attempt."
    minimum = role.completion.min_failed
    if minimum <= 0:
        return "A failed task does not fail the attempt (minFailedTaskCount is -1)."
    tasks = "1 failed task fails" if minimum == 1 else f"{minimum} failed tasks fail"
    return f"{tasks} the attempt of the Framework (minFailedTaskCount {minimum})."


def _failed_pod_status(role: TaskRole, exit_code: int | None, reason: str) -> dict[str, Any]:
    containers: Sequence[Mapping[str, Any]] = (role.pod.get("spec") or {}).get("containers") or ({},)
    is_container_reason = reason in CONTAINER_REASONS
    terminated: dict[str, Any] = {}
    if exit_code is not None or is_container_reason:
        code = _USUAL_EXIT_CODES.get(reason, 1) if exit_code is None else exit_code
        terminated = {"exitCode": code, "reason": reason if is_container_reason else "Error"}
    status: dict[str, Any] = {"phase": "Failed"}
    if terminated:
        name = containers[0].get("name", "main")
        status["containerStatuses"] = [{"name": name, "state": {"terminated": terminated}}]
    if reason and not is_container_reason:
        status["reason"] = reason
    return status
