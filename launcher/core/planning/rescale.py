"""Rescaling: tasks and roles that a changed spec adds or removes. A scale-down removes the highest indices."""

from collections.abc import Iterable
from dataclasses import replace

from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning import messages
from launcher.core.planning.role_state import RoleState, role_state
from launcher.core.spec import FrameworkSpec, RoleName, TaskRole
from launcher.core.status import RoleStatus, State, TaskStatus, new_task
from launcher.core.timestamps import Time

_REMOVED = completion_for(Code.DELETE_TASK_REQUESTED, messages.REMOVED)

RoleStates = dict[RoleName, RoleState]


def new_roles(spec: FrameworkSpec, now: Time) -> RoleStates:
    """Returns the tasks of a new attempt."""
    return {role.name: _new_role(role, now, 0) for role in spec.roles}


def roles_from_status(roles: Iterable[RoleStatus], spec: FrameworkSpec) -> RoleStates:
    """Returns the tasks of a stored attempt."""
    specs = {role.name: role for role in spec.roles}
    return {
        status.name: role_state(
            specs.get(status.name), status.name, status.tasks, status.graceful_deletion_seconds
        )
        for status in roles
    }


def rescale(roles: RoleStates, spec: FrameworkSpec, now: Time, incarnation: int) -> bool:
    """
    Marks surplus tasks as removed, adds missing ones, and updates the spec of every role.

    Returns whether tasks were added; they have *incarnation*, which distinguishes them from earlier ones.
    """
    added = False
    for role in spec.roles:
        state = roles.get(role.name)
        if state is None:
            roles[role.name] = _new_role(role, now, incarnation)
            added = True
            continue
        added |= role.tasks > len(state.tasks)
        for index in range(len(state.tasks), role.tasks):
            state.add(new_task(index, now, incarnation))
    update_specs(roles, spec)
    for state in roles.values():
        for task in state.tasks[state.desired_tasks :]:
            if not task.deletion_pending:
                state.replace_task(_removed(task))
        state.recount()
    return added


def update_specs(roles: RoleStates, spec: FrameworkSpec) -> None:
    """Sets the spec of every role. A role that was removed keeps its last podGracefulDeletionTimeoutSec."""
    specs = {role.name: role for role in spec.roles}
    for state in roles.values():
        state.role = specs.get(state.name)
        if state.role is not None:
            state.graceful_deletion_seconds = state.role.graceful_deletion_seconds


def compact(role: RoleState, now: Time, incarnation: int) -> tuple[int, ...] | None:
    """
    Drops removed tasks that completed, from the end; creates new ones for indices that the spec contains again.

    Returns the indices of new tasks; None when nothing changed.
    """
    before = len(role.tasks)
    while len(role.tasks) > role.desired_tasks and _is_finished(role.tasks[-1]):
        role.drop_last()
    renewed = tuple(task.index for task in role.tasks[: role.desired_tasks] if _is_finished(task))
    for index in renewed:
        role.replace_task(new_task(index, now, incarnation))
    return renewed if renewed or len(role.tasks) != before else None


def _new_role(role: TaskRole, now: Time, incarnation: int) -> RoleState:
    tasks = (new_task(index, now, incarnation) for index in range(role.tasks))
    return role_state(role, role.name, tasks, role.graceful_deletion_seconds)


def _removed(task: TaskStatus) -> TaskStatus:
    attempt = task.attempt
    if attempt.completion is None:
        attempt = replace(attempt, completion=_REMOVED)
    return replace(task, attempt=attempt, deletion_pending=True, message=messages.REMOVED)


def _is_finished(task: TaskStatus) -> bool:
    return task.deletion_pending and task.state is State.COMPLETED
