"""
The lines of a hosts file for Services, pods and nodes.

On a cluster a DNS server resolves these names. The name of a Service resolves to its cluster IP, that of a headless one
to its pods.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.core.json_access import as_objects
from launcher.core.names import KIND
from launcher.core.pods.observed_pod import has_terminated, is_deleted
from launcher.node.pods.hostname import DOMAIN, pod_names
from launcher.store.interface import Object

#: Some C libraries do not read longer lines.
_MAX_LINE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod that Services may select."""

    name: str
    address: str
    labels: Mapping[str, str]
    is_ready: bool
    hostname: str
    subdomain: str
    #: Its names for itself; empty on the host network, where it has those of its node.
    own_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedService:
    """A Service with a selector."""

    name: str
    namespace: str
    selector: Mapping[str, str]
    #: Headless: its pods have names of their own.
    is_headless: bool
    #: The address to which its name resolves; empty for those of its pods.
    address: str
    #: publishNotReadyAddresses.
    includes_unready: bool
    #: The Framework that owns it; empty if none does.
    framework: str

    def selects(self, pod: NamedPod) -> bool:
        return self.selector.items() <= pod.labels.items()


def named_pod(pod: Object) -> NamedPod | None:
    """The pod's names and labels; None while it has no address, and once it has terminated. Raises TypeError."""
    status, spec = pod.get("status") or {}, pod["spec"]
    if not status.get("podIP") or has_terminated(pod):
        return None
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    return NamedPod(
        pod["metadata"]["name"],
        _text(status["podIP"], "status.podIP"),
        pod["metadata"].get("labels") or {},
        ready and not is_deleted(pod),
        _text(spec.get("hostname") or "", "spec.hostname"),
        _text(spec.get("subdomain") or "", "spec.subdomain"),
        () if spec.get("hostNetwork") else pod_names(pod),
    )


def named_service(service: Object) -> NamedService | None:
    """The Service's name and selector; None without a selector. Raises TypeError."""
    meta, spec = service["metadata"], service.get("spec") or {}
    if not spec.get("selector"):
        return None
    return NamedService(
        meta["name"],
        meta["namespace"],
        _texts(spec["selector"], "spec.selector"),
        spec.get("clusterIP") == "None",
        _service_address(spec),
        bool(spec.get("publishNotReadyAddresses")),
        owning_framework(service),
    )


def _service_address(spec: Mapping[str, Any]) -> str:
    """
    The cluster IP to which the name of the Service resolves; empty if it resolves to its pods.

    In the network of the machine, the port of a pod cannot be that of another program too: a Service that maps no port
    to another one resolves to its pods.
    """
    address = _text(spec.get("clusterIP") or "", "spec.clusterIP")
    if address in ("", "None"):
        return ""
    maps_ports = any(
        port.get("targetPort", port.get("port")) != port.get("port") for port in as_objects(spec.get("ports"))
    )
    return address if maps_ports or not ipaddress.ip_address(address).is_loopback else ""


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{field} is not a string")
    return value


def _texts(value: Any, field: str) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise TypeError(f"{field} is not an object whose values are strings")
    return value


def owning_framework(obj: Object) -> str:
    """The name of the Framework that owns the object; empty if none does."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((owner["name"] for owner in owners if owner.get("kind") == KIND), "")


def hosts_lines(services: Iterable[NamedService], pods: Sequence[NamedPod]) -> Iterator[str]:
    """A line for every name of a Service and every address that it resolves to."""
    by_label = _by_label(pods)
    for service in services:
        if service.address:
            yield from _lines(service.address, service.name, service.namespace)
            continue
        endpoints = [pod for pod in _selected(service, by_label) if pod.is_ready or service.includes_unready]
        for address in dict.fromkeys(pod.address for pod in endpoints):
            yield from _lines(address, service.name, service.namespace)
        if service.is_headless:
            for pod in endpoints:
                if pod.hostname and pod.subdomain == service.name:
                    yield from _lines(pod.address, f"{pod.hostname}.{service.name}", service.namespace)


def own_lines(pods: Iterable[NamedPod]) -> Iterator[str]:
    """A line for every pod's own names, the canonical one first, as ``hostname -f`` prints it."""
    for pod in pods:
        if pod.own_names:
            yield " ".join((pod.address, *pod.own_names))


def node_lines(nodes: Mapping[str, str]) -> Iterator[str]:
    """A line for every node, except those whose names are addresses."""
    for name, address in nodes.items():
        if not _is_address(name):
            yield f"{address} {name}"


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _by_label(pods: Iterable[NamedPod]) -> dict[tuple[str, str], list[NamedPod]]:
    """The pods by the key and value of each of their labels."""
    by_label: dict[tuple[str, str], list[NamedPod]] = {}
    for pod in pods:
        for label in pod.labels.items():
            by_label.setdefault(label, []).append(pod)
    return by_label


def _selected(service: NamedService, by_label: Mapping[tuple[str, str], list[NamedPod]]) -> list[NamedPod]:
    """The pods that the Service selects, searched for among those with its rarest label."""
    candidates = min((by_label.get(label, []) for label in service.selector.items()), key=len)
    return [pod for pod in candidates if service.selects(pod)]


def _lines(address: str, name: str, namespace: str) -> Iterator[str]:
    namespaced = f"{name}.{namespace}"
    names = (f"{namespaced}.svc.{DOMAIN}", f"{namespaced}.svc", namespaced, name)
    line = " ".join((address, *names))
    if len(line) <= _MAX_LINE_LENGTH:
        yield line
    else:
        yield from (f"{address} {alias}" for alias in names)
