"""
The tasks and pods of one Framework attempt, with a queue of tasks to plan.

A task is queued when its pod changed, a timer is due, its start gate changed, or an action for it failed. So the cost
of one pod's change is the cost of one task, however many tasks there are.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from launcher.core import names
from launcher.core.completion_codes import Completion
from launcher.core.events import ObjectEvent
from launcher.core.planning import messages
from launcher.core.planning.actions import Action, DeletePod, StateTransition
from launcher.core.planning.progress import (
    ObservedOutput,
    PodOutput,
    observed_output,
    progress_deadline,
)
from launcher.core.planning.rescale import RoleStates, compact
from launcher.core.planning.role_state import RoleState
from launcher.core.planning.start_order import StartGate
from launcher.core.planning.task_transitions import RoleContext, TaskUpdate, advance, deletion_action
from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import FrameworkName, PodName, RoleName
from launcher.core.status import State, TaskStatus
from launcher.core.timestamps import Time

#: States in which a task's pod was observed.
_WITH_POD = frozenset(
    {State.PREPARING, State.RUNNING, State.DELETION_PENDING, State.DELETION_REQUESTED, State.DELETING}
)


@dataclass(frozen=True, slots=True)
class CompletedTask:
    """A task that has just completed."""

    role: RoleState
    task: TaskStatus


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Whether removed tasks were dropped, and whether tasks were created in their place."""

    changed: bool = False
    renewed: bool = False


@dataclass(frozen=True, slots=True)
class QueuedTasks:
    """Queued tasks of one role, ordered by index, with the names of their pods."""

    role: RoleState
    tasks: list[tuple[int, PodName]]


class AttemptState:
    """Tasks by role, their pods, and the queue of what is planned next."""

    def __init__(self, framework: FrameworkName, uid: str) -> None:
        self.roles: RoleStates = {}
        self.pods: dict[PodName, ObservedPod] = {}
        #: The number of pods being deleted.
        self.deleting = 0
        #: At most one action per pod; the latest replaces earlier ones.
        self.actions: dict[PodName, Action] = {}
        self.transitions: list[StateTransition] = []
        self.events: list[ObjectEvent] = []
        #: Whether a task changed since this was last set to False.
        self.changed = False
        self._framework = framework
        self._uid = uid
        self._attempt = 0
        self._pods_are_live = False
        #: Tasks whose pods are not observed but may exist: a cache can be older than the status.
        self.uncertain_pods: set[PodName] = set()
        #: The uids of all observed pods of this attempt; only these are known to be deleted.
        self._observed_uids: set[str | None] = set()
        self._queue: set[PodName] = set()
        self._rejected: dict[PodName, Completion] = {}
        self._rechecks: list[tuple[Time, PodName]] = []
        self._recheck_times: dict[PodName, Time] = {}
        #: The last output of pods, as far as it was read.
        self._outputs: dict[PodName, ObservedOutput] = {}

    def start_attempt(self, attempt: int, roles: RoleStates) -> None:
        """Replaces all tasks."""
        self._attempt, self.roles, self.changed = attempt, roles, True
        self._rejected.clear()
        self._outputs.clear()
        self.uncertain_pods.clear()
        self._observed_uids = {pod.uid for pod in self.pods.values()}
        self.enqueue_all()

    def observe_pod(self, pod: ObservedPod) -> None:
        """Records the current pod. A version older than the known one is ignored."""
        previous = self.pods.get(pod.name)
        if previous is not None and previous.version > pod.version:
            return
        self.deleting += pod.deleting - (previous.deleting if previous is not None else 0)
        self.pods[pod.name] = pod
        self._observed_uids.add(pod.uid)
        self._queue.add(pod.name)

    def pod_deleted(self, name: PodName) -> None:
        previous = self.pods.pop(name, None)
        if previous is not None:
            self.deleting -= previous.deleting
        self._outputs.pop(name, None)
        self._queue.add(name)

    def observe_output(self, name: PodName, output: PodOutput, now: Time) -> None:
        """Records the output of a pod, read at *now*."""
        self._outputs[name] = observed_output(self._outputs.get(name), output, now)
        self._queue.add(name)

    def has_stalled(self, name: PodName) -> bool:
        """Whether the running task of that pod has stalled."""
        pod, (role, index) = self.pods.get(name), self._task_of(name)
        if pod is None or role is None:
            return False
        deadline = progress_deadline(role.tasks[index], pod, role.role, self._outputs.get(name))
        return deadline is not None and deadline.has_stalled

    def set_pods_are_live(self, pods_are_live: bool) -> None:
        """Whether the pods were just listed from the store; if so, uncertain pods are planned again."""
        self._pods_are_live = pods_are_live
        if pods_are_live:
            self._queue.update(self.uncertain_pods)

    def enqueue(self, name: PodName) -> None:
        self._queue.add(name)

    def enqueue_all(self) -> None:
        self._queue.update(self.pods)
        for role in self.roles.values():
            self.enqueue_tasks(role, range(len(role.tasks)))

    def clear_queue(self) -> None:
        self._queue.clear()

    def enqueue_tasks(self, role: RoleState, indices: Iterable[int]) -> None:
        self._queue.update(names.pod_name(self._framework, role.name, index) for index in indices)

    def reject_creation(self, name: PodName, completion: Completion) -> None:
        """Records that the pod can never be created."""
        self._rejected[name] = completion
        self._queue.add(name)

    def set_creation_message(self, name: PodName, message: str) -> None:
        """Sets the message of a task whose pod could not be created yet."""
        role, index = self._task_of(name)
        if role is None or role.tasks[index].state is not State.CREATION_PENDING:
            return
        if role.tasks[index].message != message:
            role.replace_task(replace(role.tasks[index], message=message))
            self.changed = True

    @property
    def has_queued(self) -> bool:
        return bool(self._queue)

    @property
    def next_recheck(self) -> Time | None:
        return self._rechecks[0][0] if self._rechecks else None

    @property
    def all_completed(self) -> bool:
        return all(role.by_state[State.COMPLETED] == len(role.tasks) for role in self.roles.values())

    @property
    def has_unobserved_pods(self) -> bool:
        """Whether a task's pod was never observed in its last attempt: it may exist nevertheless."""
        return any(task.attempt.pod_uid is None for role in self.roles.values() for task in role.tasks)

    def enqueue_due(self, now: Time) -> None:
        """Queues every task whose timer is due."""
        while self._rechecks and self._rechecks[0][0] <= now:
            due, name = heappop(self._rechecks)
            if self._recheck_times.get(name) == due:
                del self._recheck_times[name]
                self._queue.add(name)

    def complete_remaining(self, completion: Completion, message: str) -> None:
        """Gives *completion* to every task attempt without one."""
        for role in self.roles.values():
            for task in role.tasks:
                if task.attempt.completion is None:
                    attempt = replace(task.attempt, completion=completion)
                    text = self._with_last_output(message, role, task) if self._outputs else message
                    role.replace_task(replace(task, attempt=attempt, message=text))
        self.changed = True
        self.enqueue_all()

    def _with_last_output(self, message: str, role: RoleState, task: TaskStatus) -> str:
        observed = self._outputs.get(names.pod_name(self._framework, role.name, task.index))
        if observed is None or observed.output.uid != task.attempt.pod_uid:
            return message
        return messages.stopped_with_output(message, observed.output.lines)

    def compact(self, now: Time, incarnation: int) -> CompactionResult:
        """Drops removed tasks that completed; tasks created in their place have this incarnation."""
        changed = any_renewed = False
        for role in [role for role in self.roles.values() if role.removed_tasks or role.role is None]:
            before = len(role.tasks)
            renewed = compact(role, now, incarnation)
            # A pod that was kept for its logs is deleted with its task.
            self.enqueue_tasks(role, range(len(role.tasks), before))
            if renewed:
                any_renewed = True
                self.enqueue_tasks(role, renewed)
            changed |= renewed is not None
            if role.role is None and not role.tasks:
                del self.roles[role.name]
                changed = True
        self.changed |= changed
        return CompactionResult(changed, any_renewed)

    def take_queued(self) -> list[QueuedTasks]:
        """Empties the queue and returns its tasks by role, in status order. Pods without a task are deleted."""
        by_role: dict[RoleName, QueuedTasks] = {}
        without_task: list[PodName] = []
        for name in self._queue:
            role, index = self._task_of(name)
            if role is None:
                without_task.append(name)
            else:
                by_role.setdefault(role.name, QueuedTasks(role, [])).tasks.append((index, name))
        self._queue.clear()
        for name in sorted(without_task):
            self._delete_pod_without_task(name)
        for queued in by_role.values():
            queued.tasks.sort()
        return [by_role[name] for name in self.roles if name in by_role]

    def advance_role(self, queued: QueuedTasks, context: RoleContext) -> list[CompletedTask]:
        """Advances these tasks until none can change further. Returns those that completed."""
        completed: list[CompletedTask] = []
        for index, name in queued.tasks:
            before = queued.role.tasks[index]
            after = self._advance_task(queued.role, before, name, context)
            if after.state is State.COMPLETED and before.state is not State.COMPLETED:
                completed.append(CompletedTask(queued.role, after))
        return completed

    def in_status_order(self, completed: list[CompletedTask]) -> list[CompletedTask]:
        """Sorts tasks of several passes: a closed gate may have completed a task only in a later one."""
        if len(completed) < 2:
            return completed
        position = {name: number for number, name in enumerate(self.roles)}
        return sorted(completed, key=lambda task: (position[task.role.name], task.task.index))

    def update_gate(self, role: RoleState, gate: StartGate) -> None:
        """Queues the tasks whose pods are not created yet, if the gate of their role changed."""
        if gate != role.last_gate:
            role.last_gate = gate
            self.enqueue_tasks(role, role.pending)

    def _task_of(self, name: PodName) -> tuple[RoleState | None, int]:
        """The task of that pod name. Role names have no hyphen, so the name is split from the right."""
        _, role_name, number = ("", "", *name.split("-"))[-3:]
        role = self.roles.get(RoleName(role_name))
        if role is None or not number.isdecimal() or int(number) >= len(role.tasks):
            return None, 0
        index = int(number)
        # A number written in another way, such as 00, is not the name of a task's pod.
        return (role, index) if name == names.pod_name(self._framework, role.name, index) else (None, 0)

    def _delete_pod_without_task(self, name: PodName) -> None:
        pod = self.pods.get(name)
        self.actions.pop(name, None)
        if pod is not None and not pod.deleting:
            self.actions[name] = DeletePod(pod.name, pod.uid)

    def _advance_task(
        self, role: RoleState, task: TaskStatus, name: PodName, context: RoleContext
    ) -> TaskStatus:
        pod, rejection = self.pods.get(name), self._rejected.pop(name, None)
        is_current = pod is not None and self._is_current(pod, role, task)
        if not is_current and self._may_exist(task):
            self.uncertain_pods.add(name)
            return task
        self.uncertain_pods.discard(name)
        if pod is None or is_current:
            update = advance(task, pod, context, rejection, self._outputs.get(name))
        else:
            waiting = replace(context, waiting_reason=messages.WAITING_FOR_PREVIOUS_POD)
            update = advance(task, None, waiting, rejection)
            action, due = deletion_action(pod, context.graceful_deletion_seconds, context.now)
            update = replace(update, action=action, recheck_at=due)
        if update.action is not None:
            self.actions[name] = update.action
        else:
            self.actions.pop(name, None)
        self._record(role, task, name, update)
        self._record_pending(role, update.task, context)
        return update.task

    def _record(self, role: RoleState, before: TaskStatus, name: PodName, update: TaskUpdate) -> None:
        after = update.task
        if update.recheck_at is not None and self._recheck_times.get(name) != update.recheck_at:
            self._recheck_times[name] = update.recheck_at
            heappush(self._rechecks, (update.recheck_at, name))
        if after is before:
            return
        self.changed |= after != before  # readiness alone is not stored
        if after.retry.total > before.retry.total:
            self._observed_uids.discard(before.attempt.pod_uid)  # the pod of a previous attempt
        self.transitions.extend(update.transitions)
        role.replace_task(after)
        self._add_failure_event(role, before, after)

    def _add_failure_event(self, role: RoleState, before: TaskStatus, after: TaskStatus) -> None:
        """Adds an event for a task that failed. Completions by the launcher are reported once, for the Framework."""
        if before.attempt.completion is not None:
            return
        task, completion = f"Task {messages.task_name(role.name, after.index)}", after.attempt.completion
        if after.retry.total > before.retry.total:
            self.events.append(ObjectEvent("TaskRetried", f"{task}: {after.message}", warning=True))
        elif completion is not None and completion.failed:
            message = f"{task}: {after.message or completion.diagnostics}"
            self.events.append(ObjectEvent(completion.phrase, message, warning=True))

    def _record_pending(self, role: RoleState, task: TaskStatus, context: RoleContext) -> None:
        if task.state is not State.CREATION_PENDING:
            role.pending.discard(task.index)
            return
        self.update_gate(role, StartGate(context.waiting_reason, context.unreachable_reason))
        role.pending.add(task.index)

    def _may_exist(self, task: TaskStatus) -> bool:
        """Whether the task's pod may exist although it is not observed: no pod of its uid ever was."""
        return (
            not self._pods_are_live
            and task.state in _WITH_POD
            and task.attempt.pod_uid not in self._observed_uids
        )

    def _is_current(self, pod: ObservedPod, role: RoleState, task: TaskStatus) -> bool:
        """Whether the pod belongs to the current attempt of the task. Once a uid is recorded, no other pod does."""
        identity = pod.task
        return (
            identity is not None
            and identity.task_attempt == task.retry.total
            and identity.framework_attempt == self._attempt
            and task.attempt.pod_uid in (None, pod.uid)
            and identity.task_uid
            == names.task_uid(self._uid, self._attempt, role.name, task.index, task.incarnation)
        )
