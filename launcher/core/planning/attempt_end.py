"""The end of an attempt: its completion, the deletion of its pods, and the retry or completion of the Framework."""

from dataclasses import replace

from launcher.core.completion_codes import Code, Completion, completion_for
from launcher.core.framework import Framework
from launcher.core.planning import gang, messages, retry
from launcher.core.planning.actions import DeleteFramework, RecordAttempt
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.plan_state import PlanState
from launcher.core.spec import CleanPodPolicy, ExecutionType, FrameworkSpec
from launcher.core.status import FrameworkAttempt, FrameworkStatus, State, Trigger
from launcher.core.timestamps import Time

#: Codes after which running pods are deleted whatever ``cleanPodPolicy`` is.
_ALWAYS_STOPS_PODS = frozenset({int(Code.STOP_FRAMEWORK_REQUESTED), int(Code.ACTIVE_DEADLINE_EXCEEDED)})


class AttemptEnd:
    """
    Ends attempts: completes the current one, waits for the deletion of its pods, and then starts the next attempt or
    completes the Framework.
    """

    def __init__(self, state: PlanState) -> None:
        self._state = state
        #: All pods of the last attempt are being deleted before the next attempt.
        self.is_deleting_all_pods = False
        #: The completion of the attempt was saved before this pass: a retry must not start from one that may be lost.
        self._is_completion_saved = False

    def start_pass(self) -> None:
        """Records whether the saved status has the completion of the attempt."""
        self._is_completion_saved = self._state.status.state is State.ATTEMPT_COMPLETED

    def advance(self, jitter: float, pods_are_live: bool) -> bool:
        """Makes the next transition after the completion of an attempt. Returns whether another pass is needed."""
        match self._state.status.state:
            case State.COMPLETED:
                self._expire()
                return False
            case State.ATTEMPT_COMPLETED:
                return self._retry_or_finish(jitter, pods_are_live)
            case _:
                return self._await_deletions(pods_are_live)

    def interrupt(self) -> None:
        """Completes the attempt if the Framework is deleted or stopped, or its deadline has passed."""
        state = self._state
        if state.is_ending:
            return
        self.is_past_deadline()  # otherwise it requeues for the deadline
        completion = _interrupting_completion(state.framework, state.status.status, state.now)
        if completion is not None:
            self.complete(completion, None)

    def is_past_deadline(self) -> bool:
        """Whether activeDeadlineSeconds is exceeded; if not, requeues for that time."""
        due = _deadline(self._state.spec, self._state.status.status)
        if due is None:
            return False
        self._state.requeue_times.append(due)
        return self._state.now >= due

    @property
    def deletes_running_pods(self) -> bool:
        """Whether running pods are deleted when the attempt completes."""
        completion = self._state.status.attempt.completion
        return (
            self._state.spec.clean_pods is not CleanPodPolicy.NONE
            or (completion is not None and completion.code in _ALWAYS_STOPS_PODS)
            # Pods of a gang that was never scheduled completely cannot work.
            or gang.is_unplaced(self._state.status.status)
        )

    def complete(self, completion: Completion, trigger: Trigger | None) -> None:
        """Completes the attempt. Its completion is written once; tasks without a completion get one."""
        status = self._state.status
        status.put_attempt(completion=completion, trigger=trigger)
        reason = _completion_message(status.attempt, self._describe_completion(completion), "")
        deleted = completion.code == Code.FRAMEWORK_EXTERNAL_DELETED
        if not deleted:
            stopped = completion_for(Code.FRAMEWORK_ATTEMPT_COMPLETION, messages.attempt_completed(reason))
            is_requested = completion.code == Code.STOP_FRAMEWORK_REQUESTED
            self._state.tasks.complete_remaining(
                stopped, messages.STOP_REQUESTED if is_requested else messages.STOPPED_WITH_ATTEMPT
            )
        self._state.tasks.enqueue_all()
        if status.state is not State.CREATION_PENDING:
            status.transition_to(State.DELETING if deleted else State.DELETION_PENDING, reason)
        elif self._state.tasks.pods:
            status.transition_to(State.DELETING, reason)
        else:
            status.set_message(reason)

    def _describe_completion(self, completion: Completion) -> str:
        """Describes the attempt's completion by that of the task that triggered it, if a task did."""
        trigger = self._state.status.attempt.trigger
        if trigger is not None and trigger.role is not None and trigger.index is not None:
            role = self._state.tasks.roles.get(trigger.role)
            if role is not None and trigger.index < len(role.tasks):
                cause = role.tasks[trigger.index].attempt.completion
                if cause is not None and cause.code == completion.code:
                    return messages.describe_completion(cause, role.role)
        return messages.describe_completion(completion)

    def _await_deletions(self, pods_are_live: bool) -> bool:
        """Completes the attempt once all tasks completed and no pod is left to delete."""
        status, tasks = self._state.status, self._state.tasks
        if tasks.uncertain_pods:
            return False
        if self._state.framework.deleting and not tasks.pods and not tasks.all_completed:
            completion = completion_for(Code.FRAMEWORK_ATTEMPT_COMPLETION, messages.FRAMEWORK_DELETING)
            tasks.complete_remaining(completion, messages.FRAMEWORK_DELETING)
            return True
        if tasks.all_completed and not self._has_pods_to_delete():
            if not pods_are_live and tasks.has_unobserved_pods:
                self._state.request_live_pods()
                return False
            status.transition_to(State.ATTEMPT_COMPLETED, status.status.message)
            return True
        if status.state in (State.CREATION_PENDING, State.DELETION_PENDING) and tasks.deleting:
            status.transition_to(State.DELETING, status.status.message)
        return False

    def _has_pods_to_delete(self) -> bool:
        """Whether pods exist that must not outlive the attempt, including pods first observed after its completion."""
        if self._state.spec.clean_pods is CleanPodPolicy.ALL:
            return bool(self._state.tasks.pods)
        return self.deletes_running_pods and any(
            not pod.terminated for pod in self._state.tasks.pods.values()
        )

    def _retry_or_finish(self, jitter: float, pods_are_live: bool) -> bool:
        """Decides between another attempt and the completion of the Framework."""
        status, spec = self._state.status, self._state.spec
        completion = status.attempt.completion
        if completion is None:
            raise ValueError("a completed attempt has a completion")
        if self._state.framework.deleting:
            return False
        decision = _retry_decision(
            spec, status.status, completion, self._state.options, self._state.now, jitter
        )
        if isinstance(decision, retry.GiveUp):
            return self._finish(completion, decision.reason)
        description = self._describe_completion(completion)
        if spec.execution is ExecutionType.STOP:
            reason = messages.instead_of_retry(messages.STOPPED, description)
            return self._finish_instead_of_retry(Code.STOP_FRAMEWORK_REQUESTED, reason)
        if self.is_past_deadline():
            reason = messages.instead_of_retry(_deadline_exceeded(spec), description)
            return self._finish_instead_of_retry(Code.ACTIVE_DEADLINE_EXCEEDED, reason)
        if decision.delay and status.retry.delay is None:
            status.put(retry=retry.with_scheduled_retry(status.retry, decision))
            status.set_message(messages.retrying(description, decision.delay, decision.reason))
        due = retry.due(status.status.transition_time, decision.delay, self._state.now)
        if decision.delay and self._state.now < due:
            self._state.requeue_times.append(due)
            return False
        return self._delete_old_pods_then_retry(description, decision, pods_are_live)

    def _delete_old_pods_then_retry(
        self, description: str, decision: retry.Retry, pods_are_live: bool
    ) -> bool:
        """Deletes all pods of this attempt, then starts the next one."""
        if self._state.tasks.pods:
            if self.is_deleting_all_pods:
                return False
            self.is_deleting_all_pods = True
            self._state.tasks.enqueue_all()
            return True
        if self._record_attempt(decision):
            return False
        if not (pods_are_live and self._is_completion_saved):
            self._state.request_live_pods()
            return False
        self.is_deleting_all_pods = False
        status = self._state.status
        status.put(
            retry=retry.with_executed_retry(status.retry, decision),
            observed_generation=self._state.framework.generation,
        )
        status.put(attempt=FrameworkAttempt(status.retry.total, self._state.now))
        # The gang of the new attempt is not scheduled, and its timeout has not begun.
        status.drop_condition(gang.GANG_PLACED)
        status.transition_to(State.CREATION_PENDING, messages.attempt_started(decision.reason, description))
        self._state.create_tasks(status.retry.total)
        return True

    def _record_attempt(self, decision: retry.Retry) -> bool:
        """Requests the record of this attempt. Returns False if it exists, or none is kept."""
        status = self._state.status
        completion = status.attempt.completion
        limit = self._state.spec.attempt_history_limit
        if not limit or self._state.recorded_attempt == status.attempt.id or completion is None:
            return False
        message = _completion_message(status.attempt, self._describe_completion(completion), "")
        self._state.actions.append(RecordAttempt(status.attempt.id, message, decision))
        return True

    def _finish_instead_of_retry(self, code: Code, reason: str) -> bool:
        """Completes the Framework because it was stopped, or its deadline passed, before the retry."""
        completion = completion_for(code, reason)
        self._state.status.put_attempt(completion=completion, trigger=None)
        self._state.tasks.enqueue_all()  # this completion deletes pods that the previous one left running
        return self._finish(completion, reason)

    def _finish(self, completion: Completion, reason: str) -> bool:
        status = self._state.status
        if self.is_deleting_all_pods:  # the pods are kept, as there is no further attempt
            self.is_deleting_all_pods = False
            self._state.tasks.enqueue_all()
        status.put(retry=replace(status.retry, delay=None))
        description = self._describe_completion(completion)
        status.transition_to(State.COMPLETED, _completion_message(status.attempt, description, reason))
        return True

    def _expire(self) -> None:
        """Deletes a completed Framework after its ttlSecondsAfterFinished."""
        if self._state.framework.deleting:
            return
        status, limit = self._state.status.status, _ttl_seconds(self._state.spec, self._state.options)
        due = (status.completion_time or status.transition_time) + limit
        if self._state.now < due:
            self._state.requeue_times.append(due)
        else:
            self._state.actions.append(DeleteFramework(messages.ttl_expired(limit)))


def _interrupting_completion(framework: Framework, status: FrameworkStatus, now: Time) -> Completion | None:
    """Returns the completion of an attempt that has to end now; None when it may continue."""
    if framework.deleting:
        return completion_for(Code.FRAMEWORK_EXTERNAL_DELETED, messages.FRAMEWORK_DELETING)
    if framework.spec.execution is ExecutionType.STOP:
        return completion_for(Code.STOP_FRAMEWORK_REQUESTED, messages.STOP_REQUESTED)
    due = _deadline(framework.spec, status)
    if due is not None and now >= due:
        return completion_for(Code.ACTIVE_DEADLINE_EXCEEDED, f"{_deadline_exceeded(framework.spec)}.")
    return None


def _deadline(spec: FrameworkSpec, status: FrameworkStatus) -> Time | None:
    """Returns when activeDeadlineSeconds is exceeded; None without a limit or before the start."""
    limit, started = spec.active_deadline_seconds, status.condition("Started")
    return None if limit is None or started is None else started.since + limit


def _deadline_exceeded(spec: FrameworkSpec) -> str:
    return messages.active_deadline(spec.active_deadline_seconds)


def _retry_decision(
    spec: FrameworkSpec,
    status: FrameworkStatus,
    completion: Completion,
    options: PlannerOptions,
    now: Time,
    jitter: float,
) -> retry.Retry | retry.GiveUp:
    """Decides whether the Framework is retried after *completion*, and when."""
    attempt = status.attempt
    shortest, longest = options.conflict_delay
    started = attempt.run_time if attempt.run_time is not None else attempt.start_time
    return retry.after_completion(
        spec.retry,
        completion,
        status.retry,
        duration=(attempt.completion_time or now) - started,
        backoff=options.backoff,
        conflict_delay=shortest + int(jitter * (longest - shortest + 1)),
    )


def _completion_message(attempt: FrameworkAttempt, description: str, reason: str) -> str:
    """Returns the message of a completed attempt; *reason* says why it is not retried."""
    completion = attempt.completion
    if completion is None:
        raise ValueError("a completed attempt has a completion")
    never_retried = completion.code in retry.NEVER_RETRIED
    return messages.framework_completed(
        completion, attempt.trigger, description, "" if never_retried else reason
    )


def _ttl_seconds(spec: FrameworkSpec, options: PlannerOptions) -> int:
    """Seconds after which a completed Framework is deleted."""
    return spec.ttl_seconds if spec.ttl_seconds is not None else options.default_ttl_seconds
