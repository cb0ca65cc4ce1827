"""The nodes for one pod: those that accept it, and what excludes it from the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.diagnosis.inputs import Context, Json, NodeFacts


@dataclass(slots=True)
class NodeChoice:
    """All nodes, each in one of these fields."""

    #: Nodes that do not match nodeSelector or nodeAffinity.
    unselected: list[NodeFacts] = field(default_factory=list)
    unready: list[NodeFacts] = field(default_factory=list)
    cordoned: list[NodeFacts] = field(default_factory=list)
    #: Nodes by the first taint that the pod does not tolerate.
    tainted: dict[str, list[NodeFacts]] = field(default_factory=dict)
    #: Nodes on which the pod could run if enough were free.
    accepting: list[NodeFacts] = field(default_factory=list)

    @property
    def selected(self) -> Sequence[NodeFacts]:
        """The nodes that match nodeSelector and nodeAffinity."""
        tainted = [node for nodes in self.tainted.values() for node in nodes]
        return [*self.unready, *self.cordoned, *tainted, *self.accepting]


def node_choice(context: Context, pod: Json) -> NodeChoice | None:
    """Compares the pod with all nodes; None if nodes are unknown, or the pod or a node is invalid."""
    fit = context.source.node_fit
    if fit is None or context.nodes is None:
        return None
    choice = NodeChoice()
    for node in context.nodes:
        try:
            selected, cordoned, taint = fit(pod, node.object)
        except (ValueError, TypeError, AttributeError, KeyError):
            return None
        if not selected:
            choice.unselected.append(node)
        elif not node.ready:
            choice.unready.append(node)
        elif cordoned:
            choice.cordoned.append(node)
        elif taint:
            choice.tainted.setdefault(taint, []).append(node)
        else:
            choice.accepting.append(node)
    return choice


def names(nodes: Sequence[NodeFacts]) -> Sequence[str]:
    return [node.name for node in nodes]


def largest(nodes: Sequence[NodeFacts], resource: str) -> NodeFacts:
    """The node that has most of the resource."""
    return max(nodes, key=lambda node: node.allocatable.get(resource, 0))


def capacity(nodes: Sequence[NodeFacts], requests: Mapping[str, int]) -> int:
    """The number of such pods that fit on these nodes when they are empty."""
    return sum(
        min(node.allocatable.get(name, 0) // amount for name, amount in requests.items()) for node in nodes
    )
