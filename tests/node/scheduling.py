"""Pods and nodes for the scheduler's tests, whole but for what a test names."""

import itertools
from collections.abc import Mapping
from typing import Any

from launcher.node.node_spec import NodeSpec
from launcher.scheduling.cluster_state import NodeAttributes, PodInfo, Taint, facts_of
from launcher.scheduling.engine import SchedulingEngine
from launcher.scheduling.pod_info import guest_of
from launcher.store.interface import NODES, Object

HOSTNAME = "kubernetes.io/hostname"
_uids = itertools.count(1)


def node_json(name: str = "n1", *, unschedulable: bool = False, **parts: Any) -> Object:
    """A Node; ``labels``, ``taints`` and amounts such as ``cpu`` may be given."""
    labels = {HOSTNAME: name} | parts.pop("labels", {})
    taints = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in parts.pop("taints", ())
    ]
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "100"} | {
        key.replace("gpu", "nvidia.com/gpu"): str(value) for key, value in parts.items()
    }
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": unschedulable},
        "status": {"allocatable": amounts},
    }


def a_node(name: str = "n1", **parts: Any) -> NodeAttributes:
    return facts_of(node_json(name, **parts))


def a_spec(name: str, address: str = "127.0.0.2", **capacity: str) -> NodeSpec:
    return NodeSpec(name, address, capacity={"cpu": "4", "memory": "8Gi", "pods": "100"} | capacity)


def pod_json(
    name: str = "p",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, Any] | None = None,
    owner: str | None = None,
    **spec: Any,
) -> Object:
    """A Pod of one container; anything of its spec may be given."""
    metadata: Object = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "launcher.microsoft.com/v1",
                "kind": "Framework",
                "name": owner,
                "uid": f"uid-of-{owner}",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    container = {"name": "main", "image": "busybox", "resources": {"requests": dict(requests or {})}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **spec},
    }


def a_guest(name: str = "p", **parts: Any) -> PodInfo:
    """The pod as it would be read from the store."""
    pod = pod_json(name, **parts)
    pod["metadata"]["uid"] = f"uid-{next(_uids)}"
    return guest_of(pod)


def a_taint(key: str = "k", value: str = "v", effect: str = "NoSchedule") -> Taint:
    return Taint(key, value, effect)


def affinity(kind: str, *terms: Mapping[str, Any]) -> Object:
    """``spec.affinity`` with these required terms of that kind."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if kind == "nodeAffinity":
        return {kind: {required: {"nodeSelectorTerms": list(terms)}}}
    return {kind: {required: list(terms)}}


def about(labels: Mapping[str, str], topology: str = HOSTNAME, **more: Any) -> Object:
    """A term about the pods with these labels."""
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": topology, **more}


def a_placer(*nodes: NodeAttributes, patience: float = 60.0) -> SchedulingEngine:
    placer = SchedulingEngine(patience)
    for node in nodes:
        placer.set_node(node)
    return placer


def places(placer: SchedulingEngine, now: float = 0.0, most: int = 1000) -> dict[str, str]:
    """Who is given which node now."""
    return {binding.guest.key[1]: binding.node for binding in placer.decide(now, most)}


def place(placer: SchedulingEngine, *guests: PodInfo, now: float = 0.0, priority: int = 0) -> dict[str, str]:
    """Which of these pods is given which node, when they come together now."""
    for guest in guests:
        placer.add_pending(guest, priority, now)
    return places(placer, now)
