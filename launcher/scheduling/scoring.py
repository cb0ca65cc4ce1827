"""Which of the nodes that a pod fits it goes to. Pure, and the same for the same pods in the same order."""

from collections.abc import Mapping, Sequence
from typing import Final

from launcher.scheduling.cluster_state import ClusterState, NodeInfo, PodInfo
from launcher.scheduling.pod_requirements import PodRequirements

#: kube-scheduler's own weights; each kind of score is from 0 to 100.
_NODE_AFFINITY: Final = 2
_TAINTS: Final = 3
_COMPANY: Final = 2
_SPREAD: Final = 2
#: Scores that differ by less do so only because of how they were added up.
_EQUAL: Final = 1e-6


def highest_scoring(guest: PodInfo, nodes: Sequence[NodeInfo], site: ClusterState) -> NodeInfo:
    """
    The node with the highest score; of equals the first by name. *nodes* are all fit, and at least one.

    What counts: much left of cpu and memory, and both evenly; what the pod would like; few taints that it would
    rather not have; few pods of its own group.
    """
    if len(nodes) == 1:
        return nodes[0]
    scores = [_room(guest.demand, node) for node in nodes]
    for weight, wishes in (
        (_NODE_AFFINITY, _liked_nodes(guest.demand, nodes)),
        (_COMPANY, _liked_company(guest.demand, nodes, site)),
        (-_TAINTS, _disliked_taints(guest.demand, nodes)),
        (-_SPREAD, _own_group(guest, nodes, site)),
    ):
        if wishes is not None:
            _add(scores, weight, wishes)
    highest = max(scores) - _EQUAL
    firsts = [node for score, node in zip(scores, nodes, strict=True) if score >= highest]
    return min(firsts, key=lambda node: node.facts.name)


def _add(scores: list[float], weight: int, wishes: Sequence[int]) -> None:
    """The least liked gets nothing, the most liked all, those between their share."""
    least, most = min(wishes), max(wishes)
    if most > least:
        share = weight * 100 / (most - least)
        for index, wish in enumerate(wishes):
            scores[index] += share * (wish - least)


def _room(demand: PodRequirements, node: NodeInfo) -> float:
    """Least allocated and balanced: up to 100 for what is left of cpu and memory, up to 100 for evenness."""
    allocatable, counted, asked = node.facts.allocatable, node.counted, demand.counted
    cpu = _share(counted["cpu"] + asked["cpu"], allocatable.get("cpu", 0))
    memory = _share(counted["memory"] + asked["memory"], allocatable.get("memory", 0))
    return 50 * (2 - cpu - memory) + 100 - 50 * abs(cpu - memory)


def _share(used: int, of: int) -> float:
    return min(used / of, 1.0) if of else 1.0


def _liked_nodes(demand: PodRequirements, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
    if not demand.preferred_nodes:
        return None
    return [
        sum(
            wish.weight
            for wish in demand.preferred_nodes
            if wish.term.holds(node.facts.name, node.facts.labels)
        )
        for node in nodes
    ]


def _liked_company(
    demand: PodRequirements, nodes: Sequence[NodeInfo], site: ClusterState
) -> Sequence[int] | None:
    """Each wish counts once for every pod that it is about in the same place."""
    if not demand.preferred_pods:
        return None
    liked = [0] * len(nodes)
    for wish in demand.preferred_pods:
        places = _by_place(site.crowds.here(wish.term.selection), wish.term.topology, site)
        for index, node in enumerate(nodes):
            liked[index] += wish.weight * places.get(node.facts.labels.get(wish.term.topology, ""), 0)
    return liked


def _by_place(counts: Mapping[str, int], topology: str, site: ClusterState) -> Mapping[str, int]:
    places: dict[str, int] = {}
    for name, count in counts.items():
        node = site.nodes.get(name)
        if node is not None and topology in node.facts.labels:
            place = node.facts.labels[topology]
            places[place] = places.get(place, 0) + count
    return places


def _disliked_taints(demand: PodRequirements, nodes: Sequence[NodeInfo]) -> Sequence[int] | None:
    if not any(node.facts.taints for node in nodes):
        return None
    return [
        sum(
            taint.effect == "PreferNoSchedule"
            and not any(one.covers(taint.key, taint.value, taint.effect) for one in demand.tolerations)
            for taint in node.facts.taints
        )
        for node in nodes
    ]


def _own_group(guest: PodInfo, nodes: Sequence[NodeInfo], site: ClusterState) -> Sequence[int] | None:
    counts = site.groups.get(guest.group)
    return None if counts is None else [counts.get(node.facts.name, 0) for node in nodes]
