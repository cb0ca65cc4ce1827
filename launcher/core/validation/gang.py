"""Validates ``spec.gang``: not more tasks than there are, and no start order that would deadlock."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.json_access import as_list, as_object
from launcher.core.replicas import as_int
from launcher.core.role_order import complete_sequence
from launcher.core.validation.field_errors import invalid

_DEADLOCK = (
    "deadlock: pods of a gang are scheduled only when enough of them exist; "
    "remove startAfter or use roleSequence"
)


@dataclass(frozen=True, slots=True)
class _GangRole:
    field: str
    tasks: int
    background: bool
    #: The index in ``startAfter`` and the role of each start condition.
    awaited: tuple[tuple[int, str], ...]


def gang_errors(
    spec: Mapping[str, Any], tasks: Sequence[int], sequence: Sequence[str]
) -> Iterator[FieldError]:
    """
    Errors of ``spec.gang``; *tasks* are the numbers of tasks per role, *sequence* the roles that are created first.

    The spec may be incomplete and have values of a wrong type.
    """
    gang = spec.get("gang")
    if not isinstance(gang, dict):
        return
    roles = dict(_roles(spec, tasks))
    total = sum(role.tasks for role in roles.values() if not role.background)
    minimum = as_int(gang.get("minTasks"))
    if minimum > max(total, 0):
        yield invalid("spec.gang.minTasks", gang["minTasks"], _too_many(total, roles))
        return
    unblocked = _unblocked_roles([name for name in sequence if name in roles], roles)
    startable = sum(roles[name].tasks for name in unblocked if not roles[name].background)
    if startable >= (minimum or total):
        return
    for name, role in roles.items():
        if name in unblocked or role.background:
            continue
        for index, awaited in role.awaited:
            if awaited in roles and awaited != name:  # else another error is reported
                yield invalid(f"{role.field}.startAfter[{index}].role", awaited, _deadlock(startable))


def _too_many(total: int, roles: Mapping[str, _GangRole]) -> str:
    excluded = ", not counting background roles" if any(role.background for role in roles.values()) else ""
    return f"must be at most {total}, the number of tasks{excluded}"


def _deadlock(startable: int) -> str:
    return f"{_DEADLOCK}, or set gang.minTasks to at most {startable}" if startable else _DEADLOCK


def _roles(spec: Mapping[str, Any], tasks: Sequence[int]) -> Iterator[tuple[str, _GangRole]]:
    for index, (json, number) in enumerate(zip(as_list(spec.get("taskRoles")), tasks, strict=True)):
        name = as_object(json).get("name")
        if isinstance(name, str) and name:
            role = _GangRole(
                field=f"spec.taskRoles[{index}]",
                tasks=max(number, 0),
                background=as_object(json).get("background") is True,
                awaited=tuple(_awaited(as_object(json))),
            )
            yield name, role


def _awaited(role: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    for index, after in enumerate(as_list(role.get("startAfter"))):
        name = as_object(after).get("role")
        if isinstance(name, str):
            yield index, name


def _unblocked_roles(sequence: Sequence[str], roles: Mapping[str, _GangRole]) -> frozenset[str]:
    """
    The roles whose pods are created before any task of the gang is scheduled.

    These can wait only for background roles, which are not part of the gang, and for roles without tasks.
    """
    order = complete_sequence(
        sequence, {name: [awaited for _, awaited in role.awaited] for name, role in roles.items()}
    )
    unblocked: set[str] = set()
    while True:
        added = {
            name
            for name, role in roles.items()
            if name not in unblocked
            and all(_is_reached(roles.get(awaited), awaited in unblocked) for _, awaited in role.awaited)
            and all(
                earlier in unblocked or not roles[earlier].tasks for earlier in _roles_before(name, order)
            )
        }
        if not added:
            return frozenset(unblocked)
        unblocked |= added


def _is_reached(role: _GangRole | None, is_unblocked: bool) -> bool:
    return role is not None and (not role.tasks or (role.background and is_unblocked))


def _roles_before(name: str, order: Sequence[str]) -> Sequence[str]:
    return order[: order.index(name)] if name in order else ()
