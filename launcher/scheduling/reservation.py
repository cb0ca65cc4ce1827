"""Capacity reserved for one overdue scheduling unit, so that smaller units do not starve it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.scheduling.bin_packing import Assignment, has_affinity, largest_first, pack_pods
from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.feasibility import (
    AFFINITY_MISMATCH,
    AffinityFilter,
    anti_affinity_conflict,
    insufficient_resources,
    static_mismatch,
)
from launcher.scheduling.scheduling_queue import QueuedPod, SchedulingUnit
from launcher.store.interface import Key


@dataclass(slots=True, eq=False)
class Reservation:
    """
    Nodes on which a unit will fit once enough of the pods there have terminated.

    Other pods are admitted only if the unit still fits beside them: *planned* contains the unit and the pods admitted
    since. When all pods that ran there before have terminated, the unit fits.
    """

    unit: SchedulingUnit
    assignment: Assignment
    #: The reserved nodes with only the unit on them.
    claims: Mapping[str, NodeInfo]
    planned: Mapping[str, NodeInfo]
    #: When to check whether other nodes would be free earlier.
    review_at: float
    #: Number of moves so far.
    moves: int = 0
    _own_keys: frozenset[Key] = field(init=False)
    _assigned_pods: tuple[tuple[PodInfo, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._own_keys = frozenset(member.pod.key for member in self.unit.members)
        self._assigned_pods = tuple(
            (member.pod, self.assignment[member.pod.key])
            for member in self.unit.members
            if member.pod.key in self.assignment
        )

    def has_node(self, node: str) -> bool:
        """Whether the reservation includes that node."""
        return node in self.claims

    def lacks_capacity(self, pod: PodInfo, priority: int, node: NodeInfo) -> bool:
        """Whether the pod would use reserved capacity of the node."""
        planned = self.planned.get(node.attributes.name)
        if planned is None or self._does_not_apply_to(pod, priority):
            return False
        return bool(insufficient_resources(pod.requirements, planned))

    def conflicts(self, pod: PodInfo, priority: int, node: NodeInfo) -> bool:
        """Whether anti-affinity excludes the pod from the node once the unit runs."""
        if self._does_not_apply_to(pod, priority):
            return False
        return any(
            anti_affinity_conflict(own, self.claims[claimed].attributes, pod, node.attributes)
            for own, claimed in self._assigned_pods
            if own.requirements.anti_affinity or pod.requirements.anti_affinity
        )

    def _does_not_apply_to(self, pod: PodInfo, priority: int) -> bool:
        return pod.key in self._own_keys or priority > self.unit.priority

    def pod_assigned(self, pod: PodInfo, node: str) -> None:
        planned = self.planned.get(node)
        if (
            planned is not None
            and pod.key not in self._own_keys
            and not insufficient_resources(pod.requirements, planned)
        ):
            planned.add_pod(pod)

    def pod_removed(self, key: Key) -> None:
        for planned in self.planned.values():
            if key in planned.pods and key not in self._own_keys:
                planned.remove_pod(key)


def reserve(
    unit: SchedulingUnit, cluster: ClusterState, now: float, reserve_after: float
) -> Reservation | None:
    """Reserves the nodes where the least has to terminate; None if the unit does not fit even on empty nodes."""
    assignment = earliest_assignment(unit, cluster)
    if assignment is None:
        return None
    claims, planned = _claims(unit, assignment, cluster), _claims(unit, assignment, cluster)
    return Reservation(unit, assignment, claims, planned, review_at=now + reserve_after)


def move_reservation(
    reservation: Reservation, cluster: ClusterState, now: float, reserve_after: float
) -> Reservation | None:
    """
    Returns a reservation of other nodes if they would be free much earlier, otherwise None.

    Each move doubles the time until the next, so that the unit finally keeps its nodes and gets them when pods there
    terminate.
    """
    replacement = reserve(reservation.unit, cluster, now, reserve_after * 2 ** (reservation.moves + 1))
    if (
        replacement is None
        or 2 * _blocking_share(replacement.claims, cluster) > _blocking_share(reservation.claims, cluster)
        or _same_nodes(reservation, replacement)
    ):
        reservation.review_at = now + reserve_after * 2**reservation.moves
        return None
    replacement.moves = reservation.moves + 1
    return replacement


def _same_nodes(reservation: Reservation, replacement: Reservation) -> bool:
    return reservation.claims.keys() == replacement.claims.keys()


def earliest_assignment(unit: SchedulingUnit, cluster: ClusterState) -> Assignment | None:
    """Returns the nodes where the least has to terminate; None if the unit does not fit on empty nodes."""
    assignment = _greedy(unit, cluster)
    if len(assignment) >= unit.min_members:
        return assignment
    if len(unit.members) == 1 or has_affinity(unit):
        return None
    empty = [NodeInfo(node.attributes) for node in cluster.nodes.values()]
    return pack_pods(
        unit,
        empty,
        lambda member, node: static_mismatch(member.pod.requirements, node.attributes) is None,
        {},
    )


def _greedy(unit: SchedulingUnit, cluster: ClusterState) -> Assignment:
    """Assigns pods one after the other, each to the node where the least has to terminate."""
    empty_cluster = _EmptyCluster(unit, cluster)
    assignment: dict[Key, str] = {}
    for member in largest_first(unit, (node.attributes for node in cluster.nodes.values())):
        if (
            len(assignment) < unit.min_members
            and (node := empty_cluster.earliest_assignment(member)) is not None
        ):
            assignment[member.pod.key] = node
    return assignment


class _EmptyCluster:
    """The cluster with only the unit's pods, and the cost of reaching that state."""

    def __init__(self, unit: SchedulingUnit, cluster: ClusterState) -> None:
        self._real_cluster, self._cluster = cluster, ClusterState()
        for node in cluster.nodes.values():
            self._cluster.set_node(node.attributes)
        for member in unit.members:
            self._cluster.affinity_counts.track(member.pod.requirements.terms)
        self._without_terminating = {name: _without_terminating(node) for name, node in cluster.nodes.items()}

    def earliest_assignment(self, member: QueuedPod) -> str | None:
        """Assigns the pod and returns its node, or None if no node is feasible."""
        pod = member.pod
        own_filter, real_filter = AffinityFilter(pod, self._cluster), AffinityFilter(pod, self._real_cluster)
        possible = [
            node
            for node in self._cluster.nodes.values()
            if static_mismatch(pod.requirements, node.attributes) is None
            and not insufficient_resources(pod.requirements, node)
            # Its affinity may be satisfied by a pod of its unit or by one that runs already.
            and (mismatch := own_filter.mismatch(node.attributes)) in (None, AFFINITY_MISMATCH)
            and (mismatch is None or real_filter.mismatch(node.attributes) != AFFINITY_MISMATCH)
        ]
        if not possible:
            return None
        node = min(possible, key=lambda node: (self._cost(pod, node), node.attributes.name))
        self._cluster.assign(pod, node.attributes.name)
        return node.attributes.name

    def _cost(self, pod: PodInfo, node: NodeInfo) -> float:
        """Returns how much more has to terminate on the node if this pod is added."""
        remaining = self._without_terminating[node.attributes.name]
        before = _overcommitted_share(node, remaining)
        node.add_pod(pod)
        after = _overcommitted_share(node, remaining)
        node.remove_pod(pod.key)
        return after - before


def _claims(unit: SchedulingUnit, assignment: Assignment, cluster: ClusterState) -> dict[str, NodeInfo]:
    claims: dict[str, NodeInfo] = {}
    for member in unit.members:
        name = assignment.get(member.pod.key)
        if name is not None:
            claims.setdefault(name, NodeInfo(cluster.nodes[name].attributes)).add_pod(member.pod)
    return claims


def _blocking_share(claims: Mapping[str, NodeInfo], cluster: ClusterState) -> float:
    """Returns how much has to terminate before the unit fits, in shares of nodes."""
    return sum(
        _overcommitted_share(claim, _without_terminating(cluster.nodes[name]))
        for name, claim in claims.items()
    )


def _without_terminating(node: NodeInfo) -> NodeInfo:
    """Returns the node without its terminating pods."""
    remaining = NodeInfo(node.attributes)
    for pod in node.pods.values():
        if not pod.terminating:
            remaining.add_pod(pod)
    return remaining


def _overcommitted_share(claim: NodeInfo, remaining: NodeInfo) -> float:
    """Returns the share by which both together exceed the node."""
    share = 0.0
    for name, amount in claim.used.items():
        if allocatable := claim.attributes.allocatable.get(name, 0):
            share += max(0, remaining.used.get(name, 0) + amount - allocatable) / allocatable
    if any(taken.conflicts_with(port) for port in claim.ports for taken in remaining.ports):
        share += 1.0
    return share
