"""The order in which roles are created, and which can never start: those that wait for each other in a ring."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

#: On a Framework that names no ``roleSequence``: the same as Arena's users write it, ``Worker,PS`` or ``w,p``.
SEQUENCE_ANNOTATION: Final = "job-role-sequence"
_SHORT: Final = {"w": "worker", "p": "ps", "c": "chief", "e": "evaluator"}

#: More roles of a ring are not spelt out.
_MOST_SPELT = 12


def cycles(waits: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Each ring of roles, such as ``("a", "b")`` when a waits for b and b for a; nothing when all can start."""
    done: set[str] = set()
    for start in waits:
        trail = {start: iter(waits[start])} if start not in done else {}
        while trail:
            role, ahead = next(reversed(trail.items()))
            awaited = next(ahead, None)
            if awaited is None:
                done.add(role)
                del trail[role]
            elif awaited in trail:
                names = tuple(trail)
                yield names[names.index(awaited) :]
            elif awaited in waits and awaited not in done:
                trail[awaited] = iter(waits[awaited])


def annotated(annotations: Any, roles: Collection[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The roles that the annotation puts first, each once; and the words in it that are none of *roles*."""
    text = annotations.get(SEQUENCE_ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(text, str) or not text.strip():
        return (), ()
    words = [word.strip() for word in text.split(",")]
    names = {word: word.lower() if word.lower() in roles else _SHORT.get(word.lower(), "") for word in words}
    named = dict.fromkeys(name for name in names.values() if name in roles)
    return tuple(named), tuple(word for word, name in names.items() if name not in roles)


def completed(named: Sequence[str], waits: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """
    The order of creation: the roles *named* for it, then the others as they come in *waits*.

    Among those others a role stands behind the ones it waits for, or it would keep them from being created. No order
    is made up when none was asked for: then nothing but ``startAfter`` holds a role back.
    """
    if not named:
        return ()
    order = dict.fromkeys(named)
    waiting = [name for name in waits if name not in order]
    while waiting:
        left = set(waiting)
        free = next((name for name in waiting if left.isdisjoint(waits[name])), waiting[0])
        order[free] = None
        waiting.remove(free)
    return tuple(order)


def format_cycle(ring: Sequence[str]) -> str:
    """``a -> b -> a``."""
    if len(ring) > _MOST_SPELT:
        return " -> ".join([*ring[:_MOST_SPELT], f"… {len(ring) - _MOST_SPELT} more …", ring[0]])
    return " -> ".join([*ring, ring[0]])
