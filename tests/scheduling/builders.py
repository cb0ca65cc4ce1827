"""Builders of pods, nodes and engines for scheduling tests."""

import itertools
from collections.abc import Mapping
from typing import Any

from launcher.node.node_spec import NodeSpec
from launcher.scheduling.cluster_state import NodeAttributes, PodInfo, Taint, node_attributes
from launcher.scheduling.engine import SchedulingEngine
from launcher.scheduling.pod_info import pod_info
from launcher.store.interface import NODES, Object

HOSTNAME = "kubernetes.io/hostname"
_uids = itertools.count(1)


def node_json(name: str = "n1", *, unschedulable: bool = False, **parts: Any) -> Object:
    """Builds a Node. *parts* may set ``labels``, ``taints`` and amounts such as ``cpu``."""
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
    return node_attributes(node_json(name, **parts))


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
    """Builds a Pod with one container. *spec* may set any field of its spec."""
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


def a_pod_info(name: str = "p", **parts: Any) -> PodInfo:
    """Builds a pod with a new uid and parses it."""
    pod = pod_json(name, **parts)
    pod["metadata"]["uid"] = f"uid-{next(_uids)}"
    return pod_info(pod)


def a_taint(key: str = "k", value: str = "v", effect: str = "NoSchedule") -> Taint:
    return Taint(key, value, effect)


def affinity(kind: str, *terms: Mapping[str, Any]) -> Object:
    """Returns ``spec.affinity`` with these required terms."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if kind == "nodeAffinity":
        return {kind: {required: {"nodeSelectorTerms": list(terms)}}}
    return {kind: {required: list(terms)}}


def pod_term(labels: Mapping[str, str], topology_key: str = HOSTNAME, **more: Any) -> Object:
    """Returns a pod affinity term that selects pods with these labels."""
    return {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": topology_key, **more}


def an_engine(*nodes: NodeAttributes, reserve_after: float = 60.0) -> SchedulingEngine:
    engine = SchedulingEngine(reserve_after)
    for node in nodes:
        engine.set_node(node)
    return engine


def schedule(engine: SchedulingEngine, now: float = 0.0, most: int = 1000) -> dict[str, str]:
    """Returns pod name -> node of the next decision."""
    return {binding.pod.key[1]: binding.node for binding in engine.schedule(now, most)}


def submit_and_schedule(
    engine: SchedulingEngine, *pods: PodInfo, now: float = 0.0, priority: int = 0
) -> dict[str, str]:
    """Adds pending pods and returns pod name -> node of the next decision."""
    for pod in pods:
        engine.add_pending(pod, priority, now)
    return schedule(engine, now)
