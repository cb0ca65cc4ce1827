"""The EndpointSlices and Endpoints of Services, as the controllers of a cluster write them. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from uuid import NAMESPACE_OID, uuid5

from launcher.core.json_access import as_object
from launcher.core.pods.observed_pod import is_deleted, node_name
from launcher.node.services.endpoints import (
    ProxiedService,
    SelectedPod,
    has_ready_condition,
    selected_pod,
    selecting_service,
    target_port,
)
from launcher.store.interface import ENDPOINT_SLICES, ENDPOINTS, Object, key_of

#: Those of Kubernetes.
_MAX_SLICE_ENDPOINTS, _MAX_ADDRESSES = 100, 1000
_SERVICE_NAME = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"

#: Name, protocol and number of each port of a pod to which a Service forwards.
_Ports = tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class _Target:
    """A pod with an address that the Service selects."""

    pod: Object
    address: str
    is_ready: bool


def endpoint_slices(service: Object, pods: Iterable[Object]) -> Sequence[Object]:
    """The EndpointSlices of the Service, of which *pods* may contain others; none if it has no selector."""
    parsed = selecting_service(service)
    if parsed is None:
        return ()
    groups = _targets_by_ports(parsed, pods)
    parts = [(ports, part) for ports, group in groups.items() for part in _parts(group)]
    # A Service without pods has a slice without endpoints.
    return [
        {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.kind,
            "metadata": _slice_metadata(service, index),
            "addressType": "IPv4",
            "endpoints": [_slice_endpoint(target) for target in part],
            "ports": _port_objects(ports),
        }
        for index, (ports, part) in enumerate(parts or [((), [])])
    ]


def endpoints_object(service: Object, pods: Iterable[Object]) -> Sequence[Object]:
    """The Endpoints of the Service, of which *pods* may contain others; none if it has no selector."""
    parsed = selecting_service(service)
    if parsed is None:
        return ()
    groups = _targets_by_ports(parsed, pods)
    metadata = _metadata(service, service["metadata"]["name"])
    if sum(map(len, groups.values())) > _MAX_ADDRESSES:
        metadata["annotations"] = {_OVER_CAPACITY: "truncated"}
    return [
        {
            "apiVersion": ENDPOINTS.api_version,
            "kind": ENDPOINTS.kind,
            "metadata": metadata,
            "subsets": list(_subsets(groups)),
        }
    ]


def _targets_by_ports(service: ProxiedService, pods: Iterable[Object]) -> dict[_Ports, list[_Target]]:
    """The pods with the same ports are listed together."""
    groups: dict[_Ports, list[_Target]] = {}
    for pod in pods:
        selected = selected_pod(pod)
        if selected is not None and service.selects(selected):
            target = _Target(pod, selected.address, selected.is_ready or service.includes_unready)
            groups.setdefault(_ports(service, selected), []).append(target)
    return groups


def _ports(service: ProxiedService, pod: SelectedPod) -> _Ports:
    return tuple(
        (port.name, port.protocol, number)
        for port in service.ports
        if (number := target_port(port, pod)) is not None
    )


def _parts(targets: Iterable[_Target]) -> Iterator[list[_Target]]:
    remaining = iter(targets)
    while part := list(islice(remaining, _MAX_SLICE_ENDPOINTS)):
        yield part


def _subsets(groups: dict[_Ports, list[_Target]]) -> Iterator[Object]:
    free = _MAX_ADDRESSES
    for ports, group in groups.items():
        targets, free = group[:free], max(free - len(group), 0)
        addresses = {
            "addresses": [_address(target) for target in targets if target.is_ready],
            "notReadyAddresses": [_address(target) for target in targets if not target.is_ready],
        }
        if targets:
            yield {name: each for name, each in addresses.items() if each} | {"ports": _port_objects(ports)}


def _slice_endpoint(target: _Target) -> Object:
    conditions = {
        "ready": target.is_ready,
        "serving": has_ready_condition(target.pod),
        "terminating": is_deleted(target.pod),
    }
    return {"addresses": [target.address], "conditions": conditions, **_pod_reference(target.pod)}


def _address(target: _Target) -> Object:
    return {"ip": target.address, **_pod_reference(target.pod)}


def _pod_reference(pod: Object) -> Object:
    namespace, name = key_of(pod)
    reference = {"kind": "Pod", "namespace": namespace, "name": name, "uid": pod["metadata"]["uid"]}
    return {"nodeName": node_name(pod) or "", "targetRef": reference}


def _port_objects(ports: _Ports) -> list[Object]:
    return [{"name": name, "port": number, "protocol": protocol} for name, protocol, number in ports]


def _slice_metadata(service: Object, index: int) -> Object:
    name = service["metadata"]["name"]
    metadata = _metadata(service, f"{name}-{index}")
    owner = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": service["metadata"]["uid"]}
    labels = {**metadata["labels"], _SERVICE_NAME: name, _MANAGED_BY: "framework-launcher"}
    return {
        **metadata,
        "labels": labels,
        "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
    }


def _metadata(service: Object, name: str) -> Object:
    own = service["metadata"]
    return {
        "name": name,
        "namespace": own["namespace"],
        "uid": str(uuid5(NAMESPACE_OID, f"{own['uid']}/{name}")),
        "creationTimestamp": own["creationTimestamp"],
        "labels": dict(as_object(own.get("labels"))),
    }
