"""Which roles can never start: those that wait for each other in a ring."""

from collections.abc import Iterator, Mapping, Sequence

#: More roles of a ring are not spelt out.
_MOST_SPELT = 12


def rings(waits: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, ...]]:
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


def spelt(ring: Sequence[str]) -> str:
    """``a -> b -> a``."""
    if len(ring) > _MOST_SPELT:
        return " -> ".join([*ring[:_MOST_SPELT], f"… {len(ring) - _MOST_SPELT} more …", ring[0]])
    return " -> ".join([*ring, ring[0]])
