"""
Scheduling decisions. Pure: no store, no clock, no waiting.

Pods are scheduled by priority, then by waiting time. An unschedulable pod does not block the others until it has
waited so long that capacity is reserved for it. A rejection stays valid until a pod or node is removed or changes:
until then the pod is not checked again, and of pods with equal requirements only the first is checked.

Pods of a gang are one scheduling unit: its minimum number of pods gets nodes in one decision, or none does. An
assumed pod counts as running on its node at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from launcher.core.pods.observed_pod import is_deleted
from launcher.scheduling.bin_packing import Assignment
from launcher.scheduling.cluster_state import ClusterState, GangMembership, NodeAttributes, PodInfo
from launcher.scheduling.gang_tracker import GangTracker, new_units
from launcher.scheduling.placement import PlacementSearch
from launcher.scheduling.reservation import Reservation, move_reservation, reserve
from launcher.scheduling.scheduling_queue import (
    EquivalenceClass,
    EquivalenceKey,
    QueuedPod,
    Rank,
    SchedulingUnit,
    equivalence_key,
)
from launcher.store.interface import PODS, Key, Object, key_of
from launcher.store.object_errors import object_errors

#: Component name in recorded errors.
COMPONENT = "scheduler"


@dataclass(frozen=True, slots=True)
class Binding:
    """The decision to run a pod on a node."""

    pod: PodInfo
    node: str


class SchedulingEngine:
    """Cluster state and pending pods, and the decisions about them."""

    def __init__(self, reserve_after: float) -> None:
        """After *reserve_after* seconds of waiting, capacity is reserved for a unit."""
        self._reserve_after = reserve_after
        self._cluster = ClusterState()
        self._equivalence_classes: dict[EquivalenceKey, EquivalenceClass] = {}
        #: The classes whose pods have required pod affinity.
        self._with_affinity: dict[EquivalenceClass, None] = {}
        #: All pending pods; and those that can be scheduled, with their unit and class.
        self._pending: dict[Key, QueuedPod] = {}
        self._queued: dict[Key, tuple[SchedulingUnit, EquivalenceClass]] = {}
        self._gangs = GangTracker()
        #: Pods with an assumed node, until the binding is observed.
        self._assumed: dict[Key, QueuedPod] = {}
        self._unreported: dict[QueuedPod, None] = {}
        self._reservation: Reservation | None = None
        self._last_sequence_number = 0

    # Observations.

    def set_node(self, attributes: NodeAttributes) -> None:
        """Adds or updates a node."""
        if self._cluster.set_node(attributes):
            self._nodes_changed(attributes.name)

    def remove_node(self, name: str) -> None:
        """Removes a node."""
        self._cluster.remove_node(name)
        self._nodes_changed(name)

    def _nodes_changed(self, name: str) -> None:
        if self._reservation is not None and self._reservation.has_node(name):
            self._reservation = None
        for equivalence_class in self._equivalence_classes.values():
            equivalence_class.static_mismatches.clear()
            equivalence_class.is_unsatisfiable = False
        self._reactivate_all()

    def add_pending(self, pod: PodInfo, priority: int, queued_at: float) -> None:
        """Adds or updates a pending pod. Has no effect if nothing changed."""
        assumed = self._assumed.get(pod.key)
        if assumed is not None and assumed.pod.uid == pod.uid:
            return
        current = self._pending.get(pod.key)
        if current is not None and current.pod.uid == pod.uid:
            if current.priority == priority and _same_requirements(current.pod, pod):
                return
            queued_at = current.queued_at
        self.remove_pod(pod.key)
        self._last_sequence_number += 1
        self._admit(QueuedPod(pod, priority, queued_at, self._last_sequence_number))

    def _admit(self, queued: QueuedPod) -> None:
        self._pending[queued.pod.key] = queued
        self._unreported[queued] = None
        if queued.pod.gang is None:
            self._enqueue(SchedulingUnit((queued,)))
        else:
            self._gangs.pod_pending(queued, queued.pod.gang)

    def _enqueue(self, unit: SchedulingUnit) -> None:
        key = equivalence_key(unit)
        equivalence_class = self._equivalence_classes.get(key)
        if equivalence_class is None:
            equivalence_class = self._equivalence_classes[key] = EquivalenceClass(key)
            for requirements in key.all_requirements:
                self._cluster.affinity_counts.track(requirements.terms)
                if requirements.affinity:
                    self._with_affinity[equivalence_class] = None
        equivalence_class.add(unit)
        for member in unit.members:
            self._queued[member.pod.key] = unit, equivalence_class

    def is_known(self, pod: Object, node: str) -> bool:
        """Whether the pod has been observed on that node in the same state."""
        key, meta = key_of(pod), pod["metadata"]
        info = self._cluster.pod(key)
        return (
            info is not None
            and info.uid == meta["uid"]
            and info.terminating == is_deleted(pod)
            and info.labels == (meta.get("labels") or {})
            and self._cluster.assigned_node(key) == node
            and key not in self._assumed
        )

    def pod_bound(self, pod: PodInfo, node: str) -> None:
        """Records that the pod runs on the node."""
        assumed = self._assumed.pop(pod.key, None)
        if (
            assumed is not None
            and self._cluster.assigned_node(pod.key) == node
            and _same_pod(assumed.pod, pod)
        ):
            return
        self._remove_pending(pod.key)
        self._release(pod.key)
        self._assign(pod, node)
        self._gangs.pod_scheduled(pod)

    def remove_pod(self, key: Key) -> None:
        """Removes a pod that was deleted or no longer needs a node."""
        self._assumed.pop(key, None)
        self._remove_pending(key)
        self._release(key)
        self._gangs.remove_pod(key)

    def pod_completed(self, key: Key, gang: GangMembership | None) -> None:
        """Removes a terminated pod. It still counts as a scheduled member of its gang."""
        self.remove_pod(key)
        if gang is not None:
            self._gangs.add_scheduled(key, gang)

    def forget_assumed(self, pod: PodInfo) -> None:
        """Makes the pod pending again after a failed binding, unless the binding was observed."""
        queued = self._assumed.get(pod.key)
        if queued is not None and queued.pod is pod:
            self.remove_pod(pod.key)
            self._admit(queued)

    def _release(self, key: Key) -> None:
        """Releases the resources of the pod."""
        if self._cluster.remove_pod(key) is not None:
            if self._reservation is not None:
                self._reservation.pod_removed(key)
            self._reactivate_all()

    def _assign(self, pod: PodInfo, node: str) -> None:
        self._cluster.assign(pod, node)
        if self._reservation is not None:
            self._reservation.pod_assigned(pod, node)
        for equivalence_class in self._with_affinity:
            # The pod may satisfy the affinity of pending pods.
            terms = (
                term
                for requirements in equivalence_class.key.all_requirements
                for term in requirements.affinity
            )
            if any(term.selector.matches(pod.key[0], pod.labels) for term in terms):
                equivalence_class.reactivate()

    def _remove_pending(self, key: Key) -> None:
        queued = self._pending.pop(key, None)
        if queued is not None:
            self._unreported.pop(queued, None)
            self._dequeue(key)

    def _dequeue(self, key: Key) -> None:
        """Removes the unit of that pod. The other members can form a new one."""
        queued = self._queued.get(key)
        if queued is None:
            return
        unit, equivalence_class = queued
        equivalence_class.remove(unit)
        gang = self._gangs.gang(key)
        for member in unit.members:
            del self._queued[member.pod.key]
            if gang is not None:
                gang.units.pop(member.pod.key, None)
        if not equivalence_class:
            del self._equivalence_classes[equivalence_class.key]
            self._with_affinity.pop(equivalence_class, None)
            for requirements in equivalence_class.key.all_requirements:
                self._cluster.affinity_counts.untrack(requirements.terms)
        if self._reservation is not None and self._reservation.unit is unit:
            self._reservation = None
            self._reactivate_all()

    def _reactivate_all(self) -> None:
        for equivalence_class in self._equivalence_classes.values():
            equivalence_class.reactivate()

    def _update_gang_units(self) -> None:
        """Updates the scheduling units of gangs that changed."""
        for gang in self._gangs.take_changed():
            phase = gang.current_phase()
            if phase is not gang.phase or not phase.one_by_one:
                for key in list(gang.units):
                    self._dequeue(key)
            gang.phase = phase
            for unit in list(new_units(gang)):
                self._enqueue(unit)
                gang.units.update((member.pod.key, unit) for member in unit.members)

    # Decisions.

    def schedule(self, now: float, limit: int) -> Sequence[Binding]:
        """
        Returns about *limit* bindings; fewer if no other pod can be scheduled now.

        All bindings of a gang are returned together, even beyond the limit.
        """
        bindings: list[Binding] = []
        self._schedule_pass(bindings, limit)
        while len(bindings) < limit and self._update_reservation(now):
            self._schedule_pass(bindings, limit)
        return bindings

    def _schedule_pass(self, bindings: list[Binding], limit: int) -> None:
        """Schedules active classes until *bindings* has *limit* bindings."""
        while len(bindings) < limit and (active := self._active_classes()):
            while active and len(bindings) < limit:
                _, equivalence_class = heappop(active)
                unit = equivalence_class.next_unit()
                if unit is None:
                    continue
                try:
                    if assignment := self._find_nodes(unit, equivalence_class):
                        bindings += self._assume(unit, assignment)
                except Exception as error:  # an invalid pod must not block the others
                    key = unit.members[0].pod.key
                    object_errors.record(COMPONENT, PODS.plural, key, error)
                    equivalence_class.defer(unit, f"invalid pod: {error}")
                if (
                    equivalence_class.rejection is None
                    and (following := equivalence_class.next_unit()) is not None
                ):
                    heappush(active, (following.rank, equivalence_class))

    def _active_classes(self) -> list[tuple[Rank, EquivalenceClass]]:
        """Returns the heap of classes that can be scheduled."""
        self._update_gang_units()
        candidates = (
            (equivalence_class.next_unit(), equivalence_class)
            for equivalence_class in self._equivalence_classes.values()
            if equivalence_class.rejection is None
        )
        active = [
            (unit.rank, equivalence_class) for unit, equivalence_class in candidates if unit is not None
        ]
        heapify(active)
        return active

    def _find_nodes(self, unit: SchedulingUnit, equivalence_class: EquivalenceClass) -> Assignment:
        """Returns nodes for the unit, or records the rejection and returns nothing."""
        placement = PlacementSearch(self._cluster, self._reservation, equivalence_class).find(unit)
        if placement.assignment:
            return placement.assignment
        if placement.depends_on_pod_labels:
            equivalence_class.defer(unit, placement.rejection)
        else:
            equivalence_class.rejection = placement.rejection
        return {}

    def _assume(self, unit: SchedulingUnit, assignment: Assignment) -> list[Binding]:
        assumed: list[Binding] = []
        for member in unit.members:
            pod = member.pod
            node = assignment.get(pod.key)
            if node is not None:
                self._remove_pending(pod.key)
                self._assumed[pod.key] = member
                self._assign(pod, node)
                self._gangs.pod_scheduled(pod)
                assumed.append(Binding(pod, node))
        return assumed

    def _update_reservation(self, now: float) -> bool:
        """Reserves capacity for the first overdue unit. Returns whether other pods can be scheduled again."""
        reservation = self._reservation
        for unit, equivalence_class in self._overdue(now):
            if reservation is not None and reservation.unit is unit:
                replacement = (
                    move_reservation(reservation, self._cluster, now, self._reserve_after)
                    if now >= reservation.review_at
                    else None
                )
            else:
                replacement = reserve(unit, self._cluster, now, self._reserve_after)
                if replacement is None:
                    # Affinity can still be satisfied by another pod; resources of empty nodes do not grow.
                    equivalence_class.is_unsatisfiable = equivalence_class not in self._with_affinity
                    continue
            if replacement is None:
                return False
            self._reservation = replacement
            if reservation is not None:
                self._reactivate_all()
            return reservation is not None
        return False

    def _overdue(self, now: float) -> list[tuple[SchedulingUnit, EquivalenceClass]]:
        """Returns of each class the longest waiting unit if it is overdue, by rank."""
        candidates = (
            (equivalence_class.longest_waiting(), equivalence_class)
            for equivalence_class in self._equivalence_classes.values()
            if not equivalence_class.is_unsatisfiable
        )
        late = [
            (unit, equivalence_class)
            for unit, equivalence_class in candidates
            if unit.queued_at + self._reserve_after <= now
        ]
        return sorted(late, key=lambda found: found[0].rank)

    def next_decision_at(self, now: float) -> float | None:
        """Returns the time of the next decision if nothing changes, or None."""
        times = [
            equivalence_class.longest_waiting().queued_at + self._reserve_after
            for equivalence_class in self._equivalence_classes.values()
        ]
        if self._reservation is not None:
            times.append(self._reservation.review_at)
        return min((time for time in times if time > now), default=None)

    # Reports.

    def unschedulable_reason(self, key: Key) -> str | None:
        """Returns the reason why the pod has no node; None if it was not checked yet or has a node."""
        queued = self._queued.get(key)
        if queued is not None:
            return queued[1].rejection_of(queued[0])
        gang = self._gangs.gang(key) if key in self._pending else None
        return gang.message() if gang is not None else None

    def exceeds_capacity(self, key: Key) -> bool:
        """Whether the pending pod requests more of a resource than any node has, even if it were empty."""
        queued, nodes = self._pending.get(key), self._cluster.nodes.values()
        if queued is None or not nodes:
            return False
        return any(
            amount > max(node.attributes.allocatable.get(name, 0) for node in nodes)
            for name, amount in queued.pod.requirements.requests.items()
        )

    def take_newly_rejected(self) -> Iterator[Key]:
        """Yields pods that were rejected for the first time since the last call."""
        rejected = [
            queued
            for queued in self._unreported
            if queued.pod.key in self._queued and self.unschedulable_reason(queued.pod.key) is not None
        ]
        for queued in rejected:
            del self._unreported[queued]
            yield queued.pod.key

    def pending(self) -> Iterator[Key]:
        """Iterates over all pending pods."""
        return iter(self._pending)


def _same_requirements(first: PodInfo, second: PodInfo) -> bool:
    return (
        first.requirements is second.requirements
        and first.labels == second.labels
        and first.gang == second.gang
    )


def _same_pod(first: PodInfo, second: PodInfo) -> bool:
    return (
        first.uid == second.uid and first.labels == second.labels and first.terminating == second.terminating
    )
