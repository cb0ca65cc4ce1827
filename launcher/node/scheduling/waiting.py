"""Pods that wait for a node, in lines: those in one line ask for the same, so one answer serves them all."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from launcher.node.scheduling.demand import Demand
from launcher.node.scheduling.site import Guest

#: Whose turn is first: higher priority, longer wait, earlier arrival.
Rank = tuple[int, float, int]


@dataclass(slots=True, eq=False)
class Waiting:
    """One pod in its line."""

    guest: Guest
    priority: int
    #: Seconds since 1970.
    since: float
    #: No two pods have the same.
    serial: int
    #: Why there was no node for this pod in particular; else the line's answer is its own.
    why: str | None = None

    @property
    def rank(self) -> Rank:
        return -self.priority, self.since, self.serial


@dataclass(frozen=True, slots=True)
class LineKey:
    """What pods of one line have in common."""

    demand: Demand
    priority: int
    #: For each of the demand's terms of nearness, whether the pod itself is one of those it wants to be near.
    self_near: tuple[bool, ...]


def line_key(guest: Guest, priority: int) -> LineKey:
    near = guest.demand.near
    return LineKey(
        guest.demand,
        priority,
        tuple(term.selection.holds(guest.key[0], guest.labels) for term in near) if near else (),
    )


@dataclass(slots=True, eq=False)
class Line:
    """Pods that ask for the same."""

    key: LineKey
    #: Why the first had no node. None while it is worth trying.
    closed: str | None = None
    #: Why nodes would not have these pods even if they were empty, by name; None is a node that would.
    refusals: dict[str, str | None] = field(default_factory=dict)
    _members: dict[Waiting, None] = field(default_factory=dict)
    _heap: list[tuple[float, int, Waiting]] = field(default_factory=list)
    _aside: list[Waiting] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Waiting]:
        """Everybody, in no order."""
        return iter(self._members)

    def add(self, waiting: Waiting) -> None:
        self._members[waiting] = None
        heappush(self._heap, (waiting.since, waiting.serial, waiting))

    def remove(self, waiting: Waiting) -> None:
        del self._members[waiting]

    def first(self) -> Waiting | None:
        """The next to be tried; None when nobody is left but those set aside."""
        while self._heap:
            waiting = self._heap[0][2]
            if waiting in self._members and waiting.why is None:
                return waiting
            heappop(self._heap)
        return None

    def longest(self) -> Waiting:
        """Who has waited longest, set aside or not. The line is not empty."""
        first = self.first()
        waiting = [one for one in self._aside if one in self._members]
        if first is not None:
            waiting.append(first)
        return min(waiting, key=lambda one: one.rank)

    def set_aside(self, waiting: Waiting, why: str) -> None:
        """Try the others first: what hindered this one need not hinder them."""
        waiting.why = why
        self._aside.append(waiting)

    def reopen(self) -> None:
        """Something has changed: everybody is worth trying again."""
        self.closed = None
        for waiting in self._aside:
            waiting.why = None
            if waiting in self._members:
                heappush(self._heap, (waiting.since, waiting.serial, waiting))
        self._aside.clear()

    def answer(self, waiting: Waiting) -> str | None:
        """Why the pod has no node; None while that is not known."""
        return waiting.why or self.closed
