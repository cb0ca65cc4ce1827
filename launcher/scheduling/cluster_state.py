"""The nodes and who is on them, as the scheduler counts it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from launcher.scheduling.affinity_counts import AffinityCounts
from launcher.scheduling.pod_requirements import Amounts, HostPort, PodRequirements, thousandths
from launcher.store.interface import Key


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods away that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeAttributes:
    """What a Node object says of its node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict)


class GangMembership(NamedTuple):
    """What a pod of a gang carries: the gang's name, and how many of it have to be placed together."""

    name: str
    need: int


@dataclass(frozen=True, slots=True, eq=False)
class PodInfo:
    """A pod as those see it who decide where it goes."""

    key: Key
    uid: str
    labels: Mapping[str, str]
    demand: PodRequirements
    #: Whose pod it is: pods of one group are spread. The uid of its controller, or its own.
    group: str
    #: Somebody has asked for its deletion: it will leave soon.
    leaving: bool = False
    #: Whom it has to be placed together with; None for a pod on its own.
    gang: GangMembership | None = None


class NodeInfo:
    """One node: its facts, and what the pods on it take of it."""

    def __init__(self, facts: NodeAttributes) -> None:
        self.facts = facts
        self.guests: dict[Key, PodInfo] = {}
        self.used: dict[str, int] = {}
        #: cpu and memory as they count when nodes are compared.
        self.counted = {"cpu": 0, "memory": 0}
        self.ports: dict[HostPort, int] = {}

    def take(self, guest: PodInfo) -> None:
        self.guests[guest.key] = guest
        self._count(guest.demand, 1)

    def release(self, key: Key) -> None:
        self._count(self.guests.pop(key).demand, -1)

    def _count(self, demand: PodRequirements, sign: int) -> None:
        used = self.used
        for name, amount in demand.amounts.items():
            used[name] = used.get(name, 0) + sign * amount
        for name, amount in demand.counted.items():
            self.counted[name] += sign * amount
        for port in demand.ports:
            left = self.ports.get(port, 0) + sign
            if left:
                self.ports[port] = left
            else:
                del self.ports[port]


class ClusterState:
    """All nodes, all pods that have one, and who keeps company with whom."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeInfo] = {}
        self.crowds = AffinityCounts()
        #: Group -> node -> how many of its pods are there.
        self.groups: dict[str, dict[str, int]] = {}
        #: Every pod that has a node, known or not, and the node's name.
        self._placed: dict[Key, tuple[PodInfo, str]] = {}

    def set_node(self, facts: NodeAttributes) -> bool:
        """Whether anything is new."""
        known = self.nodes.get(facts.name)
        if known is not None and known.facts == facts:
            return False
        node = self.nodes[facts.name] = NodeInfo(facts)
        guests = known.guests.values() if known is not None else self._guests_of(facts.name)
        for guest in guests:
            node.take(guest)
        return True

    def drop_node(self, name: str) -> None:
        self.nodes.pop(name, None)

    def _guests_of(self, node: str) -> Iterator[PodInfo]:
        return (guest for guest, at in self._placed.values() if at == node)

    def node_of(self, key: Key) -> str | None:
        placed = self._placed.get(key)
        return placed[1] if placed is not None else None

    def guest(self, key: Key) -> PodInfo | None:
        placed = self._placed.get(key)
        return placed[0] if placed is not None else None

    def place(self, guest: PodInfo, node: str) -> None:
        """The pod is there, and nowhere else."""
        self.remove(guest.key)
        self._placed[guest.key] = guest, node
        if node in self.nodes:
            self.nodes[node].take(guest)
        self.crowds.join(guest.key, guest.labels, node, guest.demand.anti_affinity)
        group = self.groups.setdefault(guest.group, {})
        group[node] = group.get(node, 0) + 1

    def remove(self, key: Key) -> PodInfo | None:
        """The pod that no longer takes anything, if it took something."""
        placed = self._placed.pop(key, None)
        if placed is None:
            return None
        guest, at = placed
        if at in self.nodes:
            self.nodes[at].release(key)
        self.crowds.leave(key, guest.labels, at, guest.demand.anti_affinity)
        group = self.groups[guest.group]
        group[at] -= 1
        if not group[at]:
            del group[at]
            if not group:
                del self.groups[guest.group]
        return guest


def facts_of(node: Mapping[str, Any]) -> NodeAttributes:
    """What the Node object says. Raises ValueError when its amounts make no sense."""
    meta, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    amounts = status.get("allocatable") or status.get("capacity") or {}
    return NodeAttributes(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=tuple(
            Taint(str(one["key"]), str(one.get("value") or ""), str(one.get("effect") or ""))
            for one in spec.get("taints") or ()
        ),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=thousandths(amounts, "status.allocatable"),
    )
