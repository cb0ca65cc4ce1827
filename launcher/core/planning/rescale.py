"""Rescale: tasks and roles that the spec adds or no longer wants. Scale-down always takes the highest indices."""

from collections.abc import Iterable
from dataclasses import replace

from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning.role_state import RoleState, crew
from launcher.core.spec import FrameworkSpec, RoleName, TaskRole
from launcher.core.status import RoleStatus, TaskStatus, new_task
from launcher.core.timestamps import Time

_REMOVED = completion_for(Code.DELETE_TASK_REQUESTED, "the task was removed by a scale-down")

Crews = dict[RoleName, RoleState]


def new_crews(spec: FrameworkSpec, now: Time) -> Crews:
    """The tasks of a fresh attempt."""
    return {role.name: _new_crew(role, now, 0) for role in spec.roles}


def known_crews(roles: Iterable[RoleStatus], spec: FrameworkSpec) -> Crews:
    """The tasks of an attempt that is under way, as they are stored."""
    wanted = {role.name: role for role in spec.roles}
    return {
        known.name: crew(wanted.get(known.name), known.name, known.tasks, known.graceful_deletion_seconds)
        for known in roles
    }


def rescale(crews: Crews, spec: FrameworkSpec, now: Time, incarnation: int) -> bool:
    """
    Mark what is too much, add what is missing, and give every crew its role as the spec has it now.

    Returns whether tasks were added, with *incarnation* to tell them from earlier ones of their index.
    """
    added = False
    for role in spec.roles:
        known = crews.get(role.name)
        if known is None:
            crews[role.name] = _new_crew(role, now, incarnation)
            added = True
            continue
        added |= role.tasks > len(known.tasks)
        for index in range(len(known.tasks), role.tasks):
            known.add(new_task(index, now, incarnation))
    adopt(crews, spec)
    for known in crews.values():
        for task in known.tasks[known.desired_tasks :]:
            if not task.deletion_pending:
                known.replace_task(_removed(task))
        known.recount()
    return added


def adopt(crews: Crews, spec: FrameworkSpec) -> None:
    """Give every crew its role as the spec has it now. What a role that is gone said last of deletion still holds."""
    roles = {role.name: role for role in spec.roles}
    for known in crews.values():
        known.role = roles.get(known.name)
        if known.role is not None:
            known.graceful_deletion_seconds = known.role.graceful_deletion_seconds


def compact(known: RoleState, now: Time, incarnation: int) -> tuple[int, ...] | None:
    """
    Drop removed tasks that are through, from the end; make new ones where the spec wants their index again.

    Returns the indices made anew; None when nothing changed.
    """
    before = len(known.tasks)
    while len(known.tasks) > known.desired_tasks and _is_through(known.tasks[-1]):
        known.drop_last()
    renewed = tuple(task.index for task in known.tasks[: known.desired_tasks] if _is_through(task))
    for index in renewed:
        known.replace_task(new_task(index, now, incarnation))
    return renewed if renewed or len(known.tasks) != before else None


def _new_crew(role: TaskRole, now: Time, incarnation: int) -> RoleState:
    tasks = (new_task(index, now, incarnation) for index in range(role.tasks))
    return crew(role, role.name, tasks, role.graceful_deletion_seconds)


def _removed(task: TaskStatus) -> TaskStatus:
    attempt = task.attempt
    if attempt.completion is None:
        attempt = replace(attempt, completion=_REMOVED)
    return replace(task, attempt=attempt, deletion_pending=True, message="removed by a scale-down")


def _is_through(task: TaskStatus) -> bool:
    return task.deletion_pending and task.state == "Completed"
