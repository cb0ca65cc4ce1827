"""
Gangs: their pending and scheduled pods.

A gang is scheduled as a whole. If one of its pods has a node, or had one and terminated, the gang was scheduled
before, maybe by a launcher that was stopped before all bindings were written. Its pending pods are then scheduled
individually: up to the gang's minimum before all other pods, and later ones as usual.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from launcher.scheduling.cluster_state import GangMembership, PodInfo
from launcher.scheduling.scheduling_queue import QueuedPod, SchedulingUnit
from launcher.store.interface import Key

#: Namespace, and gang name in the annotation.
GangKey = tuple[str, str]


class GangPhase(Enum):
    """How the pending pods of a gang are scheduled."""

    #: Not yet: too few pods exist.
    GATHERING = "gathering"
    TOGETHER = "together"
    #: Individually, before all other pods.
    COMPLETING = "completing"
    COMPLETE = "complete"

    @property
    def one_by_one(self) -> bool:
        return self in (GangPhase.COMPLETING, GangPhase.COMPLETE)


@dataclass(slots=True, eq=False)
class GangState:
    """The pods of one gang."""

    key: GangKey
    pending: dict[Key, QueuedPod] = field(default_factory=dict)
    #: Pods with a node, including terminated ones.
    scheduled: set[Key] = field(default_factory=set)
    #: The scheduling units of its pods, and the phase for which they were created.
    units: dict[Key, SchedulingUnit] = field(default_factory=dict)
    phase: GangPhase = GangPhase.GATHERING
    #: min_members -> number of pods whose annotation has this value.
    _min_member_counts: Counter[int] = field(default_factory=Counter)

    @property
    def min_members(self) -> int:
        """
        The number of pods that must be scheduled together. If annotations differ, the smallest: others may be
        outdated.
        """
        return min(self._min_member_counts, default=1)

    def count_min_members(self, membership: GangMembership, delta: int) -> None:
        self._min_member_counts[membership.min_members] += delta
        if not self._min_member_counts[membership.min_members]:
            del self._min_member_counts[membership.min_members]

    def __bool__(self) -> bool:
        return bool(self.pending or self.scheduled)

    def current_phase(self) -> GangPhase:
        """Returns the phase that follows from its pods."""
        if self.scheduled:
            return GangPhase.COMPLETING if len(self.scheduled) < self.min_members else GangPhase.COMPLETE
        return GangPhase.TOGETHER if len(self.pending) >= self.min_members else GangPhase.GATHERING

    def message(self) -> str:
        """Returns the reason why the pods of an incomplete gang are not scheduled."""
        missing = self.min_members - len(self.pending)
        return f"Gang of {self.min_members}: waiting for {missing} more pod(s) to be created."


class GangTracker:
    """All gangs with at least one pod."""

    def __init__(self) -> None:
        self._gangs: dict[GangKey, GangState] = {}
        self._memberships: dict[Key, tuple[GangState, GangMembership]] = {}
        self._changed: dict[GangState, None] = {}

    def gang(self, key: Key) -> GangState | None:
        """Returns the gang of that pod, or None."""
        entry = self._memberships.get(key)
        return entry[0] if entry is not None else None

    def pod_pending(self, pending: QueuedPod, membership: GangMembership) -> None:
        """Records a pending pod."""
        self._join(pending.pod.key, membership).pending[pending.pod.key] = pending

    def pod_scheduled(self, pod: PodInfo) -> None:
        """Records that the pod has a node. No effect on pods without a gang."""
        if pod.gang is not None:
            self.add_scheduled(pod.key, pod.gang)

    def add_scheduled(self, key: Key, membership: GangMembership) -> None:
        """Records a pod that has a node, or had one and terminated."""
        gang = self._join(key, membership)
        gang.pending.pop(key, None)
        gang.scheduled.add(key)

    def remove_pod(self, key: Key) -> None:
        """Removes a deleted pod."""
        entry = self._memberships.pop(key, None)
        if entry is None:
            return
        gang, membership = entry
        gang.count_min_members(membership, -1)
        gang.pending.pop(key, None)
        gang.scheduled.discard(key)
        self._changed[gang] = None
        if not gang:
            del self._gangs[gang.key]

    def take_changed(self) -> Iterator[GangState]:
        """Yields and clears the gangs whose scheduling units may have to change."""
        while self._changed:
            gang, _ = self._changed.popitem()
            yield gang

    def _join(self, key: Key, membership: GangMembership) -> GangState:
        entry = self._memberships.get(key)
        name = key[0], membership.name
        if entry is not None and (entry[0].key, entry[1]) == (name, membership):
            gang = entry[0]
        else:
            self.remove_pod(key)
            gang = self._gangs.get(name) or self._gangs.setdefault(name, GangState(name))
            gang.count_min_members(membership, 1)
            self._memberships[key] = gang, membership
        self._changed[gang] = None
        return gang


def new_units(gang: GangState) -> Iterator[SchedulingUnit]:
    """Yields scheduling units for pending pods without one, according to the gang's phase."""
    match gang.phase:
        case GangPhase.GATHERING:
            return
        case GangPhase.TOGETHER:
            yield SchedulingUnit(tuple(gang.pending.values()), gang.min_members)
        case GangPhase.COMPLETING | GangPhase.COMPLETE:
            for key, pending in gang.pending.items():
                if key not in gang.units:
                    yield SchedulingUnit((pending,), completes_gang=gang.phase is GangPhase.COMPLETING)
