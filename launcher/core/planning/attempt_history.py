"""The earlier attempts of a task, as its status lists them."""

from launcher.core.planning import messages
from launcher.core.planning.retry import Retry
from launcher.core.spec import TaskRole
from launcher.core.status import CompletedAttempt, TaskStatus

#: Maximum number of earlier attempts of one task; older ones are only counted.
MAX_ATTEMPTS = 10
#: Maximum length of the reason of an attempt.
_MAX_REASON_CHARACTERS = 300


def history_with_current(
    task: TaskStatus, decision: Retry, role: TaskRole | None
) -> tuple[CompletedAttempt, ...]:
    """The history of *task* after *decision* to retry it: its current attempt is the newest entry."""
    return (*task.history, _completed_attempt(task, decision, role))[-MAX_ATTEMPTS:]


def _completed_attempt(task: TaskStatus, decision: Retry, role: TaskRole | None) -> CompletedAttempt:
    attempt, completion = task.attempt, task.attempt.completion
    if completion is None:
        raise ValueError("only a completed attempt is retried")
    container = messages.failed_container(completion)
    return CompletedAttempt(
        id=task.retry.total,
        start_time=attempt.start_time,
        completion_time=task.transition_time if attempt.completion_time is None else attempt.completion_time,
        code=completion.code,
        phrase=completion.phrase,
        reason=_shortened(messages.describe_completion(completion, role)),
        counted=decision.accountable,
        retry_reason=decision.reason,
        retries_left=decision.left,
        run_time=attempt.run_time,
        pod_uid=attempt.pod_uid,
        node=attempt.node,
        exit_code=None if container is None else container.code,
        signal=0 if container is None else container.signal,
        rule=completion.rule,
        uncounted_reason=decision.uncounted_reason,
    )


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_REASON_CHARACTERS else f"{text[: _MAX_REASON_CHARACTERS - 1]}…"
