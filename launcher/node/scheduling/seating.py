"""Nodes for several pods at once: for as many as are needed, or for none."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from launcher.node.scheduling.demand import Demand
from launcher.node.scheduling.packing import Amounts, Thing, pack
from launcher.node.scheduling.site import Facts, Node
from launcher.node.scheduling.waiting import Party, Waiting
from launcher.store.port import Key

#: Who goes where, by the node's name.
Seats = Mapping[Key, str]

#: How long a way is looked for. Of pods that all ask for the same, one look is enough.
STEPS: Final = 2_000


def by_size(party: Party, facts: Iterable[Facts]) -> list[Waiting]:
    """The members, those that take the largest share of a node first; of equals, those that came first."""
    most: dict[str, int] = {}
    for each in facts:
        for name, amount in each.allocatable.items():
            most[name] = max(most.get(name, 0), amount)
    shares: dict[Demand, float] = {}
    for member in party.members:
        demand = member.guest.demand
        if demand not in shares:
            taken = (amount / max(1, most.get(name, 0)) for name, amount in demand.amounts.items())
            shares[demand] = max(taken, default=0.0)
    return sorted(party.members, key=lambda member: (-shares[member.guest.demand], member.serial))


def cares(party: Party) -> bool:
    """Whether it matters to its pods which others are near."""
    return any(member.guest.demand.near or member.guest.demand.apart for member in party.members)


def packed(
    party: Party, nodes: Sequence[Node], may: Callable[[Waiting, Node], bool], limits: Mapping[str, Node]
) -> Seats | None:
    """
    Seats for as many as the party needs, by what they ask for alone; None when none were found.

    *may* says whether a pod is let in at all, asked once for all that ask for the same. Where a node is in *limits*,
    what has no room in that one has none on the node either.
    """
    demands = list(dict.fromkeys(member.guest.demand for member in party.members))
    names = sorted({name for demand in demands for name in demand.amounts})
    ports = sorted({port[:2] for demand in demands for port in demand.ports})
    things: dict[Demand, Thing] = {}
    for member in party.members:
        demand = member.guest.demand
        if demand not in things:
            places = frozenset(at for at, node in enumerate(nodes) if may(member, node))
            taken = [port[:2] for port in demand.ports]
            asked = (*(demand.amounts.get(name, 0) for name in names), *map(taken.count, ports))
            things[demand] = Thing(asked, places)
    rooms = [_free(node, limits.get(node.facts.name, node), names, ports) for node in nodes]
    found = pack([things[member.guest.demand] for member in party.members], rooms, party.need, STEPS)
    if found is None:
        return None
    return {party.members[thing].guest.key: nodes[place].facts.name for thing, place in found.items()}


def _free(node: Node, limit: Node, names: Sequence[str], ports: Sequence[tuple[str, int]]) -> Amounts:
    """What the node has free; a port can be had once, whatever the addresses."""
    allocatable = node.facts.allocatable
    taken = {port[:2] for port in (*node.ports, *limit.ports)}
    return (
        *(allocatable.get(name, 0) - max(node.used.get(name, 0), limit.used.get(name, 0)) for name in names),
        *(int(port not in taken) for port in ports),
    )
