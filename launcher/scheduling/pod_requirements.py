"""Scheduling requirements of pods, parsed once for all pods with equal requirements."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from launcher.core.pods.resource_requests import Amounts, total_requests
from launcher.scheduling.affinity import (
    NodeTerm,
    PodTerm,
    WeightedTerm,
    node_terms,
    pod_terms,
    preferred_nodes,
    preferred_pods,
)

WILDCARD_ADDRESSES: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
#: Default requests for scoring, as in kube-scheduler.
_DEFAULT_REQUESTS: Final = {"cpu": 100, "memory": 200 * 1024 * 1024 * 1000}


class HostPort(NamedTuple):
    """A port of the node."""

    protocol: str
    port: int
    address: str

    def conflicts_with(self, other: "HostPort") -> bool:
        """Whether both ports cannot be used on one node."""
        return self[:2] == other[:2] and (
            self.address == other.address
            or self.address in WILDCARD_ADDRESSES
            or other.address in WILDCARD_ADDRESSES
        )


class Toleration(NamedTuple):
    """A toleration of taints. An empty field matches any value."""

    key: str
    value: str | None
    effect: str

    def covers(self, key: str, value: str, effect: str) -> bool:
        return (
            self.effect in ("", effect)
            and (self.key == key or (not self.key and self.value is None))
            and self.value in (None, value)
        )


@dataclass(frozen=True, slots=True, eq=False)
class PodRequirements:
    """All requirements of a pod on its node, except its labels. Equal requirements are usually one object."""

    requests: Amounts
    #: cpu and memory for scoring, with defaults for pods without requests.
    nonzero_requests: Amounts
    ports: tuple[HostPort, ...]
    node_selector: Mapping[str, str]
    #: At least one term must match. None: no requirement.
    node_affinity: tuple[NodeTerm, ...] | None
    preferred_nodes: tuple[WeightedTerm[NodeTerm], ...]
    tolerations: tuple[Toleration, ...]
    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    #: Negative weights are anti-affinity.
    preferred_pods: tuple[WeightedTerm[PodTerm], ...]

    @property
    def terms(self) -> Iterable[PodTerm]:
        """All terms that refer to other pods."""
        return (*self.affinity, *self.anti_affinity, *(preferred.term for preferred in self.preferred_pods))


def pod_requirements(pod: Mapping[str, Any]) -> PodRequirements:
    """Returns the requirements of *pod*. Raises ValueError, naming the field, if they are invalid."""
    spec = pod.get("spec") or {}
    parts: dict[str, Any] = {
        "containers": [_relevant_fields(container) for container in spec.get("containers") or ()],
        "init": [_relevant_fields(container) for container in spec.get("initContainers") or ()],
    }
    for field in ("affinity", "hostNetwork", "nodeSelector", "overhead", "resources", "tolerations"):
        if spec.get(field):
            parts[field] = spec[field]
    if "affinity" in parts:
        parts["namespace"] = pod["metadata"].get("namespace", "")
        if b"abelKeys" in orjson.dumps(
            parts["affinity"]
        ):  # matchLabelKeys take values from the pod's own labels
            parts["labels"] = pod["metadata"].get("labels") or {}
    return _parsed_requirements(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))


def _relevant_fields(container: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("resources", "ports", "restartPolicy")
    return {field: container[field] for field in fields if container.get(field)}


@lru_cache(maxsize=4096)
def _parsed_requirements(text: bytes) -> PodRequirements:
    parts = orjson.loads(text)
    try:
        return _read(parts)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"spec: a field has the wrong type ({error})") from error


def _read(parts: Mapping[str, Any]) -> PodRequirements:
    affinity = parts.get("affinity") or {}
    node_affinity, pod_affinity, pod_anti_affinity = (
        affinity.get(field) or {} for field in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    )
    namespace, labels = parts.get("namespace", ""), parts.get("labels") or {}
    affinity, anti_affinity = (
        pod_terms(terms, namespace, labels) for terms in (pod_affinity, pod_anti_affinity)
    )
    preferred = preferred_pods(pod_affinity, pod_anti_affinity, namespace, labels)
    requests = total_requests(parts["containers"], parts["init"], parts)
    return PodRequirements(
        requests=requests,
        nonzero_requests={name: requests.get(name) or default for name, default in _DEFAULT_REQUESTS.items()},
        ports=_ports(parts),
        node_selector=dict(parts.get("nodeSelector") or {}),
        node_affinity=node_terms(node_affinity),
        preferred_nodes=preferred_nodes(node_affinity),
        tolerations=tuple(_toleration(item) for item in parts.get("tolerations") or ()),
        affinity=affinity,
        anti_affinity=anti_affinity,
        preferred_pods=preferred,
    )


def _ports(parts: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """Returns host ports of containers and sidecars. With hostNetwork every container port is a host port."""
    sidecars = [item for item in parts["init"] if item.get("restartPolicy") == "Always"]
    ports = []
    for container in [*parts["containers"], *sidecars]:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if parts.get("hostNetwork") else 0)
            if number:
                address = port.get("hostIP") or "0.0.0.0"  # noqa: S104 - compared, not bound
                ports.append(HostPort(port.get("protocol") or "TCP", number, address))
    return tuple(ports)


def _toleration(item: Mapping[str, Any]) -> Toleration:
    operator = item.get("operator") or "Equal"
    if operator not in ("Equal", "Exists"):
        raise ValueError(f"spec.tolerations.operator: {operator!r} must be Equal or Exists")
    value = None if operator == "Exists" else item.get("value") or ""
    return Toleration(item.get("key") or "", value, item.get("effect") or "")
