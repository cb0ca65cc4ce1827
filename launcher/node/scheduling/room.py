"""Room kept for one pod that has waited too long, so that it is not passed over for ever by smaller ones."""

from dataclasses import dataclass

from launcher.node.scheduling.demand import Demand
from launcher.node.scheduling.fitting import NOT_NEAR, Company, clash, refusal, shortages
from launcher.node.scheduling.site import Guest, Node, Site
from launcher.node.scheduling.waiting import Waiting
from launcher.store.port import Key


@dataclass(slots=True, eq=False)
class Room:
    """
    The node on which one pod will have room as soon as enough of those end that were there before.

    Others are let in only as far as they leave it that room: *promised* is the node as it would be with the pod
    itself and those let in since, and nobody else. When the rest has ended, the pod fits.
    """

    waiting: Waiting
    node: Node
    promised: Node
    #: When to see whether another node would be sooner.
    review: float
    #: How often the room has been moved.
    moves: int = 0

    @property
    def name(self) -> str:
        return self.node.facts.name

    def refuses(self, guest: Guest, priority: int, node: Node) -> bool:
        """Whether that pod would take the room if it went to that node."""
        mine = self.waiting
        if guest is mine.guest or priority > mine.priority:
            return False
        return node is self.node and bool(shortages(guest.demand, self.promised))

    def repels(self, guest: Guest, priority: int, node: Node) -> bool:
        """Whether that pod on that node would be one that the pod must be apart from, or the other way round."""
        mine = self.waiting
        if guest is mine.guest or priority > mine.priority:
            return False
        return clash(mine.guest, self.node.facts, guest, node.facts)

    def let_in(self, guest: Guest) -> None:
        if not shortages(guest.demand, self.promised):
            self.promised.take(guest)

    def left(self, key: Key) -> None:
        if key in self.promised.guests:
            self.promised.release(key)


def keep_room(waiting: Waiting, site: Site, now: float, patience: float) -> Room | None:
    """Room for the pod on the node where least has to end for it; None when even an empty node would not do."""
    node = soonest(waiting.guest, site)
    if node is None:
        return None
    promised = Node(node.facts)
    promised.take(waiting.guest)
    return Room(waiting, node, promised, review=now + patience)


def moved(room: Room, site: Site, now: float, patience: float) -> Room | None:
    """
    The room on another node, if that is much sooner.

    Each move makes the next one later, so that at last the pod stays and gets the room, as long as others end.
    """
    node = soonest(room.waiting.guest, site)
    demand = room.waiting.guest.demand
    if node is None or node is room.node or 2 * _to_end(demand, node) > _to_end(demand, room.node):
        room.review = now + patience * 2**room.moves
        return None
    other = keep_room(room.waiting, site, now, patience * 2 ** (room.moves + 1))
    if other is not None:
        other.moves = room.moves + 1
    return other


def soonest(guest: Guest, site: Site) -> Node | None:
    """The node where least has to end before the pod fits; None when it fits no empty node."""
    company = Company(guest, site)
    possible = [
        node
        for node in site.nodes.values()
        if refusal(guest.demand, node.facts) is None
        and not shortages(guest.demand, Node(node.facts))
        and company.refusal(node.facts) != NOT_NEAR
    ]
    return min(possible, key=lambda node: (_to_end(guest.demand, node), node.facts.name), default=None)


def _to_end(demand: Demand, node: Node) -> float:
    """How much has to end there, in shares of the node. Those on their way out count as ended."""
    staying = Node(node.facts)
    for guest in node.guests.values():
        if not guest.leaving:
            staying.take(guest)
    share = 0.0
    for name, amount in demand.amounts.items():
        of = node.facts.allocatable[name]
        share += max(0, staying.used.get(name, 0) + amount - of) / of
    if any(taken.clashes(port) for port in demand.ports for taken in staying.ports):
        share += 1.0
    return share
