"""Room kept for one party that has waited too long, so that it is not passed over for ever by smaller ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.scheduling.bin_packing import Assignment, by_size, has_affinity, packed
from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.feasibility import (
    NOT_NEAR,
    AffinityFilter,
    clash,
    insufficient_resources,
    static_mismatch,
)
from launcher.scheduling.scheduling_queue import QueuedPod, SchedulingUnit
from launcher.store.interface import Key


@dataclass(slots=True, eq=False)
class Reservation:
    """
    The nodes on which a party will have room as soon as enough of those end that were there before.

    Others are let in only as far as they leave it that room: *promised* are the nodes as they would be with the party
    itself and those let in since, and nobody else. When the rest has ended, the party fits.
    """

    party: SchedulingUnit
    seats: Assignment
    #: Where there are seats: the node with nobody but the party.
    claims: Mapping[str, NodeInfo]
    promised: Mapping[str, NodeInfo]
    #: When to see whether other nodes would be sooner.
    review: float
    #: How often the room has been moved.
    moves: int = 0
    _own: frozenset[Key] = field(init=False)
    _seated: tuple[tuple[PodInfo, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._own = frozenset(member.guest.key for member in self.party.members)
        self._seated = tuple(
            (member.guest, self.seats[member.guest.key])
            for member in self.party.members
            if member.guest.key in self.seats
        )

    def is_at(self, node: str) -> bool:
        """Whether some of it is on that node."""
        return node in self.claims

    def refuses(self, guest: PodInfo, priority: int, node: NodeInfo) -> bool:
        """Whether that pod would take the room if it went to that node."""
        promised = self.promised.get(node.facts.name)
        if promised is None or self._yields_to(guest, priority):
            return False
        return bool(insufficient_resources(guest.demand, promised))

    def repels(self, guest: PodInfo, priority: int, node: NodeInfo) -> bool:
        """Whether that pod on that node would be one that the party must be apart from, or the other way round."""
        if self._yields_to(guest, priority):
            return False
        return any(
            clash(own, self.claims[at].facts, guest, node.facts)
            for own, at in self._seated
            if own.demand.anti_affinity or guest.demand.anti_affinity
        )

    def _yields_to(self, guest: PodInfo, priority: int) -> bool:
        return guest.key in self._own or priority > self.party.priority

    def let_in(self, guest: PodInfo, node: str) -> None:
        promised = self.promised.get(node)
        if (
            promised is not None
            and guest.key not in self._own
            and not insufficient_resources(guest.demand, promised)
        ):
            promised.take(guest)

    def left(self, key: Key) -> None:
        for promised in self.promised.values():
            if key in promised.guests and key not in self._own:
                promised.release(key)


def reserve(party: SchedulingUnit, site: ClusterState, now: float, patience: float) -> Reservation | None:
    """Room for the party where least has to end for it; None when even empty nodes would not do."""
    seats = soonest(party, site)
    if seats is None:
        return None
    claims, promised = _claims(party, seats, site), _claims(party, seats, site)
    return Reservation(party, seats, claims, promised, review=now + patience)


def moved(room: Reservation, site: ClusterState, now: float, patience: float) -> Reservation | None:
    """
    The room on other nodes, if that is much sooner.

    Each move makes the next one later, so that at last the party stays and gets the room, as long as others end.
    """
    other = reserve(room.party, site, now, patience * 2 ** (room.moves + 1))
    if other is None or 2 * _to_end(other.claims, site) > _to_end(room.claims, site) or _same(room, other):
        room.review = now + patience * 2**room.moves
        return None
    other.moves = room.moves + 1
    return other


def _same(room: Reservation, other: Reservation) -> bool:
    return room.claims.keys() == other.claims.keys()


def soonest(party: SchedulingUnit, site: ClusterState) -> Assignment | None:
    """Seats where least has to end before the party fits; None when it fits no empty nodes."""
    seats = _greedy(party, site)
    if len(seats) >= party.need:
        return seats
    if len(party.members) == 1 or has_affinity(party):
        return None
    empty = [NodeInfo(node.facts) for node in site.nodes.values()]
    return packed(
        party, empty, lambda member, node: static_mismatch(member.guest.demand, node.facts) is None, {}
    )


def _greedy(party: SchedulingUnit, site: ClusterState) -> Assignment:
    """One after the other, each where least has to end for it and those before it."""
    ideal = _Ideal(party, site)
    seats: dict[Key, str] = {}
    for member in by_size(party, (node.facts for node in site.nodes.values())):
        if len(seats) < party.need and (node := ideal.soonest(member)) is not None:
            seats[member.guest.key] = node
    return seats


class _Ideal:
    """The site as it would be with nobody there but a party, and what of it is not so yet."""

    def __init__(self, party: SchedulingUnit, site: ClusterState) -> None:
        self._real, self._site = site, ClusterState()
        for node in site.nodes.values():
            self._site.set_node(node.facts)
        for member in party.members:
            self._site.crowds.ask(member.guest.demand.terms)
        self._staying = {name: _staying(node) for name, node in site.nodes.items()}

    def soonest(self, member: QueuedPod) -> str | None:
        """The node for that pod, which takes its seat there; None if there is none."""
        guest = member.guest
        here, there = AffinityFilter(guest, self._site), AffinityFilter(guest, self._real)
        possible = [
            node
            for node in self._site.nodes.values()
            if static_mismatch(guest.demand, node.facts) is None
            and not insufficient_resources(guest.demand, node)
            # Those it wants to be near may be of its party, or be there already.
            and (why := here.refusal(node.facts)) in (None, NOT_NEAR)
            and (why is None or there.refusal(node.facts) != NOT_NEAR)
        ]
        if not possible:
            return None
        node = min(possible, key=lambda node: (self._cost(guest, node), node.facts.name))
        self._site.place(guest, node.facts.name)
        return node.facts.name

    def _cost(self, guest: PodInfo, node: NodeInfo) -> float:
        """How much more has to end there if this pod comes too."""
        staying = self._staying[node.facts.name]
        before = _excess(node, staying)
        node.take(guest)
        after = _excess(node, staying)
        node.release(guest.key)
        return after - before


def _claims(party: SchedulingUnit, seats: Assignment, site: ClusterState) -> dict[str, NodeInfo]:
    claims: dict[str, NodeInfo] = {}
    for member in party.members:
        name = seats.get(member.guest.key)
        if name is not None:
            claims.setdefault(name, NodeInfo(site.nodes[name].facts)).take(member.guest)
    return claims


def _to_end(claims: Mapping[str, NodeInfo], site: ClusterState) -> float:
    """How much has to end before the claims can be met, in shares of nodes."""
    return sum(_excess(claim, _staying(site.nodes[name])) for name, claim in claims.items())


def _staying(node: NodeInfo) -> NodeInfo:
    """The node without those on their way out."""
    staying = NodeInfo(node.facts)
    for guest in node.guests.values():
        if not guest.leaving:
            staying.take(guest)
    return staying


def _excess(claim: NodeInfo, staying: NodeInfo) -> float:
    """By how much both together are too much for the node, in shares of it."""
    share = 0.0
    for name, amount in claim.used.items():
        if of := claim.facts.allocatable.get(name, 0):
            share += max(0, staying.used.get(name, 0) + amount - of) / of
    if any(taken.clashes(port) for port in claim.ports for taken in staying.ports):
        share += 1.0
    return share
