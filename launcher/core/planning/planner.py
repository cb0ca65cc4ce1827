"""
What to do about a Framework: (framework, pods, now) -> what to save, then what to do, then when to look again.

``plan`` answers from nothing but its arguments. ``Planner`` gives the same answers to whoever keeps it and tells it
what has changed, at the price of the change alone; a property test holds the two equal.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from launcher.core.completion_codes import PREDEFINED, Code, Completion, completion_for
from launcher.core.framework import Framework
from launcher.core.planning import gang, retry
from launcher.core.planning.actions import Action, DeleteFramework, ListPodsLive, ObjectEvent, StateTransition
from launcher.core.planning.attempt_end import (
    ALWAYS_STOPS,
    DELETED,
    completion_message,
    deadline,
    deadline_words,
    interrupting_completion,
    retry_decision,
    ttl_seconds,
)
from launcher.core.planning.attempt_state import AttemptState, CompletedTask
from launcher.core.planning.completion_tracker import AttemptResult, CompletionTracker
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.rescale import adopt, known_crews, new_crews, rescale
from launcher.core.planning.role_state import RoleState, first_wait, start_wait
from launcher.core.planning.start_order import OPEN, StartGate, gate
from launcher.core.planning.status_builder import StatusBuilder
from launcher.core.planning.task_transitions import RoleContext
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import CleanPodPolicy, ExecutionType
from launcher.core.status import FrameworkAttempt, FrameworkStatus, State, Trigger
from launcher.core.timestamps import Time

#: Far more rounds of thought than any role can give cause for.
_ROUNDS = 50
_RUNNING = "a task runs"
_POD_DELETED = PREDEFINED[Code.POD_EXTERNAL_DELETED].phrase
_NO_TASKS = "scaled to 0 tasks: nothing runs until a role is scaled up"


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What one look at a Framework came to."""

    #: To be done once the status is saved, in this order.
    actions: tuple[Action, ...] = ()
    #: When to look again at the latest; None: when something happens.
    requeue_at: Time | None = None
    steps: tuple[StateTransition, ...] = ()
    notices: tuple[ObjectEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to save, then what to do, then when to look again."""

    status: FrameworkStatus
    actions: tuple[Action, ...] = ()
    requeue_at: Time | None = None


def plan(
    framework: Framework,
    pods: Iterable[ObservedPod],
    now: float,
    *,
    rules: PlannerOptions | None = None,
    chance: float = 0.0,
    fresh: bool = False,
) -> Plan:
    """
    The plan for *framework* with these *pods* of its own.

    *chance* in [0, 1) places random delays. *fresh* says that the pods were just read from the store itself: only then
    is an attempt over in which a pod may have come unseen, and only then does another one begin.
    """
    planner = Planner(framework, rules or PlannerOptions())
    for pod in pods:
        planner.attempt_state.observe_pod(pod)
    look = planner.plan(now, chance=chance, fresh=fresh)
    return Plan(planner.status(), look.actions, look.requeue_at)


class Planner:
    """One Framework, thought through from its last saved status on."""

    def __init__(self, framework: Framework, rules: PlannerOptions) -> None:
        self.attempt_state = AttemptState(framework.name, framework.uid)
        #: Who places the gang, for people to read; empty while that is not known.
        self.gang_backend = ""
        self._framework = framework
        self._rules = rules
        self._record: StatusBuilder | None = None
        #: Another attempt is due, and every pod of the last one has to go first.
        self._sweeping = False
        #: This look began with an attempt whose end is stored: nothing is begun on an end that a crash could lose.
        self._is_end_saved = False
        self._jury = CompletionTracker()
        self._actions: list[Action] = []
        self._wakes: list[Time] = []
        if framework.status is not None:
            self._load(framework.status)

    @property
    def changed(self) -> bool:
        """Whether the status is another than when it was last marked saved."""
        return self.attempt_state.changed or (self._record is not None and self._record.changed)

    @property
    def attempt(self) -> int:
        """The number of the current attempt."""
        return self._known.attempt.id

    @property
    def has_run(self) -> bool:
        """Whether a task of the current attempt has come to run."""
        return self._known.attempt.run_time is not None

    @property
    def state(self) -> State:
        """How far the Framework has come."""
        return self._known.state

    @property
    def is_completed(self) -> bool:
        """Whether the Framework has reached its end."""
        return self.state is State.COMPLETED

    @property
    def summary(self) -> FrameworkStatus:
        """The record as of now, without its tasks."""
        return self._known.status

    def mark_saved(self) -> None:
        """The status as it is now is stored."""
        self._known.changed = self.attempt_state.changed = False

    def status(self) -> FrameworkStatus:
        """The whole record as of now."""
        return replace(
            self._known.status, roles=tuple(each.to_status() for each in self.attempt_state.crews.values())
        )

    def update(self, framework: Framework) -> None:
        """The Framework's spec or metadata as it is now; its status is ours to know."""
        if (framework.generation, framework.deleting) != (
            self._framework.generation,
            self._framework.deleting,
        ):
            self.attempt_state.enqueue_all()
        self._framework = framework

    def plan(self, now: float, *, chance: float = 0.0, fresh: bool = False) -> PlanResult:
        """Think everything through that was touched."""
        self.attempt_state.actions.clear()
        self._actions.clear()
        self._wakes.clear()
        if self._record is None:
            self._record = StatusBuilder.begin(int(now))
        self._known.now = int(now)
        if self._framework.fault:
            return self._refused()
        self._known.mark_spec_valid(self._framework.generation)
        self._is_end_saved = self._known.state is State.ATTEMPT_COMPLETED
        self.attempt_state.enqueue_due(int(now))
        self._settle_doubts(fresh)
        self._apply_new_generation()
        self._interrupt()
        self._run_to_fixpoint(chance, fresh)
        if self.attempt_state.uncertain_pods:
            self._request_live_pods()
        return self._looked()

    def _refused(self) -> PlanResult:
        """Everything stays as it is until the spec is corrected; then all is looked at again."""
        self._known.mark_spec_invalid(self._framework.generation, self._framework.fault)
        self.attempt_state.clear_queue()
        return replace(self._looked(), requeue_at=None)

    def _run_to_fixpoint(self, chance: float, fresh: bool) -> None:
        """One thing leads to another; a plan that never rests is a bug, and must not hang everybody else."""
        for _ in range(_ROUNDS + _ROUNDS * len(self._framework.spec.roles)):
            if self._is_held():
                self.attempt_state.clear_queue()
                return
            finished = self.attempt_state.advance_queued(self._around)
            done = self._judge(finished) or self._compact() or self._review_gang(fresh)
            if not (done or self._advance_framework(chance, fresh)):
                self._explain()
                return
        raise ValueError("the plan does not come to rest")

    @property
    def _known(self) -> StatusBuilder:
        if self._record is None:
            raise ValueError("nothing is known of this Framework before its first look")
        return self._record

    @property
    def _now(self) -> Time:
        return self._known.now

    @property
    def _is_ending(self) -> bool:
        """The current attempt has its end, whether or not all of its pods are gone."""
        return self._known.attempt.completion is not None

    def _looked(self) -> PlanResult:
        # What tasks did comes first: it is why the Framework did what it did.
        steps, notices = (
            self.attempt_state.steps + self._known.steps,
            self.attempt_state.notices + self._known.notices,
        )
        if self._framework.deleting:
            # Whoever deletes a Framework deletes its pods.
            notices = [notice for notice in notices if notice.reason != _POD_DELETED]
        for told in (
            self._known.steps,
            self.attempt_state.steps,
            self._known.notices,
            self.attempt_state.notices,
        ):
            told.clear()
        wakes = [
            *self._wakes,
            *([] if self.attempt_state.next_wake is None else [self.attempt_state.next_wake]),
        ]
        actions = (*self.attempt_state.actions.values(), *self._actions)
        return PlanResult(actions, min(wakes, default=None), tuple(steps), tuple(notices))

    def _load(self, status: FrameworkStatus) -> None:
        self._record = StatusBuilder(replace(status, roles=()))
        self.attempt_state.begin_attempt(status.attempt.id, known_crews(status.roles, self._framework.spec))
        self.attempt_state.changed = False
        self._jury.recount(self.attempt_state.crews.values())

    def _settle_doubts(self, fresh: bool) -> None:
        self.attempt_state.pods_are_live = fresh
        if fresh:
            for name in self.attempt_state.uncertain_pods:
                self.attempt_state.enqueue(name)

    def _request_live_pods(self) -> None:
        if ListPodsLive() not in self._actions:
            self._actions.append(ListPodsLive())

    def _apply_new_generation(self) -> None:
        """A spec that was not seen before: rescale first, then judge by the new rules."""
        known = self._known
        if known.status.observed_generation == self._framework.generation or known.state is State.COMPLETED:
            return
        is_new = not known.status.observed_generation and not self.attempt_state.crews
        known.put(observed_generation=self._framework.generation)
        if is_new:
            self._create_tasks(0)
            return
        if self._is_ending:
            adopt(self.attempt_state.crews, self._framework.spec)
            return
        incarnation = known.attempt.rescales + 1
        if rescale(self.attempt_state.crews, self._framework.spec, self._now, incarnation):
            known.put_attempt(rescales=incarnation)
        self.attempt_state.enqueue_all()
        self._jury.recount(self.attempt_state.crews.values())
        self._accept(self._jury.reevaluate(self.attempt_state.crews.values()))

    def _interrupt(self) -> None:
        if self._is_ending:
            return
        self._is_past_deadline()  # or it is looked at again when it will be
        end = interrupting_completion(self._framework, self._known.status, self._now)
        if end is not None:
            self._complete(end, None, end.diagnostics)

    def _is_held(self) -> bool:
        """Whether the Framework waits for its user. It counts as started from the moment it does not."""
        known = self._known
        if known.state is not State.CREATION_PENDING or self._is_ending:
            return False
        # What was begun before the user wrote Create goes on; only what has no pod yet can be held.
        held = self._framework.spec.execution is ExecutionType.CREATE and not self.attempt_state.pods
        if held:
            known.set_message("held: executionType is Create")
        known.condition(
            "Suspended", held, "Held" if held else "Started", known.status.message if held else ""
        )
        if not held:
            known.condition("Started", True, "AttemptStarted")
            self._is_past_deadline()
        return held

    def _is_past_deadline(self) -> bool:
        """Whether the Framework's time is over; if not, it is looked at again when it will be."""
        due = deadline(self._framework.spec, self._known.status)
        if due is None:
            return False
        self._wakes.append(due)
        return self._now >= due

    def _around(self, each: RoleState) -> RoleContext:
        here = self._gate(each)
        return RoleContext(
            now=self._now,
            rules=self._rules,
            role_name=each.name,
            role=each.role,
            graceful_deletion_seconds=each.graceful_deletion_seconds,
            waiting_reason=here.hold,
            unreachable_reason=here.unreachable,
            ending=self._is_ending,
            deletes_running_pods=self._stops_running or self._sweeping,
            deletes_ended_pods=self._framework.spec.clean_pods is CleanPodPolicy.ALL or self._sweeping,
        )

    @property
    def _stops_running(self) -> bool:
        """Whether pods that run are stopped when the attempt is over."""
        end = self._known.attempt.completion
        return (
            self._framework.spec.clean_pods is not CleanPodPolicy.NONE
            or (end is not None and end.code in ALWAYS_STOPS)
            # What belongs to a gang that never was is of use to nobody.
            or gang.is_unplaced(self._known.status)
        )

    def _gate(self, each: RoleState) -> StartGate:
        if self._framework.deleting:
            return StartGate(hold=DELETED)
        if each.role is None or self._is_ending:
            return OPEN
        return gate(each.role, self._framework.spec, self.attempt_state.crews)

    def _judge(self, finished: list[CompletedTask]) -> bool:
        """Count each task that ended, in order; the first to meet a rule ends the attempt."""
        for each in finished:
            if not self._is_ending:
                self._accept(self._jury.record_completion(each))
        return bool(finished)

    def _accept(self, verdict: AttemptResult | None) -> None:
        if verdict is not None:
            self._complete(verdict.end, verdict.trigger, verdict.trigger.message)

    def _review_gang(self, fresh: bool) -> bool:
        """See how the gang stands; True when that ends the attempt. A cache that is behind ends nothing."""
        if self._is_ending or self._known.state is State.COMPLETED:
            return False
        wait = gang.evaluate_gang(
            self._framework.spec.gang, self.attempt_state.crews.values(), self._known, self.gang_backend
        )
        if wait.until is not None:
            self._wakes.append(wait.until)
        if wait.end is None:
            return False
        if not fresh:
            self._request_live_pods()
            return False
        self._complete(wait.end, wait.trigger, wait.because)
        return True

    def _compact(self) -> bool:
        """Let go of removed tasks that are through; True when the crews are not what they were."""
        if self._is_ending:
            return False
        incarnation = self._known.attempt.rescales + 1
        compacted = self.attempt_state.compact(self._now, incarnation)
        if compacted.renewed:
            self._known.put_attempt(rescales=incarnation)
        return compacted.changed

    def _complete(self, end: Completion, trigger: Trigger | None, because: str) -> None:
        """The attempt is over. Its end is written once; tasks without one of their own are told so."""
        known = self._known
        known.put_attempt(completion=end, trigger=trigger)
        deleted = end.code == Code.FRAMEWORK_EXTERNAL_DELETED
        if not deleted:
            stopped = completion_for(Code.FRAMEWORK_ATTEMPT_COMPLETION, f"the attempt is over: {because}")
            self.attempt_state.complete_remaining(stopped, "stopped because the attempt is over")
        self.attempt_state.enqueue_all()
        if known.state is not State.CREATION_PENDING:
            known.transition_to(State.DELETING if deleted else State.DELETION_PENDING, because)
        elif self.attempt_state.pods:
            known.transition_to(State.DELETING, because)
        else:
            known.set_message(because)

    def _advance_framework(self, chance: float, fresh: bool) -> bool:
        """Take the Framework's own next step, if one is due; True when there may be more to think through."""
        known, crews = self._known, self.attempt_state.crews.values()
        if known.state is State.COMPLETED:
            self._expire()
            return False
        if known.state is State.ATTEMPT_COMPLETED:
            return self._after_attempt(chance, fresh)
        if self._is_ending:
            return self._settle_end(fresh)
        if known.state is State.CREATION_PENDING and self._is_underway():
            tasks = any(each.tasks for each in crews)
            known.transition_to(State.PREPARING, "" if tasks else "there are no tasks to run")
            return True
        if known.state is State.PREPARING and any(each.running for each in crews):
            known.transition_to(State.RUNNING, _RUNNING)
            return True
        return False

    def _explain(self) -> None:
        """Have the message of a Framework under way name what it waits for."""
        known, crews = self._known, self.attempt_state.crews.values()
        if self._is_ending or gang.is_unplaced(known.status):
            return
        if not any(each.tasks for each in crews):
            if known.state is State.RUNNING:
                known.set_message(_NO_TASKS)
            return
        match known.state:
            case State.CREATION_PENDING:
                known.set_message(first_wait(crews))
            case State.PREPARING:
                known.set_message(first_wait(crews) or start_wait(crews))
            case State.RUNNING:
                wait = first_wait(crews)
                known.set_message(f"{_RUNNING}; {wait}" if wait else _RUNNING)
            case _:
                pass

    def _is_underway(self) -> bool:
        crews = self.attempt_state.crews.values()
        return not any(each.tasks for each in crews) or any(
            len(each.tasks) != each.by_state[State.CREATION_PENDING] for each in crews
        )

    def _settle_end(self, fresh: bool) -> bool:
        """Wait until everything that has to go is gone."""
        known, board = self._known, self.attempt_state
        if board.uncertain_pods:
            return False
        if self._framework.deleting and not board.pods and not board.all_completed:
            board.complete_remaining(completion_for(Code.FRAMEWORK_ATTEMPT_COMPLETION, DELETED), DELETED)
            return True
        if board.all_completed and not self._has_to_go():
            if not fresh and board.has_unobserved_pods:
                self._request_live_pods()
                return False
            known.transition_to(State.ATTEMPT_COMPLETED, known.status.message)
            return True
        if known.state in (State.CREATION_PENDING, State.DELETION_PENDING) and board.deleting:
            known.transition_to(State.DELETING, known.status.message)
        return False

    def _has_to_go(self) -> bool:
        """Whether there are pods that cannot stay beyond the end: also such as came into sight only after it."""
        if self._framework.spec.clean_pods is CleanPodPolicy.ALL:
            return bool(self.attempt_state.pods)
        return self._stops_running and any(not pod.ended for pod in self.attempt_state.pods.values())

    def _after_attempt(self, chance: float, fresh: bool) -> bool:
        """Decide between another attempt and the end."""
        known, spec = self._known, self._framework.spec
        end = known.attempt.completion
        if end is None:
            raise ValueError("an attempt that is over has a completion")
        if self._framework.deleting:
            return False
        after = retry_decision(spec, known.status, end, self._rules, self._now, chance)
        if isinstance(after, retry.GiveUp):
            return self._finish(after.because)
        if spec.execution is ExecutionType.STOP:
            because = f"stopped before its retry after {end.summary}"
            return self._complete_instead_of_retry(Code.STOP_FRAMEWORK_REQUESTED, because)
        if self._is_past_deadline():
            because = f"{deadline_words(spec)}, before its retry after {end.summary}"
            return self._complete_instead_of_retry(Code.ACTIVE_DEADLINE_EXCEEDED, because)
        if after.delay and known.retry.delay is None:
            known.put(retry=retry.scheduled(known.retry, after))
            known.set_message(f"{end.summary}; tried again in {after.delay} s: {after.because}")
        due = retry.due(known.status.transition_time, after.delay, self._now)
        if after.delay and self._now < due:
            self._wakes.append(due)
            return False
        return self._delete_old_pods_then_retry(end, after, fresh)

    def _delete_old_pods_then_retry(self, end: Completion, after: retry.Retry, fresh: bool) -> bool:
        """See that no pod of this attempt is left, then begin the next one."""
        if self.attempt_state.pods:
            if self._sweeping:
                return False
            self._sweeping = True
            self.attempt_state.enqueue_all()
            return True
        if not (fresh and self._is_end_saved):
            self._request_live_pods()
            return False
        self._sweeping = False
        known = self._known
        known.put(retry=retry.executed(known.retry, after), observed_generation=self._framework.generation)
        known.put(attempt=FrameworkAttempt(known.retry.total, self._now))
        gang.begin(known)
        because = f"try {known.retry.total + 1} after {end.summary}: {after.because}"
        known.transition_to(State.CREATION_PENDING, because)
        self._create_tasks(known.retry.total)
        return True

    def _create_tasks(self, attempt: int) -> None:
        """Fresh tasks for an attempt that begins."""
        self.attempt_state.begin_attempt(attempt, new_crews(self._framework.spec, self._known.now))
        self._jury.recount(self.attempt_state.crews.values())

    def _complete_instead_of_retry(self, code: Code, because: str) -> bool:
        """The user or the deadline was faster than the retry: no attempt is made only to be stopped."""
        self._known.put_attempt(completion=completion_for(code, because), trigger=None)
        self.attempt_state.enqueue_all()  # such an end stops pods that the one before it left running
        return self._finish(because)

    def _finish(self, because: str) -> bool:
        known = self._known
        if self._sweeping:  # pods that were to make room for another attempt are kept after all
            self._sweeping = False
            self.attempt_state.enqueue_all()
        known.put(retry=replace(known.retry, delay=None))
        known.transition_to(State.COMPLETED, completion_message(known.attempt, because))
        return True

    def _expire(self) -> None:
        """A finished Framework goes when its time after the end is over."""
        if self._framework.deleting:
            return
        status, limit = self._known.status, ttl_seconds(self._framework.spec, self._rules)
        due = (status.completion_time or status.transition_time) + limit
        if self._now < due:
            self._wakes.append(due)
        else:
            self._actions.append(DeleteFramework(f"it finished {limit} s ago"))
