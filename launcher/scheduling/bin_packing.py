"""Bin packing of pods onto nodes: exact, within a limit of search steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from launcher.scheduling.cluster_state import NodeAttributes, NodeInfo
from launcher.scheduling.pod_requirements import PodRequirements
from launcher.scheduling.scheduling_queue import QueuedPod, SchedulingUnit
from launcher.store.interface import Key

#: One amount per kind of resource.
ResourceVector = tuple[int, ...]
_BinState = tuple[tuple[bool, ...], ResourceVector]
_State = tuple[int, int, tuple[_BinState, ...]]


@dataclass(frozen=True, slots=True)
class PackingItem:
    """An item, and the indexes of the bins that may hold it."""

    amounts: ResourceVector
    bins: frozenset[int]


def pack(
    items: Sequence[PackingItem], free: Sequence[ResourceVector], minimum: int, steps: int
) -> dict[int, int] | None:
    """
    Assigns at least *minimum* of the items to bins. Returns item index -> bin index, or None if no packing was found.

    *items* is not empty; *free* has the free amounts of each bin. The search stops after *steps*, but always has
    enough steps for one greedy pass: largest item first, each into the fullest bin that holds it.
    """
    search = _Search(items, free, minimum)
    return search.run(max(steps, 2 * len(items) + 2)) if search.can_fit() else None


class _Search:
    """Depth-first search over items and the bins that differ for them."""

    def __init__(self, items: Sequence[PackingItem], free: Sequence[ResourceVector], minimum: int) -> None:
        self._free = list(free)
        self._minimum = minimum
        totals: list[int] = [max(1, sum(kind)) for kind in zip(*free, strict=True)]
        self._totals = totals
        # Items with the fewest bins first, then the largest.
        self._order = sorted(
            range(len(items)), key=lambda index: (len(items[index].bins), -_size(items[index], totals))
        )
        self._items = [items[index] for index in self._order]
        #: Bins of one kind are interchangeable while they have the same free amounts: every item may use all or none
        #: of them.
        choice_sets = dict.fromkeys(item.bins for item in items)
        self._kinds = [tuple(bin_index in choice for choice in choice_sets) for bin_index in range(len(free))]
        #: States without a solution: number of items handled, number that may still be left out, free amounts.
        self._failed: set[_State] = set()

    def can_fit(self) -> bool:
        """Whether the smallest items fit into the total of all bins: a necessary condition."""
        for kind, free in enumerate(zip(*self._free, strict=True)):
            smallest = sorted(item.amounts[kind] for item in self._items)[: self._minimum]
            if sum(smallest) > sum(max(0, amount) for amount in free):
                return False
        return len(self._items) >= self._minimum

    def run(self, steps: int) -> dict[int, int] | None:
        #: For each handled item its bin (None: left out) and the remaining choices.
        decisions: list[tuple[int | None, Iterator[int | None]]] = []
        spare = len(self._items) - self._minimum
        choices = self._choices(0, spare)
        while steps:
            steps -= 1
            choice = next(choices, -1)
            if choice == -1:
                self._failed.add(self._state(len(decisions), spare))
                if not decisions:
                    return None
                bin_index, choices = decisions.pop()
                spare += self._undo(len(decisions), bin_index)
                continue
            decisions.append((choice, choices))
            spare -= self._place(len(decisions) - 1, choice)
            if len(decisions) == len(self._items):
                return {
                    self._order[index]: bin_index
                    for index, (bin_index, _) in enumerate(decisions)
                    if bin_index is not None
                }
            has_failed = self._failed and self._state(len(decisions), spare) in self._failed
            choices = iter(()) if has_failed else self._choices(len(decisions), spare)
        return None

    def _choices(self, index: int, spare: int) -> Iterator[int | None]:
        """Yields the distinct bins for the item, the fullest first; finally None if the item may be left out."""
        item = self._items[index]
        states: set[_BinState] = set()
        fits = [
            bin_index
            for bin_index in item.bins
            if all(free >= amount for free, amount in zip(self._free[bin_index], item.amounts, strict=True))
        ]
        for bin_index in sorted(fits, key=lambda bin_index: (self._remaining(bin_index), bin_index)):
            kind = self._kinds[bin_index], self._free[bin_index]
            if kind not in states:
                states.add(kind)
                yield bin_index
        if spare:
            yield None

    def _remaining(self, bin_index: int) -> float:
        return sum(free / total for free, total in zip(self._free[bin_index], self._totals, strict=True))

    def _place(self, index: int, bin_index: int | None) -> int:
        """Returns the number of items left out by this choice."""
        if bin_index is None:
            return 1
        amounts = self._items[index].amounts
        self._free[bin_index] = tuple(
            free - amount for free, amount in zip(self._free[bin_index], amounts, strict=True)
        )
        return 0

    def _undo(self, index: int, bin_index: int | None) -> int:
        if bin_index is None:
            return 1
        amounts = self._items[index].amounts
        self._free[bin_index] = tuple(
            free + amount for free, amount in zip(self._free[bin_index], amounts, strict=True)
        )
        return 0

    def _state(self, index: int, spare: int) -> _State:
        return index, spare, tuple(sorted(zip(self._kinds, self._free, strict=True)))


def _size(item: PackingItem, totals: Sequence[int]) -> float:
    """Returns the item's dominant share of the total."""
    return max((amount / total for amount, total in zip(item.amounts, totals, strict=True)), default=0.0)


#: Pod -> name of its node.
Assignment = Mapping[Key, str]

#: Limit of search steps. For pods with equal requirements one pass is exact.
MAX_STEPS: Final = 2_000


def largest_first(unit: SchedulingUnit, nodes: Iterable[NodeAttributes]) -> list[QueuedPod]:
    """Returns the members by dominant share of a node, the largest first; equal ones in order of arrival."""
    largest: dict[str, int] = {}
    for attributes in nodes:
        for name, amount in attributes.allocatable.items():
            largest[name] = max(largest.get(name, 0), amount)
    shares: dict[PodRequirements, float] = {}
    for member in unit.members:
        requirements = member.pod.requirements
        if requirements not in shares:
            portions = (
                amount / max(1, largest.get(name, 0)) for name, amount in requirements.requests.items()
            )
            shares[requirements] = max(portions, default=0.0)
    return sorted(unit.members, key=lambda member: (-shares[member.pod.requirements], member.sequence_number))


def has_affinity(unit: SchedulingUnit) -> bool:
    """Whether any of its pods has inter-pod affinity."""
    return any(
        member.pod.requirements.affinity or member.pod.requirements.anti_affinity for member in unit.members
    )


def pack_pods(
    unit: SchedulingUnit,
    nodes: Sequence[NodeInfo],
    is_allowed: Callable[[QueuedPod, NodeInfo], bool],
    limits: Mapping[str, NodeInfo],
) -> Assignment | None:
    """
    Assigns at least ``min_members`` pods by their requests alone. Returns None if no packing was found.

    *is_allowed* is called once per node for pods with equal requirements. For nodes in *limits*, a pod must also fit
    that state of the node.
    """
    all_requirements = list(dict.fromkeys(member.pod.requirements for member in unit.members))
    names = sorted({name for requirements in all_requirements for name in requirements.requests})
    ports = sorted({port[:2] for requirements in all_requirements for port in requirements.ports})
    items: dict[PodRequirements, PackingItem] = {}
    for member in unit.members:
        requirements = member.pod.requirements
        if requirements not in items:
            bins = frozenset(index for index, node in enumerate(nodes) if is_allowed(member, node))
            taken_ports = [port[:2] for port in requirements.ports]
            requested = (
                *(requirements.requests.get(name, 0) for name in names),
                *map(taken_ports.count, ports),
            )
            items[requirements] = PackingItem(requested, bins)
    free = [_free(node, limits.get(node.attributes.name, node), names, ports) for node in nodes]
    packing = pack(
        [items[member.pod.requirements] for member in unit.members], free, unit.min_members, MAX_STEPS
    )
    if packing is None:
        return None
    return {
        unit.members[item].pod.key: nodes[bin_index].attributes.name for item, bin_index in packing.items()
    }


def _free(
    node: NodeInfo, limit: NodeInfo, names: Sequence[str], ports: Sequence[tuple[str, int]]
) -> ResourceVector:
    """Returns the free amounts of the node. A port counts once for all addresses."""
    allocatable = node.attributes.allocatable
    taken_ports = {port[:2] for port in (*node.ports, *limit.ports)}
    return (
        *(allocatable.get(name, 0) - max(node.used.get(name, 0), limit.used.get(name, 0)) for name in names),
        *(int(port not in taken_ports) for port in ports),
    )
