"""The tasks of one role during planning, with counts that are updated incrementally."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from launcher.core.json_access import as_object
from launcher.core.planning import messages
from launcher.core.planning.completion_policy import CompletionCounts, counts_toward_completion
from launcher.core.planning.start_order import OPEN, StartGate
from launcher.core.pods.waiting_reason import waiting_clause
from launcher.core.spec import RoleName, TaskRole
from launcher.core.status import RoleStatus, State, TaskStatus, was_scheduled

#: States whose message is what the task is waiting for: its pod, its containers or its retry.
_WAITING_STATES = frozenset(
    {
        State.CREATION_PENDING,
        State.PREPARING,
        State.RUNNING,
        State.DELETION_PENDING,
        State.ATTEMPT_COMPLETED,
    }
)


@dataclass(slots=True)
class RoleState:
    """A role's tasks, by index. Implements ``start_order.RoleProgress``."""

    name: RoleName
    #: None: the role was removed from the spec.
    role: TaskRole | None
    tasks: list[TaskStatus] = field(default_factory=list)
    graceful_deletion_seconds: int | None = None
    by_state: Counter[State] = field(default_factory=Counter)
    #: Completed tasks, for the completion policy.
    count: CompletionCounts = field(default_factory=CompletionCounts)
    waiting: int = 0
    running: int = 0
    ready: int = 0
    succeeded: int = 0
    unfinished: int = 0
    #: Tasks whose current attempt was scheduled, and tasks that completed unscheduled.
    placed: int = 0
    ended_unscheduled: int = 0
    #: Tasks with a message that says what they are waiting for.
    explained: int = 0
    #: Tasks that a scale-down removed and that are still in the status.
    removed_tasks: int = 0
    #: Indices of tasks whose pods are not created yet, and the gate when they were last planned.
    pending: set[int] = field(default_factory=set)
    last_gate: StartGate = OPEN

    @property
    def desired_tasks(self) -> int:
        """The number of tasks in the spec."""
        return self.role.tasks if self.role is not None else 0

    def add(self, task: TaskStatus) -> None:
        """Appends a task."""
        self.tasks.append(task)
        self._count(task, 1)

    def drop_last(self) -> None:
        """Removes the last task from the status."""
        task = self.tasks.pop()
        self.pending.discard(task.index)
        self._count(task, -1)

    def replace_task(self, task: TaskStatus) -> None:
        """Replaces the task of the same index."""
        self._count(self.tasks[task.index], -1)
        self.tasks[task.index] = task
        self._count(task, 1)

    def recount(self) -> None:
        """Counts completed tasks by the current completion policy: after loading, or a change of the spec."""
        self.count = CompletionCounts()
        if self.role is not None:
            for task in filter(counts_toward_completion, self.tasks):
                self.count.add(task, self.role.completion)

    def to_status(self) -> RoleStatus:
        """Returns the role's status."""
        return RoleStatus(self.name, tuple(self.tasks), self.graceful_deletion_seconds)

    def _count(self, task: TaskStatus, by: int) -> None:
        state = task.state
        self.by_state[state] += by
        if task.deletion_pending:
            self.removed_tasks += by
            return
        self.explained += by * _is_explained(task)
        if task.attempt.node is not None or was_scheduled(task):  # the former is faster and usually enough
            self.placed += by
        else:
            self.ended_unscheduled += by * (state is State.COMPLETED)
        if state is State.COMPLETED:
            self.succeeded += by * task.succeeded
        else:
            self.unfinished += by
        if state is State.CREATION_PENDING:
            self.waiting += by
        elif state is State.RUNNING:
            self.running += by
            self.ready += by * task.attempt.ready


def _is_explained(task: TaskStatus) -> bool:
    """Whether the task's message says what it is waiting for."""
    return bool(task.message) and task.state in _WAITING_STATES and not task.deletion_pending


def first_waiting_reason(roles: Iterable[RoleState]) -> str:
    """The message of the first task that is waiting; a task with a pod comes before one without."""
    without_pod = ""
    for role in roles:
        for task in role.tasks if role.explained else ():
            if not _is_explained(task):
                continue
            reason = _waiting_message(role.name, role.role, task)
            if task.state is not State.CREATION_PENDING:
                return reason
            without_pod = without_pod or reason
            break
    return without_pod


def _waiting_message(name: RoleName, role: TaskRole | None, task: TaskStatus) -> str:
    """``worker-0: no node has 8 cpu free.``: what the task waits for, in the words of its finding."""
    spec = as_object(role.pod.get("spec")) if role is not None else {}
    clause = waiting_clause(task.message, spec)
    return f"{messages.task_name(name, task.index)}: {clause.removesuffix('.')}."


def scheduling_progress(roles: Collection[RoleState]) -> str:
    """The message of a Framework of which no task runs and no task has a message."""
    total = sum(len(role.tasks) - role.removed_tasks for role in roles)
    unscheduled = total - sum(role.placed + role.ended_unscheduled for role in roles)
    if unscheduled:
        return messages.waiting_for_scheduling(unscheduled, total)
    return messages.WAITING_FOR_CONTAINERS


def role_state(
    role: TaskRole | None, name: RoleName, tasks: Iterable[TaskStatus], graceful_deletion_seconds: int | None
) -> RoleState:
    """Returns the state of a role with these tasks."""
    state = RoleState(name, role, graceful_deletion_seconds=graceful_deletion_seconds)
    for task in tasks:
        state.add(task)
    state.recount()
    return state
