"""Selects the best of the feasible nodes. Deterministic for the same pods in the same order."""

from collections.abc import Mapping, Sequence
from typing import Final

from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.pod_requirements import PodRequirements

#: Weights of kube-scheduler; each kind of score is between 0 and 100.
_NODE_AFFINITY: Final = 2
_TAINTS: Final = 3
_POD_AFFINITY: Final = 2
_SPREAD: Final = 2
#: Smaller differences are rounding errors.
_TOLERANCE: Final = 1e-6


def highest_scoring(pod: PodInfo, nodes: Sequence[NodeInfo], cluster: ClusterState) -> NodeInfo:
    """
    Returns the node with the highest score; the first by name if scores are equal. *nodes* are feasible and not
    empty.

    Scores: free cpu and memory and their balance, preferred nodes and pods, few untolerated PreferNoSchedule taints,
    few pods of the same group.
    """
    if len(nodes) == 1:
        return nodes[0]
    scores = [_resource_score(pod.requirements, node) for node in nodes]
    for weight, values in (
        (_NODE_AFFINITY, _preferred_node_weights(pod.requirements, nodes)),
        (_POD_AFFINITY, _preferred_pod_weights(pod.requirements, nodes, cluster)),
        (-_TAINTS, _untolerated_soft_taints(pod.requirements, nodes)),
        (-_SPREAD, _pods_of_group(pod, nodes, cluster)),
    ):
        if values is not None:
            _add_normalized(scores, weight, values)
    highest = max(scores) - _TOLERANCE
    best = [node for score, node in zip(scores, nodes, strict=True) if score >= highest]
    return min(best, key=lambda node: node.attributes.name)


def _add_normalized(scores: list[float], weight: int, values: Sequence[int]) -> None:
    """Adds values scaled to 0…100: the lowest adds nothing, the highest the whole weight."""
    minimum, maximum = min(values), max(values)
    if maximum > minimum:
        share = weight * 100 / (maximum - minimum)
        for index, value in enumerate(values):
            scores[index] += share * (value - minimum)


def _resource_score(requirements: PodRequirements, node: NodeInfo) -> float:
    """Returns the sum of LeastAllocated and BalancedAllocation, each up to 100."""
    allocatable, nonzero_requests, requested = (
        node.attributes.allocatable,
        node.nonzero_requests,
        requirements.nonzero_requests,
    )
    cpu = _share(nonzero_requests["cpu"] + requested["cpu"], allocatable.get("cpu", 0))
    memory = _share(nonzero_requests["memory"] + requested["memory"], allocatable.get("memory", 0))
    return 50 * (2 - cpu - memory) + 100 - 50 * abs(cpu - memory)


def _share(used: int, total: int) -> float:
    return min(used / total, 1.0) if total else 1.0


def _preferred_node_weights(requirements: PodRequirements, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
    if not requirements.preferred_nodes:
        return None
    return [
        sum(
            preferred.weight
            for preferred in requirements.preferred_nodes
            if preferred.term.matches(node.attributes.name, node.attributes.labels)
        )
        for node in nodes
    ]


def _preferred_pod_weights(
    requirements: PodRequirements, nodes: Sequence[NodeInfo], cluster: ClusterState
) -> Sequence[int] | None:
    """Sums the weights of preferred terms, once per matching pod in the same topology domain."""
    if not requirements.preferred_pods:
        return None
    weights = [0] * len(nodes)
    for preferred in requirements.preferred_pods:
        counts_by_value = _by_topology_value(
            cluster.affinity_counts.matching(preferred.term.selector), preferred.term.topology_key, cluster
        )
        for index, node in enumerate(nodes):
            weights[index] += preferred.weight * counts_by_value.get(
                node.attributes.labels.get(preferred.term.topology_key, ""), 0
            )
    return weights


def _by_topology_value(
    counts: Mapping[str, int], topology_key: str, cluster: ClusterState
) -> Mapping[str, int]:
    counts_by_value: dict[str, int] = {}
    for name, count in counts.items():
        node = cluster.nodes.get(name)
        if node is not None and topology_key in node.attributes.labels:
            value = node.attributes.labels[topology_key]
            counts_by_value[value] = counts_by_value.get(value, 0) + count
    return counts_by_value


def _untolerated_soft_taints(
    requirements: PodRequirements, nodes: Sequence[NodeInfo]
) -> Sequence[int] | None:
    if not any(node.attributes.taints for node in nodes):
        return None
    return [
        sum(
            taint.effect == "PreferNoSchedule"
            and not any(
                toleration.covers(taint.key, taint.value, taint.effect)
                for toleration in requirements.tolerations
            )
            for taint in node.attributes.taints
        )
        for node in nodes
    ]


def _pods_of_group(pod: PodInfo, nodes: Sequence[NodeInfo], cluster: ClusterState) -> Sequence[int] | None:
    counts = cluster.groups.get(pod.group)
    return None if counts is None else [counts.get(node.attributes.name, 0) for node in nodes]
