"""What cannot be asked of a gang: more tasks than there are, or an order in which it could never come together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.replicas import as_int
from launcher.core.role_order import completed
from launcher.core.validation.field_errors import invalid
from launcher.core.validation.pod_template import as_list, as_object

_WAY_OUT = (
    "no pod of a gang gets a node before there are enough of them, so they would wait for each other for ever; "
    "leave it out, or use roleSequence"
)


@dataclass(frozen=True, slots=True)
class _Role:
    field: str
    tasks: int
    background: bool
    #: The index in ``startAfter`` and the role of each thing that it waits for.
    awaited: tuple[tuple[int, str], ...]


def gang_problems(
    spec: Mapping[str, Any], tasks: Sequence[int], sequence: Sequence[str]
) -> Iterator[FieldError]:
    """
    Of ``spec.gang``; *tasks* tells how many each role has, *sequence* which are created first.

    The spec may lack anything and have any shape.
    """
    gang = spec.get("gang")
    if not isinstance(gang, dict):
        return
    roles = dict(_roles(spec, tasks))
    total = sum(role.tasks for role in roles.values() if not role.background)
    least = as_int(gang.get("minTasks"))
    if least > max(total, 0):
        yield invalid("spec.gang.minTasks", gang["minTasks"], _too_many(total, roles))
        return
    free = _free([name for name in sequence if name in roles], roles)
    together = sum(roles[name].tasks for name in free if not roles[name].background)
    if together >= (least or total):
        return
    for name, role in roles.items():
        if name in free or role.background:
            continue
        for index, awaited in role.awaited:
            if awaited in roles and awaited != name:  # else that is what is wrong with it
                yield invalid(f"{role.field}.startAfter[{index}].role", awaited, _way_out(together))


def _too_many(total: int, roles: Mapping[str, _Role]) -> str:
    besides = ", not counting background roles" if any(role.background for role in roles.values()) else ""
    return f"there are only {total} tasks{besides}"


def _way_out(together: int) -> str:
    return f"{_WAY_OUT}, or ask for at most {together} by gang.minTasks" if together else _WAY_OUT


def _roles(spec: Mapping[str, Any], tasks: Sequence[int]) -> Iterator[tuple[str, _Role]]:
    for index, (json, number) in enumerate(zip(as_list(spec.get("taskRoles")), tasks, strict=True)):
        name = as_object(json).get("name")
        if isinstance(name, str) and name:
            role = _Role(
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


def _free(named: Sequence[str], roles: Mapping[str, _Role]) -> frozenset[str]:
    """
    The roles whose pods are created before any task of the gang has been placed.

    Of what they wait for, only background roles can get anywhere by then, and those without tasks are there already.
    """
    order = completed(named, {name: [awaited for _, awaited in role.awaited] for name, role in roles.items()})
    free: set[str] = set()
    while True:
        more = {
            name
            for name, role in roles.items()
            if name not in free
            and all(_is_reached(roles.get(awaited), awaited in free) for _, awaited in role.awaited)
            and all(earlier in free or not roles[earlier].tasks for earlier in _before(name, order))
        }
        if not more:
            return frozenset(free)
        free |= more


def _is_reached(role: _Role | None, is_free: bool) -> bool:
    return role is not None and (not role.tasks or (role.background and is_free))


def _before(name: str, order: Sequence[str]) -> Sequence[str]:
    return order[: order.index(name)] if name in order else ()
