"""
The tasks and pods of one Framework's attempt, kept so that one pod's news costs one task's work.

A task is looked at again when somebody touches it: its pod changed, its time has come, its gate opened, or an action
for it went wrong. Everything else stays as it is, however many tasks there are.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from launcher.core import names
from launcher.core.completion_codes import Completion
from launcher.core.planning.actions import Action, DeletePod, ObjectEvent, StateTransition
from launcher.core.planning.rescale import Crews, compact
from launcher.core.planning.role_state import RoleState
from launcher.core.planning.start_order import StartGate
from launcher.core.planning.task_transitions import RoleContext, TaskUpdate, advance, deletion_action
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import FrameworkName, PodName, RoleName
from launcher.core.status import State, TaskStatus
from launcher.core.timestamps import Time

#: States in which a task's pod was once in sight.
_WITH_POD = frozenset(
    {State.PREPARING, State.RUNNING, State.DELETION_PENDING, State.DELETION_REQUESTED, State.DELETING}
)

_LEFTOVER = "waits for the pod of an earlier try to go"


@dataclass(frozen=True, slots=True)
class CompletedTask:
    """A task that has just ended for good."""

    crew: RoleState
    task: TaskStatus


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What became of removed tasks: whether crews are not what they were, and whether tasks were made anew."""

    changed: bool = False
    renewed: bool = False


class AttemptState:
    """Crews of tasks and their pods, with what is to be looked at next."""

    def __init__(self, framework: FrameworkName, uid: str) -> None:
        self.crews: Crews = {}
        self.pods: dict[PodName, ObservedPod] = {}
        #: How many pods are on their way out.
        self.deleting = 0
        #: At most one action per pod; the latest thought stands.
        self.actions: dict[PodName, Action] = {}
        self.steps: list[StateTransition] = []
        self.notices: list[ObjectEvent] = []
        #: Whether any task is not as it was when this was last set to False.
        self.changed = False
        self._framework = framework
        self._uid = uid
        self._attempt = 0
        #: The pods were just read from the store itself.
        self.pods_are_live = False
        #: Tasks whose pods are not in sight, though they may be there: a cache can be behind the status.
        self.uncertain_pods: set[PodName] = set()
        #: The uid of every pod of this attempt that was in sight; only these can be known to be gone.
        self._met: set[str | None] = set()
        self._dirty: set[PodName] = set()
        self._refused: dict[PodName, Completion] = {}
        self._wakes: list[tuple[Time, PodName]] = []
        self._wake_of: dict[PodName, Time] = {}

    def begin_attempt(self, attempt: int, crews: Crews) -> None:
        """These tasks, and no others, are worked on from now on."""
        self._attempt, self.crews, self.changed = attempt, crews, True
        self._refused.clear()
        self.uncertain_pods.clear()
        self._met = {pod.uid for pod in self.pods.values()}
        self.enqueue_all()

    def observe_pod(self, pod: ObservedPod) -> None:
        """The pod as it is now. An older view than the one known is passed over."""
        known = self.pods.get(pod.name)
        if known is not None and known.version > pod.version:
            return
        self.deleting += pod.deleting - (known.deleting if known is not None else 0)
        self.pods[pod.name] = pod
        self._met.add(pod.uid)
        self._dirty.add(pod.name)

    def pod_deleted(self, name: PodName) -> None:
        """The pod is gone."""
        known = self.pods.pop(name, None)
        if known is not None:
            self.deleting -= known.deleting
        self._dirty.add(name)

    def enqueue(self, name: PodName) -> None:
        """Look again at the task or pod of that name."""
        self._dirty.add(name)

    def enqueue_all(self) -> None:
        """Look again at everything."""
        self._dirty.update(self.pods)
        for crew in self.crews.values():
            self.enqueue_tasks(crew, range(len(crew.tasks)))

    def clear_queue(self) -> None:
        """Look at nothing before it is touched again."""
        self._dirty.clear()

    def enqueue_tasks(self, crew: RoleState, indices: Iterable[int]) -> None:
        """Look again at these tasks."""
        self._dirty.update(names.pod_name(self._framework, crew.name, index) for index in indices)

    def reject_creation(self, name: PodName, completion: Completion) -> None:
        """The creation of that pod was turned down for good."""
        self._refused[name] = completion
        self._dirty.add(name)

    def set_creation_message(self, name: PodName, message: str) -> None:
        """Why the pod of that name could not be created yet."""
        crew, index = self._place(name)
        if crew is None or crew.tasks[index].state is not State.CREATION_PENDING:
            return
        if crew.tasks[index].message != message:
            crew.replace_task(replace(crew.tasks[index], message=message))
            self.changed = True

    @property
    def has_queued(self) -> bool:
        """Whether there is something to look at."""
        return bool(self._dirty)

    @property
    def next_wake(self) -> Time | None:
        return self._wakes[0][0] if self._wakes else None

    @property
    def all_completed(self) -> bool:
        return all(crew.by_state[State.COMPLETED] == len(crew.tasks) for crew in self.crews.values())

    @property
    def has_unobserved_pods(self) -> bool:
        """Whether a task's pod was never seen in its last try: it may have been accepted all the same."""
        return any(task.attempt.pod_uid is None for crew in self.crews.values() for task in crew.tasks)

    def enqueue_due(self, now: Time) -> None:
        """Touch every task whose time has come."""
        while self._wakes and self._wakes[0][0] <= now:
            due, name = heappop(self._wakes)
            if self._wake_of.get(name) == due:
                del self._wake_of[name]
                self._dirty.add(name)

    def complete_remaining(self, completion: Completion, message: str) -> None:
        """Every task without an end gets this one; a task's own end is never changed."""
        for crew in self.crews.values():
            for task in crew.tasks:
                if task.attempt.completion is None:
                    crew.replace_task(
                        replace(task, attempt=replace(task.attempt, completion=completion), message=message)
                    )
        self.changed = True
        self.enqueue_all()

    def compact(self, now: Time, incarnation: int) -> CompactionResult:
        """Let go of removed tasks that are through; those made anew have this incarnation."""
        changed = any_renewed = False
        for crew in [crew for crew in self.crews.values() if crew.removed_tasks or crew.role is None]:
            before = len(crew.tasks)
            renewed = compact(crew, now, incarnation)
            # A pod that was kept for its logs goes with its task.
            self.enqueue_tasks(crew, range(len(crew.tasks), before))
            if renewed:
                any_renewed = True
                self.enqueue_tasks(crew, renewed)
            changed |= renewed is not None
            if crew.role is None and not crew.tasks:
                del self.crews[crew.name]
                changed = True
        self.changed |= changed
        return CompactionResult(changed, any_renewed)

    def advance_queued(self, around: Callable[[RoleState], RoleContext]) -> list[CompletedTask]:
        """Advance everything that was touched until it rests; who ended for good meanwhile, in status order."""
        finished: list[CompletedTask] = []
        self._watch_gates(around)
        while self._dirty:
            placed, strays = self._sorted()
            self._dirty.clear()
            for name in strays:
                self._work_stray(name)
            situations: dict[str, RoleContext] = {}
            for crew, index, name in placed:
                situation = situations.get(crew.name) or situations.setdefault(crew.name, around(crew))
                self._work_task(crew, crew.tasks[index], name, situation, finished)
            self._watch_gates(around)
        if len(finished) > 1:  # a gate that one's end closed may have ended another only afterwards
            position = self._positions()
            finished.sort(key=lambda each: (position[each.crew.name], each.task.index))
        return finished

    def _sorted(self) -> tuple[list[tuple[RoleState, int, PodName]], list[PodName]]:
        """What was touched: tasks by role and index, and names that no task has."""
        position = self._positions()
        placed: list[tuple[RoleState, int, PodName]] = []
        strays: list[PodName] = []
        for name in self._dirty:
            crew, index = self._place(name)
            if crew is None:
                strays.append(name)
            else:
                placed.append((crew, index, name))
        placed.sort(key=lambda place: (position[place[0].name], place[1]))
        return placed, sorted(strays)

    def _positions(self) -> dict[RoleName, int]:
        """The order of roles in the status."""
        return {name: number for number, name in enumerate(self.crews)}

    def _place(self, name: PodName) -> tuple[RoleState | None, int]:
        """The task that pods of that name serve. A role's name has no hyphen, so the name reads from the right."""
        _, role, number = ("", "", *name.split("-"))[-3:]
        crew = self.crews.get(RoleName(role))
        if crew is None or not number.isdecimal() or int(number) >= len(crew.tasks):
            return None, 0
        index = int(number)
        # One name per task: whoever else writes the number in another way does not speak of it.
        return (crew, index) if name == names.pod_name(self._framework, crew.name, index) else (None, 0)

    def _work_stray(self, name: PodName) -> None:
        """A pod of ours that no task stands behind: it goes."""
        pod = self.pods.get(name)
        self.actions.pop(name, None)
        if pod is not None and not pod.deleting:
            self.actions[name] = DeletePod(pod.name, pod.uid)

    def _work_task(
        self,
        crew: RoleState,
        task: TaskStatus,
        name: PodName,
        situation: RoleContext,
        finished: list[CompletedTask],
    ) -> None:
        pod, refused = self.pods.get(name), self._refused.pop(name, None)
        serves = pod is not None and self._serves(pod, crew, task)
        if not serves and self._may_be_there(task):
            self.uncertain_pods.add(name)
            return
        self.uncertain_pods.discard(name)
        if pod is None or serves:
            move = advance(task, pod, situation, refused)
        else:
            move = advance(task, None, replace(situation, waiting_reason=_LEFTOVER), refused)
            action, due = deletion_action(pod, situation.graceful_deletion_seconds, situation.now)
            move = replace(move, action=action, recheck_at=due)
        if move.action is not None:
            self.actions[name] = move.action
        else:
            self.actions.pop(name, None)
        self._keep(crew, task, name, move, finished)
        self._remember_gate(crew, move.task, situation)

    def _keep(
        self,
        crew: RoleState,
        task: TaskStatus,
        name: PodName,
        move: TaskUpdate,
        finished: list[CompletedTask],
    ) -> None:
        now = move.task
        if move.recheck_at is not None and self._wake_of.get(name) != move.recheck_at:
            self._wake_of[name] = move.recheck_at
            heappush(self._wakes, (move.recheck_at, name))
        if now is task:
            return
        self.changed |= now != task  # readiness alone is not stored
        if now.retry.total > task.retry.total:
            self._met.discard(task.attempt.pod_uid)  # nobody will ask for that pod again
        self.steps.extend(move.steps)
        crew.replace_task(now)
        self._tell(crew, task, now)
        if now.state is State.COMPLETED and task.state is not State.COMPLETED:
            finished.append(CompletedTask(crew, now))

    def _tell(self, crew: RoleState, before: TaskStatus, now: TaskStatus) -> None:
        """An event for a task that failed by itself; ends that the launcher ordered are told once, of the whole."""
        if before.attempt.completion is not None:
            return
        task, completion = f"task {crew.name}[{now.index}]", now.attempt.completion
        if now.retry.total > before.retry.total:
            self.notices.append(ObjectEvent("TaskRetried", f"{task}: {now.message}", warning=True))
        elif completion is not None and completion.failed:
            message = f"{task}: {now.message or completion.diagnostics}"
            self.notices.append(ObjectEvent(completion.phrase, message, warning=True))

    def _remember_gate(self, crew: RoleState, task: TaskStatus, situation: RoleContext) -> None:
        if task.state is not State.CREATION_PENDING:
            crew.pending.discard(task.index)
            return
        self._tell_pending(crew, situation)
        crew.pending.add(task.index)

    def _tell_pending(self, crew: RoleState, situation: RoleContext) -> None:
        """Touch those whose pods are still to be created, once something else is true of their gate."""
        here = StartGate(situation.waiting_reason, situation.unreachable_reason)
        if here != crew.last_gate:
            crew.last_gate = here
            self.enqueue_tasks(crew, crew.pending)

    def _watch_gates(self, around: Callable[[RoleState], RoleContext]) -> None:
        for crew in self.crews.values():
            if crew.pending:
                self._tell_pending(crew, around(crew))

    def _may_be_there(self, task: TaskStatus) -> bool:
        """Whether the task's pod may be there though it is not in sight: it never was, or not under this uid."""
        return not self.pods_are_live and task.state in _WITH_POD and task.attempt.pod_uid not in self._met

    def _serves(self, pod: ObservedPod, crew: RoleState, task: TaskStatus) -> bool:
        """Whether the pod serves the current attempt of the task. A uid once recorded stays the only one."""
        of = pod.task
        return (
            of is not None
            and of.task_attempt == task.retry.total
            and of.framework_attempt == self._attempt
            and task.attempt.pod_uid in (None, pod.uid)
            and of.task_uid
            == names.task_uid(self._uid, self._attempt, crew.name, task.index, task.incarnation)
        )
