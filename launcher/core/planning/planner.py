"""
Planning: (Framework, pods, time) -> the status to save, the actions to execute after that, the time to plan again.

``plan`` is a function of its arguments. ``Planner`` returns the same results incrementally, at the cost of what has
changed; a property test holds the two equal.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from launcher.core.completion_codes import PREDEFINED, Code, Completion
from launcher.core.events import ObjectEvent
from launcher.core.framework import Framework
from launcher.core.planning import gang, messages
from launcher.core.planning.actions import Action, StateTransition
from launcher.core.planning.attempt_end import (
    AttemptEnd,
)
from launcher.core.planning.attempt_state import CompletedTask
from launcher.core.planning.completion_tracker import AttemptResult
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.plan_state import PlanState
from launcher.core.planning.progress import PodOutput
from launcher.core.planning.rescale import rescale, roles_from_status, update_specs
from launcher.core.planning.role_state import RoleState, first_waiting_reason, scheduling_progress
from launcher.core.planning.start_order import OPEN, StartGate, start_gate
from launcher.core.planning.status_builder import StatusBuilder
from launcher.core.planning.task_transitions import RoleContext
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import CleanPodPolicy, ExecutionType, PodName
from launcher.core.status import FrameworkStatus, State
from launcher.core.timestamps import Time

#: Far more passes than any role can need.
_MAX_PASSES_PER_ROLE = 50
_POD_DELETED = PREDEFINED[Code.POD_EXTERNAL_DELETED].phrase


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of one planning pass; the status is that of the planner."""

    #: To be executed in this order, after the status is saved.
    actions: tuple[Action, ...] = ()
    #: The latest time of the next pass. None: when something changes.
    requeue_at: Time | None = None
    transitions: tuple[StateTransition, ...] = ()
    events: tuple[ObjectEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The status to save, the actions to execute after that, and the time of the next reconcile."""

    status: FrameworkStatus
    actions: tuple[Action, ...] = ()
    requeue_at: Time | None = None


def plan(
    framework: Framework,
    pods: Iterable[ObservedPod],
    now: float,
    *,
    options: PlannerOptions | None = None,
    jitter: float = 0.0,
    pods_are_live: bool = False,
    recorded_attempt: int | None = None,
) -> Plan:
    """
    Returns the plan for *framework* with its *pods*.

    *jitter* in [0, 1) selects random delays. *pods_are_live*: the pods were just listed from the store, not taken from
    a cache. Only then does an attempt complete whose pods may exist unobserved, and only then does the next one start.
    *recorded_attempt* is the id of the attempt whose FrameworkAttempt is stored: the next one starts after that.
    """
    planner = Planner(framework, options or PlannerOptions())
    for pod in pods:
        planner.observe_pod(pod)
    result = planner.plan(now, jitter=jitter, pods_are_live=pods_are_live, recorded_attempt=recorded_attempt)
    return Plan(planner.status(), result.actions, result.requeue_at)


class Planner:
    """Plans one Framework, starting from its last saved status."""

    def __init__(self, framework: Framework, options: PlannerOptions) -> None:
        #: The name of the gang backend for messages; empty while it is unknown.
        self.gang_backend = ""
        self._state = PlanState(framework, options)
        self._tasks = self._state.tasks
        self._end = AttemptEnd(self._state)
        if framework.status is not None:
            self._load(framework.status)

    # Observations.

    def update(self, framework: Framework) -> None:
        """Replaces spec and metadata; the planner owns the status."""
        if (framework.generation, framework.deleting) != (
            self._state.framework.generation,
            self._state.framework.deleting,
        ):
            self._tasks.enqueue_all()
        self._state.framework = framework

    def observe_pod(self, pod: ObservedPod) -> None:
        """Records the current pod. A version older than the known one is ignored."""
        self._tasks.observe_pod(pod)

    def pod_deleted(self, name: PodName) -> None:
        """Records that the pod no longer exists."""
        self._tasks.pod_deleted(name)

    def creation_rejected(self, name: PodName, completion: Completion) -> None:
        """Records that the pod can never be created; the task attempt completes with *completion*."""
        self._tasks.reject_creation(name, completion)

    def creation_delayed(self, name: PodName, message: str) -> None:
        """Records why the pod could not be created yet."""
        self._tasks.set_creation_message(name, message)

    def observe_output(self, name: PodName, output: PodOutput, now: float) -> None:
        """Records the output of a pod, read at *now*, which shows whether its task has stalled."""
        self._tasks.observe_output(name, output, int(now))

    def has_stalled(self, name: PodName) -> bool:
        """Whether the running task of that pod has stalled."""
        return self._tasks.has_stalled(name)

    def add_event(self, event: ObjectEvent) -> None:
        """Adds an event to the result of the next pass."""
        self._tasks.events.append(event)

    def enqueue(self, name: PodName) -> None:
        """Plans the task of that pod again in the next pass."""
        self._tasks.enqueue(name)

    def enqueue_all(self) -> None:
        """Plans all tasks again in the next pass."""
        self._tasks.enqueue_all()

    # Results.

    @property
    def pods(self) -> Mapping[PodName, ObservedPod]:
        return self._tasks.pods

    @property
    def has_queued(self) -> bool:
        """Whether the next pass has tasks to plan."""
        return self._tasks.has_queued

    @property
    def task_count(self) -> int:
        """The number of tasks in the status."""
        return sum(len(role.tasks) for role in self._tasks.roles.values())

    @property
    def completed_tasks(self) -> int:
        return self.task_count - sum(role.unfinished for role in self._tasks.roles.values())

    @property
    def changed(self) -> bool:
        """Whether the status changed since ``mark_saved``."""
        return self._tasks.changed or (self._state.builder is not None and self._state.builder.changed)

    @property
    def attempt(self) -> int:
        """The number of the current attempt."""
        return self._status.attempt.id

    @property
    def has_run(self) -> bool:
        """Whether a task of the current attempt has run."""
        return self._status.attempt.run_time is not None

    @property
    def state(self) -> State:
        """The state of the Framework, also before the first pass."""
        builder = self._state.builder
        return State.CREATION_PENDING if builder is None else builder.state

    @property
    def is_completed(self) -> bool:
        return self.state is State.COMPLETED

    @property
    def summary(self) -> FrameworkStatus:
        """The status without its tasks."""
        return self._status.status

    def mark_saved(self) -> None:
        """Records that the current status is stored."""
        self._status.changed = self._tasks.changed = False

    def status(self) -> FrameworkStatus:
        """Returns the whole status."""
        return replace(
            self._status.status, roles=tuple(role.to_status() for role in self._tasks.roles.values())
        )

    def plan(
        self,
        now: float,
        *,
        jitter: float = 0.0,
        pods_are_live: bool = False,
        recorded_attempt: int | None = None,
    ) -> PlanResult:
        """Plans all queued tasks, then the Framework. The arguments are those of ``plan``."""
        self._state.recorded_attempt = recorded_attempt
        self._tasks.actions.clear()
        self._state.actions.clear()
        self._state.requeue_times.clear()
        if self._state.builder is None:
            self._state.builder = StatusBuilder.new(int(now))
        self._status.now = int(now)
        if self._state.framework.spec_errors:
            return self._reject_spec()
        self._status.mark_spec_valid(self._state.framework.generation)
        self._end.start_pass()
        self._tasks.enqueue_due(int(now))
        self._tasks.set_pods_are_live(pods_are_live)
        self._apply_new_generation()
        self._end.interrupt()
        self._run_to_fixpoint(jitter, pods_are_live)
        if self._tasks.uncertain_pods:
            self._state.request_live_pods()
        return self._result()

    def _reject_spec(self) -> PlanResult:
        """Changes nothing until the spec is corrected; then all tasks are planned again."""
        self._status.mark_spec_invalid(self._state.framework.generation, self._state.framework.spec_errors)
        self._tasks.clear_queue()
        return replace(self._result(), requeue_at=None)

    def _run_to_fixpoint(self, jitter: float, pods_are_live: bool) -> None:
        """Repeats passes until nothing changes. An endless loop is a bug, and must not block other Frameworks."""
        for _ in range(_MAX_PASSES_PER_ROLE * (1 + len(self._state.spec.roles))):
            if self._suspend():
                self._tasks.clear_queue()
                return
            completed = self._advance_tasks()
            advanced = (
                self._record_completions(completed) or self._compact() or self._evaluate_gang(pods_are_live)
            )
            if not (advanced or self._advance_framework(jitter, pods_are_live)):
                self._set_waiting_message()
                return
        raise ValueError("planning does not reach a fixpoint")

    def _advance_tasks(self) -> list[CompletedTask]:
        """Advances all queued tasks until none is queued. Returns the tasks that completed, in status order."""
        completed: list[CompletedTask] = []
        self._enqueue_changed_gates()
        while queued := self._tasks.take_queued():
            for tasks in queued:
                completed += self._tasks.advance_role(tasks, self._role_context(tasks.role))
            self._enqueue_changed_gates()
        return self._tasks.in_status_order(completed)

    def _enqueue_changed_gates(self) -> None:
        for role in self._tasks.roles.values():
            if role.pending:
                self._tasks.update_gate(role, self._gate(role))

    @property
    def _status(self) -> StatusBuilder:
        return self._state.status

    def _result(self) -> PlanResult:
        # Tasks come first: they are the reason for what the Framework did.
        transitions = (*self._tasks.transitions, *self._status.transitions)
        events = [*self._tasks.events, *self._status.events]
        if self._state.framework.deleting:
            # The deletion of a Framework deletes its pods.
            events = [event for event in events if event.reason != _POD_DELETED]
        for reported in (
            self._tasks.transitions,
            self._status.transitions,
            self._tasks.events,
            self._status.events,
        ):
            reported.clear()
        if self._tasks.next_recheck is not None:
            self._state.requeue_times.append(self._tasks.next_recheck)
        actions = (*self._tasks.actions.values(), *self._state.actions)
        return PlanResult(actions, min(self._state.requeue_times, default=None), transitions, tuple(events))

    def _load(self, status: FrameworkStatus) -> None:
        self._state.builder = StatusBuilder(replace(status, roles=()))
        self._tasks.start_attempt(status.attempt.id, roles_from_status(status.roles, self._state.spec))
        self._tasks.changed = False
        self._state.completions.recount(self._tasks.roles.values())

    def _apply_new_generation(self) -> None:
        """Applies a changed spec: rescales first, then evaluates completion by the new rules."""
        status = self._status
        if (
            status.status.observed_generation == self._state.framework.generation
            or status.state is State.COMPLETED
        ):
            return
        is_new = not status.status.observed_generation and not self._tasks.roles
        status.put(observed_generation=self._state.framework.generation)
        if is_new:
            self._state.create_tasks(0)
            return
        if self._state.is_ending:
            update_specs(self._tasks.roles, self._state.spec)
            return
        incarnation = status.attempt.rescales + 1
        if rescale(self._tasks.roles, self._state.spec, self._status.now, incarnation):
            status.put_attempt(rescales=incarnation)
        self._tasks.enqueue_all()
        self._state.completions.recount(self._tasks.roles.values())
        self._apply_result(self._state.completions.reevaluate(self._tasks.roles.values()))

    def _suspend(self) -> bool:
        """Whether executionType Create suspends the Framework. It counts as started once it does not."""
        status = self._status
        if status.state is not State.CREATION_PENDING or self._state.is_ending:
            return False
        # Only a Framework without pods can be suspended.
        suspended = self._state.spec.execution is ExecutionType.CREATE and not self._tasks.pods
        if suspended:
            status.set_message(messages.SUSPENDED)
        status.condition(
            "Suspended",
            suspended,
            "Held" if suspended else "Started",
            status.status.message if suspended else "",
        )
        if not suspended:
            status.condition("Started", True, "AttemptStarted")
            self._end.is_past_deadline()
        return suspended

    def _role_context(self, role: RoleState) -> RoleContext:
        gate = self._gate(role)
        return RoleContext(
            now=self._status.now,
            options=self._state.options,
            role_name=role.name,
            role=role.role,
            graceful_deletion_seconds=role.graceful_deletion_seconds,
            waiting_reason=gate.waiting_reason,
            unreachable_reason=gate.unreachable_reason,
            ending=self._state.is_ending,
            deletes_running_pods=self._end.deletes_running_pods or self._end.is_deleting_all_pods,
            deletes_terminated_pods=(
                self._state.spec.clean_pods is CleanPodPolicy.ALL or self._end.is_deleting_all_pods
            ),
        )

    def _gate(self, role: RoleState) -> StartGate:
        if self._state.framework.deleting:
            return StartGate(waiting_reason=messages.FRAMEWORK_DELETING)
        if role.role is None or self._state.is_ending:
            return OPEN
        return start_gate(role.role, self._state.spec, self._tasks.roles)

    def _record_completions(self, completed: list[CompletedTask]) -> bool:
        """Counts completed tasks in order; the first that meets a rule completes the attempt."""
        for task in completed:
            if not self._state.is_ending:
                self._apply_result(self._state.completions.record_completion(task))
        return bool(completed)

    def _apply_result(self, result: AttemptResult | None) -> None:
        if result is not None:
            self._end.complete(result.completion, result.trigger)

    def _evaluate_gang(self, pods_are_live: bool) -> bool:
        """Evaluates the gang. Returns whether that completed the attempt, which needs live pods."""
        status = self._status
        if self._state.is_ending or status.state is State.COMPLETED:
            return False
        evaluation = gang.evaluate_gang(
            self._state.spec.gang,
            self._tasks.roles.values(),
            status.status.condition(gang.GANG_PLACED),
            self._status.now,
            self.gang_backend,
        )
        if evaluation.condition is not None:
            status.put_condition(evaluation.condition)
            if not evaluation.condition.status and status.state is State.PREPARING:
                status.set_message(evaluation.condition.message)
        status.events.extend(evaluation.events)
        if evaluation.deadline is not None:
            self._state.requeue_times.append(evaluation.deadline)
        if evaluation.completion is None:
            return False
        if not pods_are_live:
            self._state.request_live_pods()
            return False
        self._end.complete(evaluation.completion, evaluation.trigger)
        return True

    def _compact(self) -> bool:
        """Drops removed tasks that completed. Returns whether roles changed."""
        if self._state.is_ending:
            return False
        incarnation = self._status.attempt.rescales + 1
        compacted = self._tasks.compact(self._status.now, incarnation)
        if compacted.renewed:
            self._status.put_attempt(rescales=incarnation)
        return compacted.changed

    def _advance_framework(self, jitter: float, pods_are_live: bool) -> bool:
        """Makes the next transition of the Framework, if one is due. Returns whether another pass is needed."""
        status, roles = self._status, self._tasks.roles.values()
        if self._state.is_ending or status.state in (State.ATTEMPT_COMPLETED, State.COMPLETED):
            return self._end.advance(jitter, pods_are_live)
        if status.state is State.CREATION_PENDING and self._has_started_tasks():
            has_tasks = any(role.tasks for role in roles)
            status.transition_to(State.PREPARING, "" if has_tasks else messages.NO_TASKS)
            return True
        if status.state is State.PREPARING and any(role.running for role in roles):
            status.transition_to(State.RUNNING, messages.ATTEMPT_RUNNING)
            return True
        return False

    def _set_waiting_message(self) -> None:
        """Sets the message of a Framework that is not ending: what it is waiting for, or how many tasks run."""
        status, roles = self._status, self._tasks.roles.values()
        if self._state.is_ending or gang.is_unplaced(status.status):
            return
        if not any(role.tasks for role in roles):
            if status.state is State.RUNNING:
                status.set_message(messages.SCALED_TO_ZERO)
            return
        match status.state:
            case State.CREATION_PENDING:
                status.set_message(first_waiting_reason(roles))
            case State.PREPARING:
                status.set_message(first_waiting_reason(roles) or scheduling_progress(roles))
            case State.RUNNING:
                running = sum(role.running for role in roles)
                total = sum(len(role.tasks) - role.removed_tasks for role in roles)
                # The number changes only when a task changes its state, which is written in any case.
                status.set_message(messages.tasks_running(running, total, first_waiting_reason(roles)))
            case _:
                pass

    def _has_started_tasks(self) -> bool:
        roles = self._tasks.roles.values()
        return not any(role.tasks for role in roles) or any(
            len(role.tasks) != role.by_state[State.CREATION_PENDING] for role in roles
        )
