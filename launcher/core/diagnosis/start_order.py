"""Which roles and tasks a task waits for: startAfter, roleSequence and the addresses of peers."""

from collections.abc import Sequence
from typing import Final

from launcher.core import causes
from launcher.core.completion_codes import ContainerTermination
from launcher.core.diagnosis.finding import Evidence, Problem, counted
from launcher.core.diagnosis.inputs import Context, TaskView, shortened
from launcher.core.planning.messages import task_name
from launcher.core.spec import RoleName, StartCondition
from launcher.core.status import RoleStatus, State, TaskStatus

#: Tasks that are listed by name.
_MAX_LISTED: Final = 5


def explain_start_after(view: TaskView) -> Problem:
    """A task that waits for a condition of another role."""
    for after in view.role.start_after if view.role is not None else ():
        other = _role(view.context, after.role)
        waiting = [task for task in other.tasks if not _reached(task, after.condition)] if other else []
        if waiting:
            listed = _listed(after.role, waiting)
            return Problem(
                causes.START_AFTER,
                f"waits until role {after.role} is {after.condition}: {listed}",
                view.context.command("why", after.role),
                (
                    Evidence(
                        view.context.reference, f"spec.taskRoles[{view.role_name}].startAfter", after.role
                    ),
                ),
            )
    return Problem(
        causes.START_AFTER,
        view.task.message.removesuffix("."),
        view.context.command("get"),
        (
            Evidence(
                view.context.reference, f"spec.taskRoles[{view.role_name}].startAfter", view.task.message
            ),
        ),
    )


def explain_sequence(view: TaskView) -> Problem:
    """A task whose role is created later in roleSequence."""
    for name in view.context.framework.spec.role_sequence:
        other = _role(view.context, name)
        if other is None or name == view.role_name:
            continue
        waiting = [task for task in other.tasks if task.state is State.CREATION_PENDING]
        if waiting:
            return Problem(
                causes.ROLE_SEQUENCE,
                f"waits until the pods of role {name} are created: {_listed(name, waiting)}",
                view.context.command("why", name),
                (Evidence(view.context.reference, "spec.roleSequence", name),),
            )
    return Problem(
        causes.ROLE_SEQUENCE,
        view.task.message.removesuffix("."),
        view.context.command("get"),
        (Evidence(view.context.reference, "spec.roleSequence", view.task.message),),
    )


def explain_peers(view: TaskView, container: str) -> Problem:
    """A task whose init container waits for the addresses of its peers."""
    later = _later_roles(view)
    missing = [
        (role.name, task)
        for role in _roles(view.context)
        if role.name not in later
        for task in role.tasks
        if not task.attempt.ip and not task.deletion_pending
    ]
    names = [task_name(role, task.index) for role, task in missing]
    listed = _first(names)
    first = f"{missing[0][0]}/{missing[0][1].index}" if missing else ""
    return Problem(
        causes.PEERS_MISSING,
        f"init container {container} waits for the addresses of {counted(len(names), 'task')}: {listed}"
        if names
        else f"init container {container} collects the addresses of all tasks",
        view.context.command("why", first) if first else f"{view.logs_command} -c {container}",
        (view.evidence(f"status.initContainerStatuses[{container}].state", "running"),),
    )


def explain_peers_timeout(
    view: TaskView, termination: ContainerTermination, evidence: tuple[Evidence, ...]
) -> Problem:
    """A task whose init container gave up waiting for its peers."""
    lines = termination.message.strip().splitlines()
    detail = f": {shortened(lines[-1])}" if lines else ""
    return Problem(
        causes.PEERS_TIMEOUT,
        f"not all tasks had an address within spec.discovery.timeoutSeconds{detail}",
        f"{view.logs_command} -c {termination.name}",
        evidence,
    )


def _roles(context: Context) -> Sequence[RoleStatus]:
    return context.framework.status.roles if context.framework.status is not None else ()


def _role(context: Context, name: RoleName) -> RoleStatus | None:
    return next((role for role in _roles(context) if role.name == name), None)


def _later_roles(view: TaskView) -> set[RoleName]:
    """The roles that start only after this task's role; it does not wait for them."""
    later: set[RoleName] = set()
    reached = [view.role_name]
    while reached:
        awaited = reached.pop()
        for role in view.context.framework.spec.roles:
            if role.name not in later and any(after.role == awaited for after in role.start_after):
                later.add(role.name)
                reached.append(role.name)
    return later


def _reached(task: TaskStatus, condition: StartCondition) -> bool:
    if task.succeeded:
        return True
    return condition is not StartCondition.SUCCEEDED and task.state is State.RUNNING


def _listed(role: RoleName, tasks: Sequence[TaskStatus]) -> str:
    """``ps-0 (AttemptPreparing), ps-1 (AttemptPreparing) and 3 more``."""
    return _first([f"{task_name(role, task.index)} ({task.state})" for task in tasks])


def _first(names: Sequence[str]) -> str:
    more = len(names) - _MAX_LISTED
    return ", ".join(names[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
