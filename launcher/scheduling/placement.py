"""Searches nodes for a scheduling unit, given the pods already assigned and the reservation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from launcher.scheduling.bin_packing import Assignment, has_affinity, largest_first, pack_pods
from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.feasibility import (
    EXISTING_ANTI_AFFINITY,
    RESERVED,
    affinity_filter_for,
    insufficient_resources,
    static_mismatch,
    unschedulable_message,
)
from launcher.scheduling.pod_requirements import PodRequirements
from launcher.scheduling.reservation import Reservation
from launcher.scheduling.scheduling_queue import EquivalenceClass, QueuedPod, SchedulingUnit
from launcher.scheduling.scoring import highest_scoring
from launcher.store.interface import Key

ChooseNode = Callable[[PodInfo, Sequence[NodeInfo]], NodeInfo | None]


@dataclass(slots=True)
class FeasibilityReport:
    """The nodes that a pod fits, and the reasons against the others."""

    fit: list[NodeInfo] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    #: A reason depends on this pod's labels, so other pods with equal requirements may still fit.
    depends_on_pod_labels: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes for a unit, or the reason why there are none."""

    assignment: Assignment = field(default_factory=dict)
    rejection: str = ""
    depends_on_pod_labels: bool = False


class PlacementSearch:
    """One search on the current cluster state and reservation, for a unit of an equivalence class."""

    def __init__(
        self, cluster: ClusterState, reservation: Reservation | None, equivalence_class: EquivalenceClass
    ) -> None:
        self._cluster, self._reservation = cluster, reservation
        self._mismatches, self._priority = equivalence_class.static_mismatches, equivalence_class.key.priority

    def find(self, unit: SchedulingUnit) -> Placement:
        """Finds nodes for at least ``min_members`` pods, or none. Leaves the cluster state unchanged."""
        if len(unit.members) > 1:
            return _GangPlacement(self, self._cluster, unit).find(self._reservation)
        member = unit.members[0]
        report = self.report(member)
        if report.fit:
            return Placement(
                {member.pod.key: highest_scoring(member.pod, report.fit, self._cluster).attributes.name}
            )
        return Placement(rejection=self.message(report), depends_on_pod_labels=report.depends_on_pod_labels)

    def message(self, report: FeasibilityReport) -> str:
        return unschedulable_message(len(self._cluster.nodes), report.reasons)

    def report(self, member: QueuedPod) -> FeasibilityReport:
        pod, reservation, report = member.pod, self._reservation, FeasibilityReport()
        affinity_filter = affinity_filter_for(pod, self._cluster)
        mismatches = self._static_mismatches(pod.requirements)
        for name, node in self._cluster.nodes.items():
            if (rejection := mismatches[name]) is not None:
                report.reasons.append(rejection)
            elif insufficient := insufficient_resources(pod.requirements, node):
                report.reasons += insufficient
            elif (
                affinity_filter is not None
                and (rejection := affinity_filter.mismatch(node.attributes)) is not None
            ):
                report.reasons.append(rejection)
                report.depends_on_pod_labels |= rejection == EXISTING_ANTI_AFFINITY
            elif reservation is not None and reservation.lacks_capacity(pod, self._priority, node):
                report.reasons.append(RESERVED)
            elif reservation is not None and reservation.conflicts(pod, self._priority, node):
                report.reasons.append(RESERVED)
                report.depends_on_pod_labels = True
            else:
                report.fit.append(node)
        return report

    def is_static_mismatch(self, requirements: PodRequirements, node: NodeInfo) -> bool:
        """Whether such a pod could not run on the node even if it were empty."""
        return self._static_mismatches(requirements)[node.attributes.name] is not None

    def _static_mismatches(self, requirements: PodRequirements) -> Mapping[str, str | None]:
        """Returns the static mismatch of every node; cached until nodes change."""
        mismatches = self._mismatches.get(requirements)
        if mismatches is None:
            nodes = self._cluster.nodes.items()
            mismatches = self._mismatches[requirements] = {
                name: static_mismatch(requirements, node.attributes) for name, node in nodes
            }
        return mismatches

    @contextmanager
    def tentative_assignments(self) -> Iterator[Callable[[PodInfo, str], None]]:
        """Yields a function that assigns pods; on exit all assignments are reverted."""
        assigned: list[Key] = []

        def assign(pod: PodInfo, node: str) -> None:
            assigned.append(pod.key)
            self._cluster.assign(pod, node)
            if self._reservation is not None:
                self._reservation.pod_assigned(pod, node)

        try:
            yield assign
        finally:
            for key in reversed(assigned):
                self._cluster.remove_pod(key)
                if self._reservation is not None:
                    self._reservation.pod_removed(key)


class _GangPlacement:
    """Tries several strategies to place a unit of more than one pod."""

    def __init__(self, search: PlacementSearch, cluster: ClusterState, unit: SchedulingUnit) -> None:
        self._search, self._cluster, self._unit = search, cluster, unit
        self._members = largest_first(unit, (node.attributes for node in cluster.nodes.values()))
        #: The report of the first member without a node.
        self._rejection: FeasibilityReport | None = None
        self._depends_on_pod_labels = False

    def find(self, reservation: Reservation | None) -> Placement:
        is_own = reservation is not None and reservation.unit is self._unit
        assignment = self._assign_members(lambda pod, fit: highest_scoring(pod, fit, self._cluster))
        count, rejection = len(assignment), self._rejection
        if not self._is_enough(assignment) and reservation is not None and is_own:
            assignment = self._assign_members(_fixed_choice(reservation.assignment))
        if not self._is_enough(assignment) and (
            packing := self._pack({} if reservation is None or is_own else reservation.planned)
        ):
            assignment = self._assign_members(_fixed_choice(packing))
        if self._is_enough(assignment):
            return Placement(assignment)
        return Placement(
            rejection=self._message(count, rejection), depends_on_pod_labels=self._depends_on_pod_labels
        )

    def _is_enough(self, assignment: Assignment) -> bool:
        return len(assignment) >= self._unit.min_members

    def _message(self, count: int, rejection: FeasibilityReport | None) -> str:
        min_members, total = self._unit.min_members, len(self._unit.members)
        minimum = "" if min_members == total else f" (minimum {min_members})"
        message = f"Gang of {total}{minimum}: {count} of {total} pods fit"
        return f"{message}; {self._search.message(rejection)}" if rejection is not None else f"{message}."

    def _pack(self, limits: Mapping[str, NodeInfo]) -> Assignment | None:
        """Assigns by exact bin packing. With equal requirements it would find no more than the greedy pass."""
        if len({member.pod.requirements for member in self._members}) == 1 or has_affinity(self._unit):
            return None
        nodes = list(self._cluster.nodes.values())
        return pack_pods(self._unit, nodes, self._is_allowed, limits)

    def _is_allowed(self, member: QueuedPod, node: NodeInfo) -> bool:
        affinity_filter = affinity_filter_for(member.pod, self._cluster)
        return not self._search.is_static_mismatch(member.pod.requirements, node) and (
            affinity_filter is None or affinity_filter.mismatch(node.attributes) is None
        )

    def _assign_members(self, choose: ChooseNode) -> Assignment:
        """Assigns members one after the other and returns all that fit."""
        assignment: dict[Key, str] = {}
        remaining = self._members
        with self._search.tentative_assignments() as assign:
            while remaining:
                unassigned = self._pass(remaining, choose, assign, assignment)
                # The affinity of a member may be satisfied by one assigned later.
                if len(unassigned) == len(remaining) or not any(
                    member.pod.requirements.affinity for member in unassigned
                ):
                    break
                remaining = unassigned
        return assignment

    def _pass(
        self,
        members: Sequence[QueuedPod],
        choose: ChooseNode,
        assign: Callable[[PodInfo, str], None],
        assignment: dict[Key, str],
    ) -> list[QueuedPod]:
        """Returns the members that were not assigned."""
        unassigned: list[QueuedPod] = []
        unsatisfiable: set[PodRequirements] = set()
        for member in members:
            pod = member.pod
            if pod.requirements in unsatisfiable:
                unassigned.append(member)
                continue
            report = self._search.report(member)
            node = choose(pod, report.fit) if report.fit else None
            if node is not None:
                assign(pod, node.attributes.name)
                assignment[pod.key] = node.attributes.name
                continue
            unassigned.append(member)
            self._rejection = self._rejection or report
            self._depends_on_pod_labels |= report.depends_on_pod_labels
            if not report.fit and not report.depends_on_pod_labels:
                unsatisfiable.add(pod.requirements)
        return unassigned


def _fixed_choice(assignment: Assignment) -> ChooseNode:
    """Returns a function that chooses the node of *assignment*, if it is feasible."""

    def choose(pod: PodInfo, fit: Sequence[NodeInfo]) -> NodeInfo | None:
        return next((node for node in fit if node.attributes.name == assignment.get(pod.key)), None)

    return choose
