"""The order in which roles are created, and cycles of roles that wait for each other."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

#: The role sequence in Arena's notation, ``Worker,PS`` or ``w,p``; used when the spec has no ``roleSequence``.
SEQUENCE_ANNOTATION: Final = "job-role-sequence"
_SHORT: Final = {"w": "worker", "p": "ps", "c": "chief", "e": "evaluator"}

#: Roles of a cycle that are listed in a message.
_MAX_LISTED = 12


def cycles(waits: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Each cycle of roles, such as ``("a", "b")`` when a waits for b and b for a."""
    visited: set[str] = set()
    for start in waits:
        path = {start: iter(waits[start])} if start not in visited else {}
        while path:
            role, remaining = next(reversed(path.items()))
            awaited = next(remaining, None)
            if awaited is None:
                visited.add(role)
                del path[role]
            elif awaited in path:
                names = tuple(path)
                yield names[names.index(awaited) :]
            elif awaited in waits and awaited not in visited:
                path[awaited] = iter(waits[awaited])


def annotated_sequence(annotations: Any, roles: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The roles that the annotation lists, each once, and the words in it that are not in *roles*."""
    text = annotations.get(SEQUENCE_ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(text, str) or not text.strip():
        return (), ()
    entries = [entry.strip() for entry in text.split(",")]
    names = {
        entry: entry.lower() if entry.lower() in roles else _SHORT.get(entry.lower(), "") for entry in entries
    }
    named = dict.fromkeys(name for name in names.values() if name in roles)
    return tuple(named), tuple(entry for entry, name in names.items() if name not in roles)


def complete_sequence(sequence: Sequence[str], waits: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """
    The order of creation: the roles in *sequence*, then the others in the order of *waits*.

    Among the others, a role follows the roles it waits for, or it would prevent their creation. The result is empty
    when *sequence* is: then only ``startAfter`` delays a role.
    """
    if not sequence:
        return ()
    order = dict.fromkeys(sequence)
    waiting = [name for name in waits if name not in order]
    while waiting:
        remaining = set(waiting)
        following = next((name for name in waiting if remaining.isdisjoint(waits[name])), waiting[0])
        order[following] = None
        waiting.remove(following)
    return tuple(order)


def format_cycle(cycle: Sequence[str]) -> str:
    """``a -> b -> a``."""
    if len(cycle) > _MAX_LISTED:
        return " -> ".join([*cycle[:_MAX_LISTED], f"… {len(cycle) - _MAX_LISTED} more …", cycle[0]])
    return " -> ".join([*cycle, cycle[0]])
