"""Nodes and the pods assigned to them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from launcher.core.pods.resource_requests import Amounts, thousandths
from launcher.scheduling.affinity_counts import AffinityCounts
from launcher.scheduling.pod_requirements import HostPort, PodRequirements
from launcher.store.interface import Key


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeAttributes:
    """Scheduling data of a Node object."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict)


class GangMembership(NamedTuple):
    """The gang of a pod: its name, and the number of pods that must be scheduled together."""

    name: str
    min_members: int


@dataclass(frozen=True, slots=True, eq=False)
class PodInfo:
    """Scheduling data of a pod."""

    key: Key
    uid: str
    labels: Mapping[str, str]
    requirements: PodRequirements
    #: Pods of one group are spread over nodes. The uid of the pod's controller, or its own.
    group: str
    #: Whether deletionTimestamp is set.
    terminating: bool = False
    #: None for a pod without a gang.
    gang: GangMembership | None = None


class NodeInfo:
    """A node and the resources that its pods use."""

    def __init__(self, attributes: NodeAttributes) -> None:
        self.attributes = attributes
        self.pods: dict[Key, PodInfo] = {}
        self.used: dict[str, int] = {}
        #: cpu and memory for scoring, with defaults for pods without requests.
        self.nonzero_requests = {"cpu": 0, "memory": 0}
        self.ports: dict[HostPort, int] = {}

    def add_pod(self, pod: PodInfo) -> None:
        self.pods[pod.key] = pod
        self._count(pod.requirements, 1)

    def remove_pod(self, key: Key) -> None:
        self._count(self.pods.pop(key).requirements, -1)

    def _count(self, requirements: PodRequirements, sign: int) -> None:
        used = self.used
        for name, amount in requirements.requests.items():
            used[name] = used.get(name, 0) + sign * amount
        for name, amount in requirements.nonzero_requests.items():
            self.nonzero_requests[name] += sign * amount
        for port in requirements.ports:
            remaining = self.ports.get(port, 0) + sign
            if remaining:
                self.ports[port] = remaining
            else:
                del self.ports[port]


class ClusterState:
    """All nodes, all pods with a node, and their affinity counts."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.affinity_counts = AffinityCounts()
        #: Group -> node -> number of its pods.
        self.groups: dict[str, dict[str, int]] = {}
        #: All pods with a node, and the node's name. The node may be unknown.
        self._assigned: dict[Key, tuple[PodInfo, str]] = {}

    def set_node(self, attributes: NodeAttributes) -> bool:
        """Adds or updates a node. Returns whether anything changed."""
        current = self.nodes.get(attributes.name)
        if current is not None and current.attributes == attributes:
            return False
        node = self.nodes[attributes.name] = NodeInfo(attributes)
        pods = current.pods.values() if current is not None else self._pods_on(attributes.name)
        for pod in pods:
            node.add_pod(pod)
        return True

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)

    def _pods_on(self, node: str) -> Iterator[PodInfo]:
        return (pod for pod, assigned in self._assigned.values() if assigned == node)

    def assigned_node(self, key: Key) -> str | None:
        assigned = self._assigned.get(key)
        return assigned[1] if assigned is not None else None

    def pod(self, key: Key) -> PodInfo | None:
        assigned = self._assigned.get(key)
        return assigned[0] if assigned is not None else None

    def assign(self, pod: PodInfo, node: str) -> None:
        """Assigns the pod to the node, and removes it from any other."""
        self.remove_pod(pod.key)
        self._assigned[pod.key] = pod, node
        if node in self.nodes:
            self.nodes[node].add_pod(pod)
        self.affinity_counts.add_pod(pod.key, pod.labels, node, pod.requirements.anti_affinity)
        group = self.groups.setdefault(pod.group, {})
        group[node] = group.get(node, 0) + 1

    def remove_pod(self, key: Key) -> PodInfo | None:
        """Removes the pod and returns it, or None if it had no node."""
        assigned = self._assigned.pop(key, None)
        if assigned is None:
            return None
        pod, node = assigned
        if node in self.nodes:
            self.nodes[node].remove_pod(key)
        self.affinity_counts.remove_pod(key, pod.labels, node, pod.requirements.anti_affinity)
        group = self.groups[pod.group]
        group[node] -= 1
        if not group[node]:
            del group[node]
            if not group:
                del self.groups[pod.group]
        return pod


def node_attributes(node: Mapping[str, Any]) -> NodeAttributes:
    """Parses a Node object. Raises ValueError if its amounts are invalid."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    amounts = status.get("allocatable") or status.get("capacity") or {}
    return NodeAttributes(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(
            Taint(str(taint["key"]), str(taint.get("value") or ""), str(taint.get("effect") or ""))
            for taint in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=thousandths(amounts, "status.allocatable"),
    )
