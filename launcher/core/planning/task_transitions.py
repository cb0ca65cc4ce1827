"""
The next state of one task: (task, pod, role context) -> the task, the action to execute for it.

One function per state either leaves the state or returns what the task is waiting for; ``advance`` calls them until
the state no longer changes. No function depends on other tasks, so the cost of one pod's change is that of one task.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.planning import messages, retry
from launcher.core.planning.actions import Action, CreatePod, DeletePod, ReadOutput, StateTransition
from launcher.core.planning.attempt_history import history_with_current
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.progress import ObservedOutput, progress_deadline
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import RoleName, TaskRole
from launcher.core.status import TASK_STEPS, State, TaskAttempt, TaskStatus
from launcher.core.timestamps import Time

#: Seconds after which an interrupted deletion is repeated.
_STALLED_DELETION_SECONDS = 10


@dataclass(frozen=True, slots=True)
class RoleContext:
    """What the tasks of one role depend on during one pass."""

    now: Time
    options: PlannerOptions
    role_name: RoleName
    #: None: the role was removed from the spec.
    role: TaskRole | None
    graceful_deletion_seconds: int | None = None
    #: Why pods may not be created yet; empty if they may.
    waiting_reason: str = ""
    #: Why the role can never start; empty if it can.
    unreachable_reason: str = ""
    #: The Framework attempt completed: no task starts or is retried.
    ending: bool = False
    #: Running pods are deleted when the Framework attempt completes.
    deletes_running_pods: bool = True
    #: Terminated pods are deleted too.
    deletes_terminated_pods: bool = False
    #: The last output of the task's pod, if it was read.
    output: ObservedOutput | None = None


@dataclass(frozen=True, slots=True)
class TaskUpdate:
    """A task after ``advance``, the action to execute for it, and the time to advance it again."""

    task: TaskStatus
    action: Action | None = None
    recheck_at: Time | None = None
    transitions: tuple[StateTransition, ...] = ()


def advance(
    task: TaskStatus,
    pod: ObservedPod | None,
    context: RoleContext,
    rejection: Completion | None = None,
    output: ObservedOutput | None = None,
) -> TaskUpdate:
    """
    Returns the task after all transitions that follow from *pod* and *context*.

    *pod* is the pod of the current task attempt, or None; *rejection* is set if it can never be created. *output* is
    the last output of the pod, if it was read.
    """
    if output is not None:
        context = replace(context, output=output)
    if rejection is not None and pod is None and _awaits_creation(task):
        task = _with_message(_with_completion(task, rejection, context), rejection.diagnostics)
    transitions: list[StateTransition] = []
    while True:
        update = _HANDLERS[task.state](task, pod, context)
        if update.task.state is task.state:
            return TaskUpdate(update.task, update.action, update.recheck_at, tuple(transitions))
        if update.task.state not in TASK_STEPS[task.state]:
            raise ValueError(f"illegal transition of a task from {task.state} to {update.task.state}")
        transitions.append(
            StateTransition(task.state, update.task.state, update.task.message, context.role_name, task.index)
        )
        task = update.task


def _awaits_creation(task: TaskStatus) -> bool:
    return task.state is State.CREATION_PENDING and task.attempt.completion is None


def _creation_pending(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    if pod is not None:
        return _enter(task, State.CREATION_REQUESTED, context, messages.POD_CREATED)
    if task.attempt.completion is not None:
        return _enter(task, State.ATTEMPT_COMPLETED, context, task.message)
    if context.unreachable_reason:
        task = _with_completion(
            task, completion_for(Code.START_CONDITION_UNREACHABLE, context.unreachable_reason), context
        )
        return _enter(task, State.ATTEMPT_COMPLETED, context, messages.sentence(context.unreachable_reason))
    if context.waiting_reason:
        return TaskUpdate(_with_message(task, context.waiting_reason))
    return TaskUpdate(task, CreatePod(context.role_name, task.index, task.incarnation, task.retry.total))


def _creation_requested(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    if pod is not None:
        return _enter(task, State.PREPARING, context, "")
    if task.attempt.completion is not None:
        return _enter(task, State.ATTEMPT_COMPLETED, context, task.message)
    limit = context.options.unobserved_pod_timeout_seconds
    if context.now < (due := task.transition_time + limit):
        return TaskUpdate(task, recheck_at=due)
    reason = messages.unobserved_pod(limit)
    return _enter(
        _with_completion(task, completion_for(Code.POD_LOCAL_CACHE_CREATION_TIMEOUT, reason), context),
        State.ATTEMPT_COMPLETED,
        context,
        reason,
    )


def _pod_observed(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    """AttemptPreparing and AttemptRunning: the state follows the pod."""
    if pod is None:
        return _pod_missing(task, context)
    if pod.deleting:
        return _pod_being_deleted(task, context)
    task = _with_pod_details(task, pod)
    if pod.terminated:
        return _pod_terminated(task, pod, context)
    if task.attempt.completion is not None:
        if context.ending and not context.deletes_running_pods and not task.deletion_pending:
            return _enter(task, State.ATTEMPT_COMPLETED, context, messages.POD_KEEPS_RUNNING)
        return _enter(task, State.DELETION_PENDING, context, task.message)
    return _pod_not_terminated(task, pod, context)


def _pod_not_terminated(task: TaskStatus, pod: ObservedPod, context: RoleContext) -> TaskUpdate:
    failure = pod.start_failure
    if failure is None or context.role is None or not context.role.fail_fast:
        return _pod_may_start(task, pod, context)
    if context.now >= failure.fails_at:
        completion = completion_for(Code.POD_START_PERMANENT_ERROR, messages.start_failed(failure.reason))
        return _complete_with_pod(_with_completion(task, completion, context), pod, context)
    update = _pod_may_start(task, pod, context)
    due = failure.fails_at if update.recheck_at is None else min(failure.fails_at, update.recheck_at)
    return replace(update, recheck_at=due)


def _pod_may_start(task: TaskStatus, pod: ObservedPod, context: RoleContext) -> TaskUpdate:
    if pod.phase == "Running" and task.state is not State.RUNNING:
        return _enter(task, State.RUNNING, context, "")
    if pod.phase == "Running":
        return _pod_running(_with_message(task, pod.pending_reason), pod, context)
    if pod.phase != "Pending":
        return TaskUpdate(task)
    if task.state is State.RUNNING:
        return _enter(task, State.PREPARING, context, pod.pending_reason)
    task = _with_message(task, pod.pending_reason)
    limit = context.role.pending_deadline_seconds if context.role is not None else None
    if limit is None:
        return TaskUpdate(task)
    # For a pod that has run and is pending again, the deadline begins with that.
    started = pod.created if task.attempt.run_time is None else task.transition_time
    if context.now < (due := started + limit):
        return TaskUpdate(task, recheck_at=due)
    reason = messages.pending_deadline(limit, pod.pending_reason)
    return _complete_with_pod(
        _with_completion(task, completion_for(Code.POD_PENDING_DEADLINE_EXCEEDED, reason), context),
        pod,
        context,
    )


def _pod_running(task: TaskStatus, pod: ObservedPod, context: RoleContext) -> TaskUpdate:
    """A running task fails if its output, when it is read after the deadline, has not changed."""
    deadline = progress_deadline(task, pod, context.role, context.output)
    if deadline is None:
        return TaskUpdate(task)
    if not deadline.has_stalled or context.output is None or context.role is None:
        if context.now < deadline.next_read:
            return TaskUpdate(task, recheck_at=deadline.next_read)
        return TaskUpdate(task, ReadOutput(pod.name, pod.uid))
    reason = messages.stalled(context.role.progress_deadline_seconds, context.output.output.lines)
    completion = completion_for(Code.STALLED, reason)
    return _complete_with_pod(_with_completion(task, completion, context), pod, context)


def _pod_terminated(task: TaskStatus, pod: ObservedPod, context: RoleContext) -> TaskUpdate:
    if task.attempt.completion is None:
        role_rules = context.role.pod_failure_spec if context.role is not None else ()
        classifier = context.options.failures.for_role(role_rules)
        task = _with_completion(task, classifier.classify(pod.terminal_status or {}, pod.name), context)
    if task.deletion_pending:
        return _enter(task, State.DELETION_PENDING, context, task.message)
    return _complete_with_pod(task, pod, context)


def _complete_with_pod(task: TaskStatus, pod: ObservedPod, context: RoleContext) -> TaskUpdate:
    """The attempt completed and its pod exists: it is kept after the last attempt, and deleted before a retry."""
    decision = _decide(task, context)
    if isinstance(decision, retry.Retry):
        return _enter(
            _scheduled(task, decision),
            State.DELETION_PENDING,
            context,
            _retry_message(task, decision, context.role),
        )
    state = State.ATTEMPT_COMPLETED if pod.terminated else State.DELETION_PENDING
    return _enter(task, state, context, _completion_message(task, decision, context.role))


def _deletion_pending(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    if pod is None:
        return _pod_missing(task, context)
    if pod.deleting:
        return _enter(task, State.DELETION_REQUESTED, context, task.message)
    if pod.terminated and context.ending and not task.deletion_pending:
        return _enter(task, State.ATTEMPT_COMPLETED, context, messages.NOT_RETRIED_ATTEMPT_COMPLETED)
    is_waiting = pod.terminated and not context.ending and not task.deletion_pending
    if is_waiting and context.now < (due := _retry_due(task, context.now)):
        return TaskUpdate(task, recheck_at=due)  # its logs stay readable during the back-off
    return TaskUpdate(task, DeletePod(pod.name, pod.uid))


def _deletion_requested(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    if pod is None:
        return _pod_missing(task, context)
    return _enter(task, State.DELETING, context, task.message) if pod.deleting else TaskUpdate(task)


def _deleting(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    if pod is None:
        return _pod_missing(task, context)
    return TaskUpdate(task, *deletion_action(pod, context.graceful_deletion_seconds, context.now))


def deletion_action(pod: ObservedPod, limit: int | None, now: Time) -> tuple[DeletePod | None, Time | None]:
    """Returns the deletion of a pod, with force after *limit* seconds, or else the time when that is due."""
    if pod.deletion_requested is None:
        return DeletePod(pod.name, pod.uid), None
    # The API server first marks a pod with grace period 0 and then removes it, unless the client disconnects between.
    if pod.deletion_stalled:
        limit = _STALLED_DELETION_SECONDS if limit is None else min(limit, _STALLED_DELETION_SECONDS)
    if limit is None:
        return None, None
    due = pod.deletion_requested + limit
    return (DeletePod(pod.name, pod.uid, force=True), None) if now >= due else (None, due)


def _attempt_completed(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    completion = task.attempt.completion
    if completion is None:
        raise ValueError("a completed attempt has a completion")
    decision = _decide(task, context)
    if isinstance(decision, retry.GiveUp):
        return _enter(task, State.COMPLETED, context, task.message)
    if task.retry.delay is None and decision.delay:
        task = _with_message(_scheduled(task, decision), _retry_message(task, decision, context.role))
    if context.now < (due := _retry_due(task, context.now)):
        return TaskUpdate(task, recheck_at=due)
    if pod is not None:  # a pod that was believed deleted was observed again
        return TaskUpdate(task, *deletion_action(pod, context.graceful_deletion_seconds, context.now))
    counters = retry.with_executed_retry(task.retry, decision)
    reason = messages.attempt_started(decision.reason, _description(task, context.role))
    task = replace(
        task,
        retry=counters,
        attempt=TaskAttempt(context.now),
        history=history_with_current(task, decision, context.role),
    )
    return _enter(task, State.CREATION_PENDING, context, reason)


def _completed(task: TaskStatus, pod: ObservedPod | None, context: RoleContext) -> TaskUpdate:
    if pod is None:
        return TaskUpdate(task)
    # A pod that runs while the Framework attempt continues was created only after the task completed.
    is_kept = not pod.deleting and (
        not (context.ending and context.deletes_terminated_pods)
        if pod.terminated
        else context.ending and not context.deletes_running_pods
    )
    return (
        TaskUpdate(task)
        if is_kept
        else TaskUpdate(task, *deletion_action(pod, context.graceful_deletion_seconds, context.now))
    )


_HANDLERS: Mapping[State, Callable[[TaskStatus, ObservedPod | None, RoleContext], TaskUpdate]] = {
    State.CREATION_PENDING: _creation_pending,
    State.CREATION_REQUESTED: _creation_requested,
    State.PREPARING: _pod_observed,
    State.RUNNING: _pod_observed,
    State.DELETION_PENDING: _deletion_pending,
    State.DELETION_REQUESTED: _deletion_requested,
    State.DELETING: _deleting,
    State.ATTEMPT_COMPLETED: _attempt_completed,
    State.COMPLETED: _completed,
}


def _decide(task: TaskStatus, context: RoleContext) -> retry.Retry | retry.GiveUp:
    """Decides whether the task is retried; never if it was removed or the Framework attempt completed."""
    completion, attempt = task.attempt.completion, task.attempt
    if completion is None:
        raise ValueError("only a completed attempt can be retried")
    if context.role is None or task.deletion_pending:
        return retry.GiveUp(messages.SCALED_DOWN)
    if context.ending:
        return retry.GiveUp("the Framework's attempt completed")
    if completion.code == Code.START_CONDITION_UNREACHABLE:
        return retry.GiveUp("startAfter cannot be met by a retry either")
    ended = attempt.completion_time if attempt.completion_time is not None else context.now
    started = attempt.run_time if attempt.run_time is not None else attempt.start_time
    return retry.after_completion(
        context.role.retry, completion, task.retry, duration=ended - started, backoff=context.options.backoff
    )


def _scheduled(task: TaskStatus, decision: retry.Retry) -> TaskStatus:
    return replace(task, retry=retry.with_scheduled_retry(task.retry, decision))


def _retry_due(task: TaskStatus, now: Time) -> Time:
    """The time of the retry; one without a delay is due even if the clock was set back."""
    if task.retry.delay is None:
        return 0
    ended = task.attempt.completion_time
    return retry.due(ended if ended is not None else task.transition_time, task.retry.delay, now)


def _retry_message(task: TaskStatus, decision: retry.Retry, role: TaskRole | None) -> str:
    return messages.retrying(_description(task, role), decision.delay, decision.reason)


def _completion_message(task: TaskStatus, decision: retry.GiveUp, role: TaskRole | None) -> str:
    completion = task.attempt.completion
    if completion is None or not completion.failed:
        return ""
    return messages.not_retried(_description(task, role), decision.reason)


def _description(task: TaskStatus, role: TaskRole | None) -> str:
    completion = task.attempt.completion
    return messages.describe_completion(completion, role) if completion is not None else "completed"


def _pod_missing(task: TaskStatus, context: RoleContext) -> TaskUpdate:
    if task.attempt.completion is None:
        task = _with_completion(
            task, completion_for(Code.POD_EXTERNAL_DELETED, messages.POD_DELETED), context
        )
    return _enter(task, State.ATTEMPT_COMPLETED, context, task.message)


def _pod_being_deleted(task: TaskStatus, context: RoleContext) -> TaskUpdate:
    """The exit codes of a pod that is being deleted do not count."""
    if task.attempt.completion is None:
        task = _with_completion(
            task,
            completion_for(Code.POD_EXTERNAL_DELETED, messages.POD_DELETING),
            context,
        )
        task = _with_message(task, messages.POD_DELETING)
    return _enter(task, State.DELETING, context, task.message)


def _with_completion(task: TaskStatus, completion: Completion, context: RoleContext) -> TaskStatus:
    """Sets the completion, which is written once per attempt."""
    return replace(task, attempt=replace(task.attempt, completion=completion, completion_time=context.now))


def _with_pod_details(task: TaskStatus, pod: ObservedPod) -> TaskStatus:
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


def _enter(task: TaskStatus, state: State, context: RoleContext, reason: str) -> TaskUpdate:
    now, attempt = context.now, task.attempt
    if state is State.RUNNING:
        attempt = replace(attempt, run_time=now)
        run_time = now if task.run_time is None else task.run_time
        return TaskUpdate(
            replace(
                task, state=state, transition_time=now, message=reason, attempt=attempt, run_time=run_time
            )
        )
    if state is State.ATTEMPT_COMPLETED and attempt.completion_time is None:
        task = replace(task, attempt=replace(attempt, completion_time=now))
    if state is State.COMPLETED:
        task = replace(task, completion_time=now, retry=replace(task.retry, delay=None))
    return TaskUpdate(replace(task, state=state, transition_time=now, message=reason))
