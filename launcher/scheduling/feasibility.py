"""Whether a pod fits a node, and if not why, in kube-scheduler's words. Pure, like everything it looks at."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from launcher.scheduling.affinity import PodTerm
from launcher.scheduling.affinity_counts import AffinityCounts, Counts
from launcher.scheduling.cluster_state import ClusterState, NodeAttributes, NodeInfo, PodInfo
from launcher.scheduling.pod_requirements import PODS_RESOURCE, PodRequirements

UNSCHEDULABLE: Final = "node(s) were unschedulable"
AFFINITY: Final = "node(s) didn't match Pod's node affinity/selector"
PORTS: Final = "node(s) didn't have free ports for the requested pod ports"
NOT_NEAR: Final = "node(s) didn't match pod affinity rules"
NOT_APART: Final = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY: Final = "node(s) didn't satisfy existing pods anti-affinity rules"
TOO_MANY: Final = "Too many pods"
#: Ours: kube-scheduler keeps no room.
KEPT: Final = "node(s) kept room for a pod that has waited longer"

_UNSCHEDULABLE_TAINT: Final = ("node.kubernetes.io/unschedulable", "", "NoSchedule")


def static_mismatch(demand: PodRequirements, facts: NodeAttributes) -> str | None:
    """Why the node would not have the pod even if it were empty; None if it would, as far as room allows."""
    if facts.unschedulable and not _tolerates(demand, *_UNSCHEDULABLE_TAINT):
        return UNSCHEDULABLE
    for taint in facts.taints:
        if taint.effect != "PreferNoSchedule" and not _tolerates(
            demand, taint.key, taint.value, taint.effect
        ):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    if any(facts.labels.get(key) != value for key, value in demand.selector.items()):
        return AFFINITY
    if demand.nodes is not None and not any(term.holds(facts.name, facts.labels) for term in demand.nodes):
        return AFFINITY
    return None


def _tolerates(demand: PodRequirements, key: str, value: str, effect: str) -> bool:
    return any(toleration.covers(key, value, effect) for toleration in demand.tolerations)


def insufficient_resources(demand: PodRequirements, node: NodeInfo) -> Sequence[str]:
    """What the node has too little of at present; nothing if the pod has room."""
    used, allocatable = node.used, node.facts.allocatable
    if node.ports and demand.ports and not _ports_free(demand, node):
        return (PORTS,)
    short: list[str] = []
    for name, amount in demand.amounts.items():
        if used.get(name, 0) + amount > allocatable.get(name, 0):
            short.append(TOO_MANY if name == PODS_RESOURCE else f"Insufficient {name}")
    return short


def is_crowded(node: NodeInfo) -> bool:
    """Whether more is taken of the node than it has, by pods that did not come together."""
    allocatable = node.facts.allocatable
    return any(amount > allocatable.get(name, 0) for name, amount in node.used.items()) or any(
        count > 1 for count in node.ports.values()
    )


def _ports_free(demand: PodRequirements, node: NodeInfo) -> bool:
    return not any(taken.clashes(port) for port in demand.ports for taken in node.ports)


class AffinityFilter:
    """Where one pod may be for the sake of other pods, worked out once for all nodes."""

    def __init__(self, guest: PodInfo, site: ClusterState) -> None:
        """The terms of *guest* have been asked about."""
        namespace, labels, crowds = guest.key[0], guest.labels, site.crowds
        self._near = [
            (term.topology, _places(crowds.here(term.selection), term.topology, site))
            for term in guest.demand.affinity
            if not _is_first(term, namespace, labels, crowds)
        ]
        # The first of a group that wants to be together may go wherever there is such a place at all.
        self._labelled = [term.topology for term in guest.demand.affinity]
        self._apart = [
            (term.topology, _places(crowds.here(term.selection), term.topology, site))
            for term in guest.demand.anti_affinity
        ]
        self._shunned = [
            (topology, _places(nodes, topology, site))
            for topology, nodes in crowds.shunning(namespace, labels)
            if nodes
        ]

    def refusal(self, facts: NodeAttributes) -> str | None:
        """Why the pod may not be there; None if it may."""
        labels = facts.labels
        if not all(topology in labels for topology in self._labelled):
            return NOT_NEAR
        if not all(labels[topology] in places for topology, places in self._near):
            return NOT_NEAR
        if any(labels.get(topology) in places for topology, places in self._apart):
            return NOT_APART
        if any(labels.get(topology) in places for topology, places in self._shunned):
            return EXISTING_ANTI_AFFINITY
        return None


def company_of(guest: PodInfo, site: ClusterState) -> AffinityFilter | None:
    """Where the pod may be for the sake of others; None when no pod, itself included, cares."""
    return (
        AffinityFilter(guest, site)
        if site.crowds or guest.demand.affinity or guest.demand.anti_affinity
        else None
    )


def _is_first(term: PodTerm, namespace: str, labels: Mapping[str, str], crowds: AffinityCounts) -> bool:
    return not crowds.here(term.selection) and term.selection.holds(namespace, labels)


def _places(nodes: Counts, topology: str, site: ClusterState) -> frozenset[str]:
    """The values of that label on these nodes."""
    known = (site.nodes.get(name) for name in nodes)
    values = (node.facts.labels.get(topology) for node in known if node is not None)
    return frozenset(value for value in values if value is not None)


def clash(one: PodInfo, here: NodeAttributes, other: PodInfo, there: NodeAttributes) -> bool:
    """Whether these two pods cannot be on these two nodes because one wants to be apart from the other."""
    return _keeps_off(one, here, other, there) or _keeps_off(other, there, one, here)


def _keeps_off(one: PodInfo, here: NodeAttributes, other: PodInfo, there: NodeAttributes) -> bool:
    return any(
        term.selection.holds(other.key[0], other.labels)
        and term.topology in here.labels
        and here.labels[term.topology] == there.labels.get(term.topology)
        for term in one.demand.anti_affinity
    )


def unschedulable_message(nodes: int, reasons: Iterable[str]) -> str:
    """``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had …``, from every node's every reason."""
    if not nodes:
        return "no nodes available to schedule pods"
    told = sorted(f"{count} {reason}" for reason, count in Counter(reasons).items())
    return f"0/{nodes} nodes are available: {', '.join(told)}."
