"""The tasks of one role while their Framework is being worked on, with counts that are kept, not recounted."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from launcher.core.planning.completion_policy import CompletionCounts, counts_toward_completion
from launcher.core.planning.start_order import OPEN, StartGate
from launcher.core.spec import RoleName, TaskRole
from launcher.core.status import RoleStatus, State, TaskStatus, was_scheduled

#: States whose message is the reason of a wait: for its pod, its containers or its retry.
_EXPLAINED = frozenset(
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
    """A role's tasks, by index. A Standing in the sense of ``core.order``."""

    name: RoleName
    #: None: the role is gone from the spec.
    role: TaskRole | None
    tasks: list[TaskStatus] = field(default_factory=list)
    graceful_deletion_seconds: int | None = None
    by_state: Counter[State] = field(default_factory=Counter)
    #: Tasks that count towards completion, judged one by one.
    count: CompletionCounts = field(default_factory=CompletionCounts)
    waiting: int = 0
    running: int = 0
    ready: int = 0
    succeeded: int = 0
    unfinished: int = 0
    #: Tasks that have been given a node in their current try, and those that ended without.
    placed: int = 0
    ended_unscheduled: int = 0
    #: Tasks whose message says what they wait for.
    explained: int = 0
    #: Tasks that a scale-down has removed and that are still in the record.
    removed_tasks: int = 0
    #: Tasks whose pods are still to be created, and what they were told of the role's gate.
    pending: set[int] = field(default_factory=set)
    last_gate: StartGate = OPEN

    @property
    def desired_tasks(self) -> int:
        """How many tasks the spec asks for."""
        return self.role.tasks if self.role is not None else 0

    def add(self, task: TaskStatus) -> None:
        """One more task, at the end."""
        self.tasks.append(task)
        self._tally(task, 1)

    def drop_last(self) -> None:
        """The last task leaves the record."""
        task = self.tasks.pop()
        self.pending.discard(task.index)
        self._tally(task, -1)

    def replace_task(self, task: TaskStatus) -> None:
        """The task in its new state, in place of the old."""
        self._tally(self.tasks[task.index], -1)
        self.tasks[task.index] = task
        self._tally(task, 1)

    def recount(self) -> None:
        """Judge every task anew by the rules of now: after a change of the spec, or after loading."""
        self.count = CompletionCounts()
        if self.role is not None:
            for task in filter(counts_toward_completion, self.tasks):
                self.count.add(task, self.role.completion)

    def to_status(self) -> RoleStatus:
        """The role's record as it is now."""
        return RoleStatus(self.name, tuple(self.tasks), self.graceful_deletion_seconds)

    def _tally(self, task: TaskStatus, by: int) -> None:
        state = task.state
        self.by_state[state] += by
        if task.deletion_pending:
            self.removed_tasks += by
            return
        self.explained += by * is_explained(task)
        if task.attempt.node is not None or was_scheduled(task):  # the former is quicker, and mostly enough
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


def is_explained(task: TaskStatus) -> bool:
    """Whether the task's message says what it waits for."""
    return bool(task.message) and task.state in _EXPLAINED and not task.deletion_pending


def first_wait(crews: Iterable[RoleState]) -> str:
    """What the first task waits for that says so; one that has a pod comes before one that has none."""
    later = ""
    for each in crews:
        for task in each.tasks if each.explained else ():
            if not is_explained(task):
                continue
            words = f"{each.name}[{task.index}]: {task.message}"
            if task.state is not State.CREATION_PENDING:
                return words
            later = later or words
            break
    return later


def start_wait(crews: Collection[RoleState]) -> str:
    """How far tasks have come of which none runs and none says what it waits for."""
    wanted = sum(len(each.tasks) - each.removed_tasks for each in crews)
    unscheduled = wanted - sum(each.placed + each.ended_unscheduled for each in crews)
    if unscheduled:
        return f"waiting for {unscheduled} of {wanted} tasks to be scheduled"
    return "waiting for containers to start"


def crew(
    role: TaskRole | None, name: RoleName, tasks: Iterable[TaskStatus], graceful: int | None
) -> RoleState:
    """A crew of these tasks."""
    made = RoleState(name, role, graceful_deletion_seconds=graceful)
    for task in tasks:
        made.add(task)
    made.recount()
    return made
