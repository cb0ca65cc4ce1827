"""What a pod asks of a node, read once for all pods that ask the same."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from launcher.core.quantity import quantity
from launcher.scheduling.affinity import (
    NodeTerm,
    PodTerm,
    Weighed,
    node_terms,
    pod_terms,
    preferred_nodes,
    preferred_pods,
)

#: Amounts are whole numbers of thousandths, so that comparing them is exact and quick.
Amounts = Mapping[str, int]

#: Every pod takes one of these.
PODS_RESOURCE: Final = "pods"
EVERY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound
#: What a container that asks for nothing is taken to use when nodes are compared, as kube-scheduler has it.
_UNASKED: Final = {"cpu": 100, "memory": 200 * 1024 * 1024 * 1000}


class HostPort(NamedTuple):
    """A port of the node itself."""

    protocol: str
    port: int
    address: str

    def clashes(self, other: "HostPort") -> bool:
        """Whether one node cannot give both."""
        return self[:2] == other[:2] and (
            self.address == other.address or self.address in EVERY_ADDRESS or other.address in EVERY_ADDRESS
        )


class Toleration(NamedTuple):
    """Which taints do not matter; nothing stands for any."""

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
    """Everything about a pod that decides where it can go, but for its own labels. Equal demands are mostly one."""

    amounts: Amounts
    #: cpu and memory as they count when nodes are compared.
    counted: Amounts
    ports: tuple[HostPort, ...]
    selector: Mapping[str, str]
    #: One of these must hold; None asks for nothing.
    nodes: tuple[NodeTerm, ...] | None
    preferred_nodes: tuple[Weighed[NodeTerm], ...]
    tolerations: tuple[Toleration, ...]
    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    #: Weights below zero keep apart.
    preferred_pods: tuple[Weighed[PodTerm], ...]

    @property
    def terms(self) -> Iterable[PodTerm]:
        """Every term about other pods."""
        return (*self.affinity, *self.anti_affinity, *(wish.term for wish in self.preferred_pods))


def demand_of(pod: Mapping[str, Any]) -> PodRequirements:
    """What *pod* asks for. Raises ValueError, whose message names the field, when that makes no sense."""
    spec = pod.get("spec") or {}
    parts: dict[str, Any] = {
        "containers": [_relevant(container) for container in spec.get("containers") or ()],
        "init": [_relevant(container) for container in spec.get("initContainers") or ()],
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
    return _demand(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS))


def _relevant(container: Mapping[str, Any]) -> dict[str, Any]:
    fields = ("resources", "ports", "restartPolicy")
    return {field: container[field] for field in fields if container.get(field)}


@lru_cache(maxsize=4096)
def _demand(text: bytes) -> PodRequirements:
    parts = orjson.loads(text)
    try:
        return _read(parts)
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"spec: a field has another type than Kubernetes gives it ({error})") from error


def _read(parts: Mapping[str, Any]) -> PodRequirements:
    affinity = parts.get("affinity") or {}
    about_nodes, about_near, about_apart = (
        affinity.get(field) or {} for field in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    )
    namespace, labels = parts.get("namespace", ""), parts.get("labels") or {}
    near, apart = (pod_terms(about, namespace, labels) for about in (about_near, about_apart))
    wishes = preferred_pods(about_near, about_apart, namespace, labels)
    amounts = _amounts(parts)
    return PodRequirements(
        amounts=amounts,
        counted={name: amounts.get(name) or unasked for name, unasked in _UNASKED.items()},
        ports=_ports(parts),
        selector=dict(parts.get("nodeSelector") or {}),
        nodes=node_terms(about_nodes),
        preferred_nodes=preferred_nodes(about_nodes),
        tolerations=tuple(_toleration(one) for one in parts.get("tolerations") or ()),
        affinity=near,
        anti_affinity=apart,
        preferred_pods=wishes,
    )


def thousandths(amounts: Mapping[str, Any] | None, field: str) -> dict[str, int]:
    """Quantities by name as whole numbers. Raises ValueError, which names *field*."""
    result = {}
    for name, text in (amounts or {}).items():
        try:
            result[name] = int((quantity(text) * 1000).to_integral_value(ROUND_CEILING))
        except ValueError as error:
            raise ValueError(f"{field}.{name}: {error}") from None
    return result


def _amounts(parts: Mapping[str, Any]) -> Amounts:
    """All containers together, or the greediest moment of the init containers, whichever is more."""
    running = _sum(_requests(container, "spec.containers") for container in parts["containers"])
    most: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in parts["init"]:
        asked = _requests(container, "spec.initContainers")
        if container.get("restartPolicy") == "Always":
            sidecars = _sum((sidecars, asked))
            asked = {}
        most = _max(most, _sum((sidecars, asked)))
    total = _max(_sum((running, sidecars)), most)
    # What is asked for the pod as a whole stands in the place of the containers' own.
    total |= _requests(parts, "spec")
    total = _sum((total, thousandths(parts.get("overhead"), "spec.overhead")))
    return {name: amount for name, amount in total.items() if amount > 0} | {PODS_RESOURCE: 1000}


def _requests(holder: Mapping[str, Any], field: str) -> dict[str, int]:
    """A limit stands in for a request that is not there, as the API server has it."""
    resources = holder.get("resources") or {}
    return thousandths(resources.get("limits"), f"{field}.resources.limits") | thousandths(
        resources.get("requests"), f"{field}.resources.requests"
    )


def _sum(many: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for amounts in many:
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


def _max(one: Amounts, other: Amounts) -> dict[str, int]:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _ports(parts: Mapping[str, Any]) -> tuple[HostPort, ...]:
    """Those of containers that stay; on the host's network every port is one of the host's."""
    staying = [one for one in parts["init"] if one.get("restartPolicy") == "Always"]
    found = []
    for container in [*parts["containers"], *staying]:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if parts.get("hostNetwork") else 0)
            if number:
                address = port.get("hostIP") or "0.0.0.0"  # noqa: S104 - compared, not bound
                found.append(HostPort(port.get("protocol") or "TCP", number, address))
    return tuple(found)


def _toleration(one: Mapping[str, Any]) -> Toleration:
    operator = one.get("operator") or "Equal"
    if operator not in ("Equal", "Exists"):
        raise ValueError(f"spec.tolerations.operator: {operator!r} must be Equal or Exists")
    value = None if operator == "Exists" else one.get("value") or ""
    return Toleration(one.get("key") or "", value, one.get("effect") or "")
