"""Checks whether a pod fits a node. Reasons have kube-scheduler's wording."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from launcher.core.pods.resource_requests import PODS_RESOURCE
from launcher.scheduling.affinity import PodTerm
from launcher.scheduling.affinity_counts import AffinityCounts, NodeCounts
from launcher.scheduling.cluster_state import ClusterState, NodeAttributes, NodeInfo, PodInfo, Taint
from launcher.scheduling.pod_requirements import PodRequirements

UNSCHEDULABLE: Final = "node(s) were unschedulable"
NODE_AFFINITY_MISMATCH: Final = "node(s) didn't match Pod's node affinity/selector"
PORTS_TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"
AFFINITY_MISMATCH: Final = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY_MISMATCH: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
TOO_MANY_PODS: Final = "Too many pods"
#: Only this launcher has reservations; kube-scheduler has no such reason.
RESERVED: Final = "node(s) reserved for a pod that has waited longer"

_UNSCHEDULABLE_TAINT: Final = ("node.kubernetes.io/unschedulable", "", "NoSchedule")


def static_mismatch(requirements: PodRequirements, attributes: NodeAttributes) -> str | None:
    """Returns the reason why the pod could not run on the node even if it were empty, or None."""
    if is_cordoned(requirements, attributes):
        return UNSCHEDULABLE
    if (taint := untolerated_taint(requirements, attributes)) is not None:
        return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return None if selects_node(requirements, attributes) else NODE_AFFINITY_MISMATCH


def is_cordoned(requirements: PodRequirements, attributes: NodeAttributes) -> bool:
    """Whether the node accepts no new pods, and the pod does not tolerate that."""
    return attributes.unschedulable and not _tolerates(requirements, *_UNSCHEDULABLE_TAINT)


def untolerated_taint(requirements: PodRequirements, attributes: NodeAttributes) -> Taint | None:
    """Returns the first taint of the node that excludes the pod, or None."""
    for taint in attributes.taints:
        if taint.effect != "PreferNoSchedule" and not _tolerates(
            requirements, taint.key, taint.value, taint.effect
        ):
            return taint
    return None


def selects_node(requirements: PodRequirements, attributes: NodeAttributes) -> bool:
    """Whether the node matches the pod's nodeSelector and required nodeAffinity."""
    if any(attributes.labels.get(key) != value for key, value in requirements.node_selector.items()):
        return False
    return requirements.node_affinity is None or any(
        term.matches(attributes.name, attributes.labels) for term in requirements.node_affinity
    )


def _tolerates(requirements: PodRequirements, key: str, value: str, effect: str) -> bool:
    return any(toleration.covers(key, value, effect) for toleration in requirements.tolerations)


def insufficient_resources(requirements: PodRequirements, node: NodeInfo) -> Sequence[str]:
    """Returns the reasons why the node has too little free, empty if the pod fits."""
    used, allocatable = node.used, node.attributes.allocatable
    if node.ports and requirements.ports and not _ports_free(requirements, node):
        return (PORTS_TAKEN,)
    insufficient: list[str] = []
    for name, amount in requirements.requests.items():
        if used.get(name, 0) + amount > allocatable.get(name, 0):
            insufficient.append(TOO_MANY_PODS if name == PODS_RESOURCE else f"Insufficient {name}")
    return insufficient


def is_overcommitted(node: NodeInfo) -> bool:
    """Whether the pods on the node use more than it has; each may have been assigned without the others."""
    allocatable = node.attributes.allocatable
    return any(amount > allocatable.get(name, 0) for name, amount in node.used.items()) or any(
        count > 1 for count in node.ports.values()
    )


def _ports_free(requirements: PodRequirements, node: NodeInfo) -> bool:
    return not any(taken.conflicts_with(port) for port in requirements.ports for taken in node.ports)


class AffinityFilter:
    """Inter-pod affinity check of one pod, computed once for all nodes."""

    def __init__(self, pod: PodInfo, cluster: ClusterState) -> None:
        """The terms of *pod* must be tracked."""
        namespace, labels, affinity_counts = pod.key[0], pod.labels, cluster.affinity_counts
        self._affinity = [
            (
                term.topology_key,
                _topology_values(affinity_counts.matching(term.selector), term.topology_key, cluster),
            )
            for term in pod.requirements.affinity
            if not _is_first(term, namespace, labels, affinity_counts)
        ]
        # A pod that matches its own affinity term may start a new topology domain, on any node with that label.
        self._topology_keys = [term.topology_key for term in pod.requirements.affinity]
        self._anti_affinity = [
            (
                term.topology_key,
                _topology_values(affinity_counts.matching(term.selector), term.topology_key, cluster),
            )
            for term in pod.requirements.anti_affinity
        ]
        self._existing_anti_affinity = [
            (topology_key, _topology_values(nodes, topology_key, cluster))
            for topology_key, nodes in affinity_counts.existing_anti_affinity(namespace, labels)
            if nodes
        ]

    def mismatch(self, attributes: NodeAttributes) -> str | None:
        """Returns the reason why the pod may not run on the node, or None."""
        labels = attributes.labels
        if not all(topology_key in labels for topology_key in self._topology_keys):
            return AFFINITY_MISMATCH
        if not all(labels[topology_key] in values for topology_key, values in self._affinity):
            return AFFINITY_MISMATCH
        if any(labels.get(topology_key) in values for topology_key, values in self._anti_affinity):
            return ANTI_AFFINITY_MISMATCH
        if any(labels.get(topology_key) in values for topology_key, values in self._existing_anti_affinity):
            return EXISTING_ANTI_AFFINITY
        return None


def affinity_filter_for(pod: PodInfo, cluster: ClusterState) -> AffinityFilter | None:
    """Returns the filter for the pod, or None if neither it nor any other pod has affinity terms."""
    return (
        AffinityFilter(pod, cluster)
        if cluster.affinity_counts or pod.requirements.affinity or pod.requirements.anti_affinity
        else None
    )


def _is_first(
    term: PodTerm, namespace: str, labels: Mapping[str, str], affinity_counts: AffinityCounts
) -> bool:
    return not affinity_counts.matching(term.selector) and term.selector.matches(namespace, labels)


def _topology_values(nodes: NodeCounts, topology_key: str, cluster: ClusterState) -> frozenset[str]:
    """Returns the values of that label on these nodes."""
    existing = (cluster.nodes.get(name) for name in nodes)
    values = (node.attributes.labels.get(topology_key) for node in existing if node is not None)
    return frozenset(value for value in values if value is not None)


def anti_affinity_conflict(
    first: PodInfo, first_node: NodeAttributes, second: PodInfo, second_node: NodeAttributes
) -> bool:
    """Whether anti-affinity of either pod excludes the other, on these nodes."""
    return _anti_affinity_matches(first, first_node, second, second_node) or _anti_affinity_matches(
        second, second_node, first, first_node
    )


def _anti_affinity_matches(
    first: PodInfo, first_node: NodeAttributes, second: PodInfo, second_node: NodeAttributes
) -> bool:
    return any(
        term.selector.matches(second.key[0], second.labels)
        and term.topology_key in first_node.labels
        and first_node.labels[term.topology_key] == second_node.labels.get(term.topology_key)
        for term in first.requirements.anti_affinity
    )


def unschedulable_message(nodes: int, reasons: Iterable[str]) -> str:
    """Returns ``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had …`` from all reasons of all nodes."""
    if not nodes:
        return "no nodes available to schedule pods"
    counts = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(counts)}."
