"""Pods that wait for a node, in lines: those in one line ask for the same, so one answer serves them all."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from launcher.scheduling.cluster_state import PodInfo
from launcher.scheduling.pod_requirements import PodRequirements

#: Whose turn is first: who completes a gang, higher priority, longer wait, earlier arrival.
Rank = tuple[bool, int, float, int]
#: What a pod asks for, and for each of its terms of nearness whether it is itself one of those it wants to be near.
Ask = tuple[PodRequirements, tuple[bool, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class QueuedPod:
    """One pod that waits."""

    guest: PodInfo
    priority: int
    #: Seconds since 1970.
    since: float
    #: No two pods have the same.
    serial: int


@dataclass(slots=True, eq=False)
class SchedulingUnit:
    """Those who get their nodes at the same moment: one pod, or those of a gang."""

    members: tuple[QueuedPod, ...]
    #: Fewer of them are not given nodes.
    need: int = 1
    #: Others of its gang have their nodes already: these go before everybody else.
    ahead: bool = False
    #: Why there were no nodes for this party in particular; else the line's answer is its own.
    why: str | None = None
    #: As urgent as the least urgent of them, and here for as long as the first.
    rank: Rank = field(init=False)

    def __post_init__(self) -> None:
        first = self.members[0]
        priority, since, serial = first.priority, first.since, first.serial
        if len(self.members) > 1:
            priority = min(member.priority for member in self.members)
            since, serial = min((member.since, member.serial) for member in self.members)
        self.rank = not self.ahead, -priority, since, serial

    @property
    def priority(self) -> int:
        return -self.rank[1]

    @property
    def since(self) -> float:
        return self.rank[2]


class LineKey(NamedTuple):
    """What parties of one line have in common."""

    #: What their pods ask for, and how many of them ask so.
    asks: frozenset[tuple[Ask, int]]
    priority: int
    need: int
    ahead: bool

    @property
    def demands(self) -> Iterable[PodRequirements]:
        return (demand for (demand, _), _ in self.asks)


def line_key(party: SchedulingUnit) -> LineKey:
    if len(party.members) == 1:
        asks = frozenset(((_ask(party.members[0].guest), 1),))
    else:
        asks = frozenset(Counter(_ask(member.guest) for member in party.members).items())
    return LineKey(asks, party.priority, party.need, party.ahead)


def _ask(guest: PodInfo) -> Ask:
    near = guest.demand.affinity
    if not near:
        return guest.demand, ()
    return guest.demand, tuple(term.selection.holds(guest.key[0], guest.labels) for term in near)


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """Parties that ask for the same."""

    key: LineKey
    #: Why the first had no nodes. None while it is worth trying.
    closed: str | None = None
    #: Not even empty nodes would do, as far as is known.
    is_hopeless: bool = False
    #: Of each demand why nodes would not have it even if they were empty, by name; None is a node that would.
    refusals: dict[PodRequirements, dict[str, str | None]] = field(default_factory=dict)
    _parties: dict[SchedulingUnit, None] = field(default_factory=dict)
    #: A party may be there more than once, and so may others of its rank that are gone.
    _heap: list[tuple[Rank, int, SchedulingUnit]] = field(default_factory=list)
    _entries: int = 0
    _aside: list[SchedulingUnit] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._parties)

    def add(self, party: SchedulingUnit) -> None:
        self._parties[party] = None
        self._push(party)

    def _push(self, party: SchedulingUnit) -> None:
        self._entries += 1
        heappush(self._heap, (party.rank, self._entries, party))

    def remove(self, party: SchedulingUnit) -> None:
        del self._parties[party]

    def first(self) -> SchedulingUnit | None:
        """The next to be tried; None when nobody is left but those set aside."""
        while self._heap:
            party = self._heap[0][2]
            if party in self._parties and party.why is None:
                return party
            heappop(self._heap)
        return None

    def longest(self) -> SchedulingUnit:
        """Who has waited longest, set aside or not. The line is not empty."""
        first = self.first()
        waiting = [one for one in self._aside if one in self._parties]
        if first is not None:
            waiting.append(first)
        return min(waiting, key=lambda one: one.rank)

    def set_aside(self, party: SchedulingUnit, why: str) -> None:
        """Try the others first: what hindered this one need not hinder them."""
        party.why = why
        self._aside.append(party)

    def reopen(self) -> None:
        """Something has changed: everybody is worth trying again."""
        self.closed = None
        for party in self._aside:
            party.why = None
            if party in self._parties:
                self._push(party)
        self._aside.clear()

    def answer(self, party: SchedulingUnit) -> str | None:
        """Why the party has no nodes; None while that is not known."""
        return party.why or self.closed
