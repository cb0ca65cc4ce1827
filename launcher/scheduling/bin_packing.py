"""How many things fit into several places at once. Pure numbers, and an exact answer as far as the steps allow."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from launcher.scheduling.cluster_state import NodeAttributes, NodeInfo
from launcher.scheduling.pod_requirements import PodRequirements
from launcher.scheduling.scheduling_queue import QueuedPod, SchedulingUnit
from launcher.store.interface import Key

#: So much of each kind.
Amounts = tuple[int, ...]
_Place = tuple[tuple[bool, ...], Amounts]
_State = tuple[int, int, tuple[_Place, ...]]


@dataclass(frozen=True, slots=True)
class PackingItem:
    """Something that goes into one of the places it may be in."""

    amounts: Amounts
    places: frozenset[int]


def pack(
    things: Sequence[PackingItem], rooms: Sequence[Amounts], need: int, steps: int
) -> dict[int, int] | None:
    """
    A place for at least *need* of the things, as place by thing; None when there is none, or none was found.

    There is at least one thing, and *rooms* is what each place has free. After so many *steps* it is given up; there
    are always enough steps to put the things down once, the largest first, each where it leaves least.
    """
    search = _Search(things, rooms, need)
    return search.run(max(steps, 2 * len(things) + 2)) if search.may_fit() else None


class _Search:
    """One thing after the other, each in every place that makes a difference, until all are down."""

    def __init__(self, things: Sequence[PackingItem], rooms: Sequence[Amounts], need: int) -> None:
        self._free = list(rooms)
        self._need = need
        whole: list[int] = [max(1, sum(kind)) for kind in zip(*rooms, strict=True)]
        self._whole = whole
        # Those with the least choice first, and of these the largest.
        self._order = sorted(
            range(len(things)), key=lambda number: (len(things[number].places), -_size(things[number], whole))
        )
        self._things = [things[number] for number in self._order]
        #: Places of one kind are those that no thing can tell apart, as long as they have the same free.
        choices = dict.fromkeys(thing.places for thing in things)
        self._kinds = [tuple(place in choice for choice in choices) for place in range(len(rooms))]
        #: What is known to lead nowhere: how many things were dealt with, how many can be spared, what is free.
        self._failed: set[_State] = set()

    def may_fit(self) -> bool:
        """Whether at least the sum of the smallest would fit into the sum of all places."""
        for kind, free in enumerate(zip(*self._free, strict=True)):
            smallest = sorted(thing.amounts[kind] for thing in self._things)[: self._need]
            if sum(smallest) > sum(max(0, each) for each in free):
                return False
        return len(self._things) >= self._need

    def run(self, steps: int) -> dict[int, int] | None:
        #: For each thing dealt with, where it is (None: left out) and where else it could be.
        trail: list[tuple[int | None, Iterator[int | None]]] = []
        spare = len(self._things) - self._need
        ahead = self._choices(0, spare)
        while steps:
            steps -= 1
            choice = next(ahead, -1)
            if choice == -1:
                self._failed.add(self._state(len(trail), spare))
                if not trail:
                    return None
                place, ahead = trail.pop()
                spare += self._take_back(len(trail), place)
                continue
            trail.append((choice, ahead))
            spare -= self._put_down(len(trail) - 1, choice)
            if len(trail) == len(self._things):
                return {self._order[at]: place for at, (place, _) in enumerate(trail) if place is not None}
            is_known = self._failed and self._state(len(trail), spare) in self._failed
            ahead = iter(()) if is_known else self._choices(len(trail), spare)
        return None

    def _choices(self, at: int, spare: int) -> Iterator[int | None]:
        """The places for that thing that differ, the tightest first; and last, if it can be spared, none."""
        thing = self._things[at]
        seen: set[_Place] = set()
        fits = [
            place
            for place in thing.places
            if all(free >= amount for free, amount in zip(self._free[place], thing.amounts, strict=True))
        ]
        for place in sorted(fits, key=lambda place: (self._left(place), place)):
            kind = self._kinds[place], self._free[place]
            if kind not in seen:
                seen.add(kind)
                yield place
        if spare:
            yield None

    def _left(self, place: int) -> float:
        return sum(free / whole for free, whole in zip(self._free[place], self._whole, strict=True))

    def _put_down(self, at: int, place: int | None) -> int:
        """How many things this leaves out."""
        if place is None:
            return 1
        amounts = self._things[at].amounts
        self._free[place] = tuple(
            free - amount for free, amount in zip(self._free[place], amounts, strict=True)
        )
        return 0

    def _take_back(self, at: int, place: int | None) -> int:
        if place is None:
            return 1
        amounts = self._things[at].amounts
        self._free[place] = tuple(
            free + amount for free, amount in zip(self._free[place], amounts, strict=True)
        )
        return 0

    def _state(self, at: int, spare: int) -> _State:
        return at, spare, tuple(sorted(zip(self._kinds, self._free, strict=True)))


def _size(thing: PackingItem, whole: Sequence[int]) -> float:
    """The largest share of everything that it takes."""
    return max((amount / of for amount, of in zip(thing.amounts, whole, strict=True)), default=0.0)


#: Who goes where, by the node's name.
Assignment = Mapping[Key, str]

#: How long a way is looked for. Of pods that all ask for the same, one look is enough.
STEPS: Final = 2_000


def by_size(party: SchedulingUnit, facts: Iterable[NodeAttributes]) -> list[QueuedPod]:
    """The members, those that take the largest share of a node first; of equals, those that came first."""
    most: dict[str, int] = {}
    for each in facts:
        for name, amount in each.allocatable.items():
            most[name] = max(most.get(name, 0), amount)
    shares: dict[PodRequirements, float] = {}
    for member in party.members:
        demand = member.guest.demand
        if demand not in shares:
            taken = (amount / max(1, most.get(name, 0)) for name, amount in demand.amounts.items())
            shares[demand] = max(taken, default=0.0)
    return sorted(party.members, key=lambda member: (-shares[member.guest.demand], member.serial))


def has_affinity(party: SchedulingUnit) -> bool:
    """Whether it matters to its pods which others are near."""
    return any(member.guest.demand.affinity or member.guest.demand.anti_affinity for member in party.members)


def packed(
    party: SchedulingUnit,
    nodes: Sequence[NodeInfo],
    may: Callable[[QueuedPod, NodeInfo], bool],
    limits: Mapping[str, NodeInfo],
) -> Assignment | None:
    """
    Seats for as many as the party needs, by what they ask for alone; None when none were found.

    *may* says whether a pod is let in at all, asked once for all that ask for the same. Where a node is in *limits*,
    what has no room in that one has none on the node either.
    """
    demands = list(dict.fromkeys(member.guest.demand for member in party.members))
    names = sorted({name for demand in demands for name in demand.amounts})
    ports = sorted({port[:2] for demand in demands for port in demand.ports})
    things: dict[PodRequirements, PackingItem] = {}
    for member in party.members:
        demand = member.guest.demand
        if demand not in things:
            places = frozenset(at for at, node in enumerate(nodes) if may(member, node))
            taken = [port[:2] for port in demand.ports]
            asked = (*(demand.amounts.get(name, 0) for name in names), *map(taken.count, ports))
            things[demand] = PackingItem(asked, places)
    rooms = [_free(node, limits.get(node.facts.name, node), names, ports) for node in nodes]
    found = pack([things[member.guest.demand] for member in party.members], rooms, party.need, STEPS)
    if found is None:
        return None
    return {party.members[thing].guest.key: nodes[place].facts.name for thing, place in found.items()}


def _free(node: NodeInfo, limit: NodeInfo, names: Sequence[str], ports: Sequence[tuple[str, int]]) -> Amounts:
    """What the node has free; a port can be had once, whatever the addresses."""
    allocatable = node.facts.allocatable
    taken = {port[:2] for port in (*node.ports, *limit.ports)}
    return (
        *(allocatable.get(name, 0) - max(node.used.get(name, 0), limit.used.get(name, 0)) for name in names),
        *(int(port not in taken) for port in ports),
    )
