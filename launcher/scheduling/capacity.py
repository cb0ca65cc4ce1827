"""
Checks whether a set of pods fits the nodes of a cluster at once, by simulating a scheduler.

Pods are assigned by dominant share, the largest first, each to the least used of some feasible nodes. If all pods fit
here, a scheduler that uses this order is likely to find nodes too. Only requests, ports, labels, taints and affinity
are checked; volumes, for example, are not.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo, node_attributes
from launcher.scheduling.feasibility import (
    affinity_filter_for,
    insufficient_resources,
    is_overcommitted,
    static_mismatch,
    unschedulable_message,
)
from launcher.scheduling.pod_info import pod_info
from launcher.scheduling.pod_requirements import PodRequirements
from launcher.scheduling.scoring import highest_scoring
from launcher.store.interface import Key, Object, key_of

#: Number of feasible nodes that are scored per pod. Scoring all of a thousand nodes for each of many pods is slow.
_MAX_CANDIDATES: Final = 16


class ClusterCapacity:
    """Nodes of a cluster and the resources in use."""

    def __init__(self) -> None:
        self._cluster = ClusterState()
        #: Start of the next search, so that pods are spread over all nodes.
        self._next = 0
        #: Pods with a reservation and no observed node yet.
        self._reserved: dict[Key, PodInfo] = {}
        #: Whether anything changed since reserved pods without a simulated node were last assigned.
        self._has_changed = False

    def set_node(self, node: Object) -> None:
        """Adds or updates a node. Raises ValueError for an invalid one, which then has no capacity."""
        name = node["metadata"]["name"]
        try:
            attributes = node_attributes(node)
        except ValueError:
            self.remove_node(name)
            raise
        if self._cluster.set_node(attributes):
            self._node_changed(name)

    def remove_node(self, name: str) -> None:
        """Removes a node."""
        self._unassign([key for key in self._reserved if self._cluster.assigned_node(key) == name])
        self._cluster.remove_node(name)

    def add_pod(self, pod: Object) -> None:
        """Records that the pod uses resources of the node in its spec. Raises ValueError for an invalid one."""
        key, node = key_of(pod), pod["spec"]["nodeName"]
        self._reserved.pop(key, None)
        current = self._cluster.pod(key)
        if (
            current is not None
            and current.uid == pod["metadata"]["uid"]
            and self._cluster.assigned_node(key) == node
        ):
            return
        self._cluster.remove_pod(key)
        try:
            self._cluster.assign(pod_info(pod), node)
        finally:
            self._node_changed(node)

    def remove_pod(self, key: Key) -> None:
        """Removes the pod and its reservation."""
        self._reserved.pop(key, None)
        self._has_changed |= self._cluster.remove_pod(key) is not None

    def reserve(self, pods: Sequence[Object], minimum: int) -> str | None:
        """
        Reserves capacity for at least *minimum* of these pods, and for the others that fit. Returns None.

        If fewer fit, reserves nothing and returns the reason. A reservation is held until ``add_pod`` or
        ``remove_pod``.
        """
        try:
            unassigned = [pod for pod in map(pod_info, pods) if not self._has_node(pod)]
        except ValueError as error:
            return f"Invalid pod: {error}"
        for pod in unassigned:
            self._reserved.pop(pod.key, None)
            self._cluster.remove_pod(pod.key)  # its earlier reservation must not count against it
        self._reassign()
        tentative = self._assign_all(unassigned)
        fitting = len(pods) - len(unassigned) + len(tentative.assigned)
        if fitting < minimum:
            tentative.undo()
            return f"Capacity for {fitting} of {len(pods)} tasks (minTasks {minimum}): {tentative.rejection}"
        self._reserved.update((pod.key, pod) for pod in unassigned)
        return None

    def _has_node(self, pod: PodInfo) -> bool:
        """Whether ``add_pod`` was called for the pod."""
        current = self._cluster.pod(pod.key)
        return current is not None and current.uid == pod.uid and pod.key not in self._reserved

    def _node_changed(self, name: str) -> None:
        """
        Reassigns reservations on a node that changed or whose pods changed, if the node is now overcommitted.

        A pod may be bound to another node than the simulated one and use capacity that another pod has reserved. The
        simulated node of the first then serves the second, unless that was assigned elsewhere.
        """
        self._has_changed = True
        node = self._cluster.nodes.get(name)
        if self._cluster.affinity_counts:
            self._unassign([*self._reserved])  # affinity may have changed on all nodes
        elif node is not None and is_overcommitted(node):
            self._unassign([key for key in node.pods if key in self._reserved])

    def _unassign(self, keys: Iterable[Key]) -> None:
        """Removes the simulated nodes of reserved pods."""
        for key in keys:
            self._cluster.remove_pod(key)
            self._has_changed = True

    def _reassign(self) -> None:
        """Assigns reserved pods without a simulated node, before any new pod."""
        if self._has_changed:
            self._assign_all([pod for key, pod in self._reserved.items() if self._cluster.pod(key) is None])
            self._has_changed = False

    def _assign_all(self, pods: Sequence[PodInfo]) -> "_TentativeAssignment":
        tentative = _TentativeAssignment(self._cluster, self._next)
        shares = {
            requirements: self._dominant_share(requirements)
            for requirements in {pod.requirements for pod in pods}
        }
        for pod in sorted(pods, key=lambda pod: (-shares[pod.requirements], pod.key)):
            tentative.assign(pod)
        self._next = tentative.next
        return tentative

    def _dominant_share(self, requirements: PodRequirements) -> float:
        """Returns the largest share of any resource of the whole cluster."""
        return max(amount / (self._total(name) or 1) for name, amount in requirements.requests.items())

    def _total(self, resource: str) -> int:
        return sum(node.attributes.allocatable.get(resource, 0) for node in self._cluster.nodes.values())


class _TentativeAssignment:
    """Assignments to simulated nodes that can be reverted."""

    def __init__(self, cluster: ClusterState, first: int) -> None:
        self._cluster = cluster
        self._nodes = list(cluster.nodes.values())
        self.next = first
        self.assigned: list[PodInfo] = []
        #: The reason why the first rejected pod has no node.
        self.rejection = ""
        #: Nodes that may still have capacity for these requirements. Capacity only shrinks, so full nodes are
        #: dropped.
        self._candidates: dict[PodRequirements, deque[NodeInfo]] = {}
        #: Requirements that no node can satisfy any more.
        self._unsatisfiable: set[PodRequirements] = set()

    def assign(self, pod: PodInfo) -> None:
        """Assigns the pod to a feasible node, if there is one."""
        requirements = pod.requirements
        self._cluster.affinity_counts.track(requirements.terms)
        try:
            if requirements in self._unsatisfiable:
                return
            fitting = list(self._feasible_nodes(pod))
            if fitting:
                self._cluster.assign(pod, highest_scoring(pod, fitting, self._cluster).attributes.name)
                self.assigned.append(pod)
                return
            self.rejection = self.rejection or self._unschedulable_message(pod)
            if not requirements.affinity:  # its affinity may be satisfied by a later pod
                self._unsatisfiable.add(requirements)
        finally:
            self._cluster.affinity_counts.untrack(requirements.terms)

    def _feasible_nodes(self, pod: PodInfo) -> Iterator[NodeInfo]:
        """Yields some feasible nodes."""
        requirements = pod.requirements
        nodes = self._candidates.get(requirements)
        if nodes is None:
            nodes = self._candidates[requirements] = deque(
                node for node in self._nodes if static_mismatch(requirements, node.attributes) is None
            )
            nodes.rotate(-self.next)
        affinity_filter = affinity_filter_for(pod, self._cluster)
        count = 0
        for _ in range(len(nodes)):
            node = nodes.popleft()
            if insufficient_resources(requirements, node):
                continue
            # Rotated to the end, so that the next pod starts with other nodes.
            nodes.append(node)
            if affinity_filter is None or affinity_filter.mismatch(node.attributes) is None:
                yield node
                count += 1
                if count == _MAX_CANDIDATES:
                    break
        self.next += count

    def _unschedulable_message(self, pod: PodInfo) -> str:
        affinity_filter = affinity_filter_for(pod, self._cluster)
        reasons: list[str] = []
        for node in self._nodes:
            mismatch = static_mismatch(pod.requirements, node.attributes)
            if mismatch is None and affinity_filter is not None:
                mismatch = affinity_filter.mismatch(node.attributes)
            reasons += insufficient_resources(pod.requirements, node) if mismatch is None else [mismatch]
        return f"pod {pod.key[1]}: {unschedulable_message(len(self._nodes), reasons)}"

    def undo(self) -> None:
        for pod in self.assigned:
            self._cluster.remove_pod(pod.key)
