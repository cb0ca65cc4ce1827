"""The endpoints of Services: the ready pods that each selects, and the port of each. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from launcher.core.json_access import as_object, as_objects, text
from launcher.core.pods.observed_pod import has_terminated, is_deleted
from launcher.node.network.pod_network import TCP, Endpoint
from launcher.node.pods.pod_spec import containers_of
from launcher.store.interface import Key, Object, key_of
from launcher.store.service_store import HEADLESS


@dataclass(frozen=True, slots=True)
class ServicePort:
    """A port of a Service with its endpoints."""

    service: Key
    protocol: str
    cluster_ip: str
    port: int
    #: 0 if it has none.
    node_port: int
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True, slots=True)
class PortMapping:
    """A port of a Service, as its spec has it."""

    protocol: str
    port: int
    #: A number, or the name of a port of the pods.
    target: int | str
    node_port: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class SelectedPod:
    """A pod that Services may select."""

    address: str
    labels: Mapping[str, str]
    is_ready: bool
    #: The numbers of its named ports, by protocol and name.
    ports: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class ProxiedService:
    """A Service with a selector; the cluster IP of a headless one is empty."""

    key: Key
    uid: str
    selector: Mapping[str, str]
    includes_unready: bool
    cluster_ip: str
    ports: tuple[PortMapping, ...]

    def selects(self, pod: SelectedPod) -> bool:
        return self.selector.items() <= pod.labels.items()


def selected_pod(pod: Object) -> SelectedPod | None:
    """The pod's address, labels and ports; None while it has no address, and once it has terminated."""
    status = as_object(pod.get("status"))
    address = text(status.get("podIP"))
    if not address or has_terminated(pod):
        return None
    is_ready = has_ready_condition(pod) and not is_deleted(pod)
    return SelectedPod(address, _texts(pod["metadata"].get("labels")), is_ready, _named_ports(pod))


def has_ready_condition(pod: Object) -> bool:
    """Whether the containers of the pod are ready; it may be about to end."""
    return any(
        (each.get("type"), each.get("status")) == ("Ready", "True")
        for each in as_objects(as_object(pod.get("status")).get("conditions"))
    )


def _named_ports(pod: Object) -> Mapping[tuple[str, str], int]:
    return {
        (port.get("protocol", TCP), port["name"]): port["containerPort"]
        for container in containers_of(pod)
        for port in container.spec.get("ports") or ()
        if port.get("name")
    }


def proxied_service(service: Object) -> ProxiedService | None:
    """The Service; None without a selector or without a cluster IP. Raises TypeError, ValueError."""
    found = selecting_service(service)
    return found if found is not None and found.cluster_ip else None


def selecting_service(service: Object) -> ProxiedService | None:
    """The Service, which may be headless; None without a selector. Raises TypeError, ValueError."""
    spec = as_object(service.get("spec"))
    selector, cluster_ip = _texts(spec.get("selector")), text(spec.get("clusterIP"))
    if not selector or spec.get("type") == "ExternalName":
        return None
    return ProxiedService(
        key_of(service),
        service["metadata"]["uid"],
        selector,
        bool(spec.get("publishNotReadyAddresses")),
        str(IPv4Address(cluster_ip)) if cluster_ip and cluster_ip != HEADLESS else "",
        tuple(map(_port_mapping, as_objects(spec.get("ports")))),
    )


def _port_mapping(port: Object) -> PortMapping:
    target = port.get("targetPort") or port.get("port")
    numbers = port.get("port"), port.get("nodePort") or 0
    if not all(isinstance(number, int) for number in numbers) or not isinstance(target, int | str):
        raise TypeError("spec.ports has a port that is not a number")
    protocol, name = text(port.get("protocol")) or TCP, text(port.get("name")) or ""
    return PortMapping(protocol, int(port["port"]), target, numbers[1], name)


def _texts(value: Any) -> Mapping[str, str]:
    entries = as_object(value)
    if not all(isinstance(each, str) for each in entries.values()):
        raise TypeError("labels and selectors must be strings")
    return entries


def service_ports(service: ProxiedService, pods: Iterable[SelectedPod]) -> Iterator[ServicePort]:
    """Every port of the Service with the endpoints of those *pods* that it selects."""
    selected = [pod for pod in pods if service.selects(pod) and (pod.is_ready or service.includes_unready)]
    for port in service.ports:
        endpoints = {
            Endpoint(pod.address, number)
            for pod in selected
            if (number := target_port(port, pod)) is not None
        }
        ordered = tuple(sorted(endpoints, key=lambda each: (each.address, each.port)))
        yield ServicePort(service.key, port.protocol, service.cluster_ip, port.port, port.node_port, ordered)


def target_port(port: PortMapping, pod: SelectedPod) -> int | None:
    """The port of the pod to which the port of a Service is mapped; None if the pod has no port of that name."""
    return port.target if isinstance(port.target, int) else pod.ports.get((port.protocol, port.target))


def is_bound_by_pods(port: ServicePort) -> bool:
    """
    Whether a pod may itself listen on the port of the cluster IP, so that nothing else must.

    In the network of the machine, a program that listens on all addresses also listens on those of Services, and cannot
    start if another one does.
    """
    return IPv4Address(port.cluster_ip).is_loopback and any(
        endpoint.port == port.port for endpoint in port.endpoints
    )
