"""Queue of pending pods, by equivalence class: one decision is valid for all pods of a class."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from launcher.scheduling.cluster_state import PodInfo
from launcher.scheduling.pod_requirements import PodRequirements

#: Sort key: units that complete a gang first, then higher priority, longer wait, earlier arrival.
Rank = tuple[bool, int, float, int]
#: The requirements of a pod, and for each of its affinity terms whether the pod matches the term itself.
RequirementsKey = tuple[PodRequirements, tuple[bool, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class QueuedPod:
    """A pending pod."""

    pod: PodInfo
    priority: int
    #: Seconds since 1970.
    queued_at: float
    #: Unique.
    sequence_number: int


@dataclass(slots=True, eq=False)
class SchedulingUnit:
    """Pods that are scheduled in one decision: a single pod or the pods of a gang."""

    members: tuple[QueuedPod, ...]
    #: The smallest number of members that is scheduled.
    min_members: int = 1
    #: Whether other pods of the gang already have nodes; then the unit precedes all others.
    completes_gang: bool = False
    #: The reason for this unit in particular; None means the reason of its class.
    rejection: str | None = None
    #: Has the lowest priority of the members and the longest waiting time.
    rank: Rank = field(init=False)

    def __post_init__(self) -> None:
        first = self.members[0]
        priority, queued_at, sequence_number = first.priority, first.queued_at, first.sequence_number
        if len(self.members) > 1:
            priority = min(member.priority for member in self.members)
            queued_at, sequence_number = min(
                (member.queued_at, member.sequence_number) for member in self.members
            )
        self.rank = not self.completes_gang, -priority, queued_at, sequence_number

    @property
    def priority(self) -> int:
        return -self.rank[1]

    @property
    def queued_at(self) -> float:
        return self.rank[2]


class EquivalenceKey(NamedTuple):
    """Identifies an equivalence class."""

    #: The requirements of the members, and the number of members with each.
    requirement_counts: frozenset[tuple[RequirementsKey, int]]
    priority: int
    min_members: int
    completes_gang: bool

    @property
    def all_requirements(self) -> Iterable[PodRequirements]:
        return (requirements for (requirements, _), _ in self.requirement_counts)


def equivalence_key(unit: SchedulingUnit) -> EquivalenceKey:
    if len(unit.members) == 1:
        requirement_counts = frozenset(((_requirements_key(unit.members[0].pod), 1),))
    else:
        requirement_counts = frozenset(
            Counter(_requirements_key(member.pod) for member in unit.members).items()
        )
    return EquivalenceKey(requirement_counts, unit.priority, unit.min_members, unit.completes_gang)


def _requirements_key(pod: PodInfo) -> RequirementsKey:
    affinity = pod.requirements.affinity
    if not affinity:
        return pod.requirements, ()
    return pod.requirements, tuple(term.selector.matches(pod.key[0], pod.labels) for term in affinity)


@dataclass(slots=True, eq=False)
class EquivalenceClass:
    """Scheduling units with equal requirements."""

    key: EquivalenceKey
    #: The reason why the first unit has no nodes. None while scheduling can be attempted.
    rejection: str | None = None
    #: Whether the units would not fit even on empty nodes.
    is_unsatisfiable: bool = False
    #: Requirements -> node -> reason against an empty node, or None.
    static_mismatches: dict[PodRequirements, dict[str, str | None]] = field(default_factory=dict)
    _units: dict[SchedulingUnit, None] = field(default_factory=dict)
    #: May contain a unit more than once, and units that were removed.
    _heap: list[tuple[Rank, int, SchedulingUnit]] = field(default_factory=list)
    _pushes: int = 0
    _deferred: list[SchedulingUnit] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._units)

    def add(self, unit: SchedulingUnit) -> None:
        self._units[unit] = None
        self._push(unit)

    def _push(self, unit: SchedulingUnit) -> None:
        self._pushes += 1
        heappush(self._heap, (unit.rank, self._pushes, unit))

    def remove(self, unit: SchedulingUnit) -> None:
        del self._units[unit]

    def next_unit(self) -> SchedulingUnit | None:
        """Returns the next unit to schedule, or None if only deferred units are left."""
        while self._heap:
            unit = self._heap[0][2]
            if unit in self._units and unit.rejection is None:
                return unit
            heappop(self._heap)
        return None

    def longest_waiting(self) -> SchedulingUnit:
        """Returns the longest waiting unit, deferred or not. The class must not be empty."""
        next_unit = self.next_unit()
        candidates = [unit for unit in self._deferred if unit in self._units]
        if next_unit is not None:
            candidates.append(next_unit)
        return min(candidates, key=lambda unit: unit.rank)

    def defer(self, unit: SchedulingUnit, rejection: str) -> None:
        """Moves the unit behind the others: its rejection need not apply to them."""
        unit.rejection = rejection
        self._deferred.append(unit)

    def reactivate(self) -> None:
        """Makes all units schedulable again after a change."""
        self.rejection = None
        for unit in self._deferred:
            unit.rejection = None
            if unit in self._units:
                self._push(unit)
        self._deferred.clear()

    def rejection_of(self, unit: SchedulingUnit) -> str | None:
        """Returns the reason why the unit has no nodes, or None if it was not checked yet."""
        return unit.rejection or self.rejection
