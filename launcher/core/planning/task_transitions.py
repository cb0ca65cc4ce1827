"""
One task's next step: (task, its pod, what surrounds it) -> the task as it is now, and what to do about it.

Each state has one function below, which either leaves the state or says what the task waits for. ``advance`` runs them
until the task rests. Nothing here looks at other tasks, so one pod's news costs one task's work.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.planning import retry
from launcher.core.planning.actions import Action, CreatePod, DeletePod, StateTransition
from launcher.core.planning.options import PlannerOptions
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import RoleName, TaskRole
from launcher.core.status import TASK_STEPS, State, TaskAttempt, TaskStatus
from launcher.core.timestamps import Time

#: Seconds after which a pod that nothing holds and that is still there has to be deleted once more.
_CUT_OFF = 10


@dataclass(frozen=True, slots=True)
class RoleContext:
    """What surrounds the tasks of one role during one look."""

    now: Time
    rules: PlannerOptions
    role_name: RoleName
    #: None: the role is gone from the spec.
    role: TaskRole | None
    graceful_deletion_seconds: int | None = None
    #: Why no pod may be created yet; empty when it may.
    waiting_reason: str = ""
    #: Why the role can never start; empty when it can.
    unreachable_reason: str = ""
    #: The attempt is over: nothing starts and nothing is retried any more.
    ending: bool = False
    #: Pods that still run when the attempt is over are deleted.
    deletes_running_pods: bool = True
    #: Pods that have ended are deleted too when the attempt is over.
    deletes_ended_pods: bool = False


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """A task as it rests now, what to do for it, and when to look at it again at the latest."""

    task: TaskStatus
    action: Action | None = None
    recheck_at: Time | None = None
    steps: tuple[StateTransition, ...] = ()


def advance(
    task: TaskStatus, pod: ObservedPod | None, around: RoleContext, refused: Completion | None = None
) -> TaskUpdate:
    """
    The task after everything that follows from *pod* and *around* without anybody's doing.

    *pod* serves this very attempt, or is None; *refused* says how its creation was turned down for good.
    """
    if refused is not None and pod is None and _awaits_creation(task):
        task = _with_message(_ended(task, refused, around), refused.diagnostics)
    steps: list[StateTransition] = []
    while True:
        move = _HANDLERS[task.state](task, pod, around)
        if move.task.state is task.state:
            return TaskUpdate(move.task, move.action, move.recheck_at, tuple(steps))
        if move.task.state not in TASK_STEPS[task.state]:
            raise ValueError(f"no step leads a task from {task.state} to {move.task.state}")
        steps.append(
            StateTransition(task.state, move.task.state, move.task.message, around.role_name, task.index)
        )
        task = move.task


def _awaits_creation(task: TaskStatus) -> bool:
    return task.state is State.CREATION_PENDING and task.attempt.completion is None


def _creation_pending(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    if pod is not None:
        return _enter(task, State.CREATION_REQUESTED, around, "its pod is accepted")
    if task.attempt.completion is not None:
        return _enter(task, State.ATTEMPT_COMPLETED, around, task.message)
    if around.unreachable_reason:
        task = _ended(
            task, completion_for(Code.START_CONDITION_UNREACHABLE, around.unreachable_reason), around
        )
        return _enter(task, State.ATTEMPT_COMPLETED, around, around.unreachable_reason)
    if around.waiting_reason:
        return TaskUpdate(_with_message(task, around.waiting_reason))
    return TaskUpdate(task, CreatePod(around.role_name, task.index, task.incarnation, task.retry.total))


def _creation_requested(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    if pod is not None:
        return _enter(task, State.PREPARING, around, "")
    if task.attempt.completion is not None:
        return _enter(task, State.ATTEMPT_COMPLETED, around, task.message)
    limit = around.rules.unobserved_pod_timeout_seconds
    if around.now < (due := task.transition_time + limit):
        return TaskUpdate(task, recheck_at=due)
    because = f"its pod was created but not seen for {limit} s"
    return _enter(
        _ended(task, completion_for(Code.POD_LOCAL_CACHE_CREATION_TIMEOUT, because), around),
        State.ATTEMPT_COMPLETED,
        around,
        because,
    )


def _in_sight(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    """AttemptPreparing and AttemptRunning: what the pod says decides."""
    if pod is None:
        return _gone(task, around)
    if pod.deleting:
        return _being_deleted(task, around)
    task = _with_facts(task, pod)
    if pod.ended:
        return _pod_ended(task, pod, around)
    if task.attempt.completion is not None:
        if around.ending and not around.deletes_running_pods and not task.deletion_pending:
            return _enter(
                task, State.ATTEMPT_COMPLETED, around, "the attempt is over; its pod is left running"
            )
        return _enter(task, State.DELETION_PENDING, around, task.message)
    return _alive(task, pod, around)


def _alive(task: TaskStatus, pod: ObservedPod, around: RoleContext) -> TaskUpdate:
    if pod.phase == "Running" and task.state is not State.RUNNING:
        return _enter(task, State.RUNNING, around, "")
    if pod.phase == "Running":
        return TaskUpdate(_with_message(task, pod.pending_reason))
    if pod.phase != "Pending":
        return TaskUpdate(task)
    if task.state is State.RUNNING:
        return _enter(task, State.PREPARING, around, pod.pending_reason)
    task = _with_message(task, pod.pending_reason)
    limit = around.role.pending_deadline_seconds if around.role is not None else None
    if limit is None:
        return TaskUpdate(task)
    # A pod that ran once and waits again has had its time since then.
    begun = pod.created if task.attempt.run_time is None else task.transition_time
    if around.now < (due := begun + limit):
        return TaskUpdate(task, recheck_at=due)
    because = f"its pod was still pending after {limit} s" + (
        f" ({pod.pending_reason})" if pod.pending_reason else ""
    )
    return _end_with_pod(
        _ended(task, completion_for(Code.POD_PENDING_DEADLINE_EXCEEDED, because), around), pod, around
    )


def _pod_ended(task: TaskStatus, pod: ObservedPod, around: RoleContext) -> TaskUpdate:
    if task.attempt.completion is None:
        task = _ended(task, around.rules.failures.classify(pod.end or {}, pod.name), around)
    if task.deletion_pending:
        return _enter(task, State.DELETION_PENDING, around, task.message)
    return _end_with_pod(task, pod, around)


def _end_with_pod(task: TaskStatus, pod: ObservedPod, around: RoleContext) -> TaskUpdate:
    """The attempt has its completion and its pod is there: kept when this was the last try, deleted before another."""
    decision = _decide(task, around)
    if isinstance(decision, retry.Retry):
        return _enter(_scheduled(task, decision), State.DELETION_PENDING, around, _retry_text(task, decision))
    rest = State.ATTEMPT_COMPLETED if pod.ended else State.DELETION_PENDING
    return _enter(task, rest, around, _end_text(task, decision))


def _deletion_pending(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    if pod is None:
        return _gone(task, around)
    if pod.deleting:
        return _enter(task, State.DELETION_REQUESTED, around, task.message)
    if pod.ended and around.ending and not task.deletion_pending:
        return _enter(task, State.ATTEMPT_COMPLETED, around, "the attempt is over; it is not tried again")
    waits = pod.ended and not around.ending and not task.deletion_pending
    if waits and around.now < (due := _retry_due(task, around.now)):
        return TaskUpdate(task, recheck_at=due)  # its logs stay readable while it waits for its retry
    return TaskUpdate(task, DeletePod(pod.name, pod.uid))


def _deletion_requested(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    if pod is None:
        return _gone(task, around)
    return _enter(task, State.DELETING, around, task.message) if pod.deleting else TaskUpdate(task)


def _deleting(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    if pod is None:
        return _gone(task, around)
    return TaskUpdate(task, *deletion_action(pod, around.graceful_deletion_seconds, around.now))


def deletion_action(pod: ObservedPod, limit: int | None, now: Time) -> tuple[DeletePod | None, Time | None]:
    """What makes an unwanted pod go: its deletion; by force once that takes over *limit* seconds, or when it will."""
    if pod.deletion_asked is None:
        return DeletePod(pod.name, pod.uid), None
    # An API server marks a pod without grace first and removes it then, unless its client is gone by that time.
    if pod.deletion_stalled:
        limit = _CUT_OFF if limit is None else min(limit, _CUT_OFF)
    if limit is None:
        return None, None
    due = pod.deletion_asked + limit
    return (DeletePod(pod.name, pod.uid, force=True), None) if now >= due else (None, due)


def _attempt_completed(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    completion = task.attempt.completion
    if completion is None:
        raise ValueError("an attempt that is over has a completion")
    decision = _decide(task, around)
    if isinstance(decision, retry.GiveUp):
        return _enter(task, State.COMPLETED, around, task.message)
    if task.retry.delay is None and decision.delay:
        task = _with_message(_scheduled(task, decision), _retry_text(task, decision))
    if around.now < (due := _retry_due(task, around.now)):
        return TaskUpdate(task, recheck_at=due)
    if pod is not None:  # somebody else saw it go first, or it came back into sight
        return TaskUpdate(task, *deletion_action(pod, around.graceful_deletion_seconds, around.now))
    counters = retry.executed(task.retry, decision)
    because = f"try {counters.total + 1} after {_end_words(task)}: {decision.because}"
    task = replace(task, retry=counters, attempt=TaskAttempt(around.now))
    return _enter(task, State.CREATION_PENDING, around, because)


def _completed(task: TaskStatus, pod: ObservedPod | None, around: RoleContext) -> TaskUpdate:
    if pod is None:
        return TaskUpdate(task)
    # A pod that runs although its attempt goes on was accepted only after the task was over.
    keeps = not pod.deleting and (
        not (around.ending and around.deletes_ended_pods)
        if pod.ended
        else around.ending and not around.deletes_running_pods
    )
    return (
        TaskUpdate(task)
        if keeps
        else TaskUpdate(task, *deletion_action(pod, around.graceful_deletion_seconds, around.now))
    )


_HANDLERS: Mapping[State, Callable[[TaskStatus, ObservedPod | None, RoleContext], TaskUpdate]] = {
    State.CREATION_PENDING: _creation_pending,
    State.CREATION_REQUESTED: _creation_requested,
    State.PREPARING: _in_sight,
    State.RUNNING: _in_sight,
    State.DELETION_PENDING: _deletion_pending,
    State.DELETION_REQUESTED: _deletion_requested,
    State.DELETING: _deleting,
    State.ATTEMPT_COMPLETED: _attempt_completed,
    State.COMPLETED: _completed,
}


def _decide(task: TaskStatus, around: RoleContext) -> retry.Retry | retry.GiveUp:
    """Whether the task is tried again; never once it is unwanted or the attempt around it is over."""
    completion, attempt = task.attempt.completion, task.attempt
    if completion is None:
        raise ValueError("only an attempt that ended can be retried")
    if around.role is None or task.deletion_pending:
        return retry.GiveUp("the task is removed by a scale-down")
    if around.ending:
        return retry.GiveUp("the attempt of the whole Framework is over")
    if completion.code == Code.START_CONDITION_UNREACHABLE:
        return retry.GiveUp("no other try could start either")
    ended = attempt.completion_time if attempt.completion_time is not None else around.now
    begun = attempt.run_time if attempt.run_time is not None else attempt.start_time
    return retry.after_completion(
        around.role.retry, completion, task.retry, lasted=ended - begun, backoff=around.rules.backoff
    )


def _scheduled(task: TaskStatus, decision: retry.Retry) -> TaskStatus:
    return replace(task, retry=retry.scheduled(task.retry, decision))


def _retry_due(task: TaskStatus, now: Time) -> Time:
    """When the retry is due; one without a delay always was, whatever the clock has done since."""
    if task.retry.delay is None:
        return 0
    ended = task.attempt.completion_time
    return retry.due(ended if ended is not None else task.transition_time, task.retry.delay, now)


def _retry_text(task: TaskStatus, decision: retry.Retry) -> str:
    when = f"in {decision.delay} s" if decision.delay else "at once"
    return f"{_end_words(task)}; tried again {when}: {decision.because}"


def _end_text(task: TaskStatus, decision: retry.GiveUp) -> str:
    completion = task.attempt.completion
    if completion is None or not completion.failed:
        return ""
    return f"{_end_words(task)}; not tried again: {decision.because}"


def _end_words(task: TaskStatus) -> str:
    completion = task.attempt.completion
    return completion.summary if completion is not None else "ended"


def _gone(task: TaskStatus, around: RoleContext) -> TaskUpdate:
    if task.attempt.completion is None:
        task = _ended(
            task, completion_for(Code.POD_EXTERNAL_DELETED, "the pod was deleted by somebody else"), around
        )
    return _enter(task, State.ATTEMPT_COMPLETED, around, task.message)


def _being_deleted(task: TaskStatus, around: RoleContext) -> TaskUpdate:
    """Once a pod is being deleted, how its containers end says nothing any more."""
    if task.attempt.completion is None:
        task = _ended(
            task,
            completion_for(Code.POD_EXTERNAL_DELETED, "the pod is being deleted by somebody else"),
            around,
        )
        task = _with_message(task, "its pod is being deleted by somebody else")
    return _enter(task, State.DELETING, around, task.message)


def _ended(task: TaskStatus, completion: Completion, around: RoleContext) -> TaskStatus:
    """The completion is written once per attempt; later causes do not change it."""
    return replace(task, attempt=replace(task.attempt, completion=completion, completion_time=around.now))


def _with_facts(task: TaskStatus, pod: ObservedPod) -> TaskStatus:
    attempt = task.attempt
    if (attempt.pod_uid, attempt.node, attempt.ip, attempt.host_ip, attempt.ready) == (
        pod.uid,
        pod.node,
        pod.ip,
        pod.host_ip,
        pod.ready,
    ):
        return task
    facts = replace(attempt, pod_uid=pod.uid, node=pod.node, ip=pod.ip, host_ip=pod.host_ip, ready=pod.ready)
    return replace(task, attempt=facts)


def _with_message(task: TaskStatus, message: str) -> TaskStatus:
    return task if task.message == message else replace(task, message=message)


def _enter(task: TaskStatus, state: State, around: RoleContext, because: str) -> TaskUpdate:
    now, attempt = around.now, task.attempt
    if state is State.RUNNING:
        attempt = replace(attempt, run_time=now)
        run_time = now if task.run_time is None else task.run_time
        return TaskUpdate(
            replace(
                task, state=state, transition_time=now, message=because, attempt=attempt, run_time=run_time
            )
        )
    if state is State.ATTEMPT_COMPLETED and attempt.completion_time is None:
        task = replace(task, attempt=replace(attempt, completion_time=now))
    if state is State.COMPLETED:
        task = replace(task, completion_time=now, retry=replace(task.retry, delay=None))
    return TaskUpdate(replace(task, state=state, transition_time=now, message=because))
