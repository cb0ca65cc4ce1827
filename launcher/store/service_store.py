"""
A store that allocates cluster IPs and node ports to Services, as kube-apiserver does.

An address belongs to one Service, from its creation until its deletion. Which are in use is read from the stored
Services, one write after another, so that no other record can differ from them.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from launcher.core.errors import FieldError, InvalidObject, Unavailable
from launcher.core.json_access import as_list, as_object, text
from launcher.core.validation.field_errors import duplicate, forbidden, invalid
from launcher.store.forwarding_store import ForwardingStore
from launcher.store.interface import SERVICES, Key, Object, ResourceKind, Store, key_of
from launcher.store.object_errors import object_errors

#: Those of kube-apiserver.
NODE_PORTS: Final = range(30000, 32768)
#: The cluster IP of a headless Service.
HEADLESS: Final = "None"
_EXTERNAL_NAME: Final = "ExternalName"
_NODE_PORT_TYPES: Final = ("NodePort", "LoadBalancer")


@dataclass(frozen=True, slots=True)
class _Allocated:
    """What other Services have."""

    addresses: Collection[str]
    node_ports: Collection[int]


class ServiceStore(ForwardingStore):
    """Forwards to *store*; a Service that is created or updated gets defaults, a cluster IP and node ports."""

    def __init__(
        self, store: Store, cluster_ips: IPv4Network, choose: Callable[[int], int] = random.randrange
    ) -> None:
        """*choose* returns a number below its argument, at which the search for a free address or port begins."""
        super().__init__(store)
        self.cluster_ips, self._choose = cluster_ips, choose
        self._lock = asyncio.Lock()

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        if kind != SERVICES:
            return await super().create(kind, obj, dry_run=dry_run)
        service = _with_defaults(obj)
        if not _needs_cluster_ip(service):
            return await super().create(kind, service, dry_run=dry_run)
        async with self._lock:
            return await super().create(kind, await self._allocate(service), dry_run=dry_run)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        if kind != SERVICES:
            return await super().update(kind, obj, dry_run=dry_run)
        async with self._lock:
            stored = await self.get(kind, *key_of(obj))
            service = _with_defaults(_with_stored_values(stored, obj))
            if _needs_cluster_ip(service):
                service = await self._allocate(service)
            return await super().update(kind, service, dry_run=dry_run)

    async def repair(self) -> None:
        """Allocates what stored Services lack, as those of an earlier release, or of another range, do."""
        for service in (await self.list(SERVICES)).items:
            with object_errors.handling("service-store", SERVICES.plural, key_of(service)):
                await self._repair(service)

    async def _repair(self, service: Object) -> None:
        spec = dict(as_object(service.get("spec")))
        has_address = self._is_in_range(spec.get("clusterIP"))
        lacks_ports = spec.get("type") in _NODE_PORT_TYPES and not all(
            port.get("nodePort") for port in _ports(spec)
        )
        if not spec or not _needs_cluster_ip(service) or (has_address and not lacks_ports):
            return
        if not has_address:
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
        async with self._lock:
            await super().update(SERVICES, await self._allocate(_with_defaults({**service, "spec": spec})))

    async def _allocate(self, service: Object) -> Object:
        """Returns the Service with its cluster IP and node ports. Raises InvalidObject, Unavailable."""
        others = await self._allocated(
            except_for=key_of(service) if service["metadata"].get("name") else None
        )
        spec = service["spec"]
        if errors := [*self._address_errors(spec, others), *_node_port_errors(spec, others)]:
            raise InvalidObject(tuple(errors))
        address = spec.get("clusterIP") or self._free_address(others)
        allocated = {**spec, "clusterIP": address, "clusterIPs": [address]}
        if spec["type"] in _NODE_PORT_TYPES:
            allocated["ports"] = self._with_node_ports(_ports(spec), others)
        return {**service, "spec": allocated}

    async def _allocated(self, except_for: Key | None) -> _Allocated:
        specs = [
            as_object(service.get("spec"))
            for service in (await self.list(SERVICES)).items
            if key_of(service) != except_for
        ]
        return _Allocated(
            {address for spec in specs if (address := text(spec.get("clusterIP")))},
            {
                number
                for spec in specs
                for port in _ports(spec)
                if isinstance(number := port.get("nodePort"), int) and number
            },
        )

    def _address_errors(self, spec: Object, others: _Allocated) -> Iterator[FieldError]:
        address = spec.get("clusterIP")
        if len(as_list(spec.get("clusterIPs"))) > 1:
            yield invalid("spec.clusterIPs", spec["clusterIPs"], "must have one address, of IPv4")
        elif not address:
            return
        elif not self._is_in_range(address):
            yield invalid("spec.clusterIP", address, f"must be in the range {self.cluster_ips}")
        elif address in others.addresses:
            yield invalid("spec.clusterIP", address, "provided IP is already allocated")

    def _is_in_range(self, address: Any) -> bool:
        try:
            number = IPv4Address(address)
        except ValueError:
            return False
        return self.cluster_ips.network_address < number < self.cluster_ips.broadcast_address

    def _free_address(self, others: _Allocated) -> str:
        # Neither the first address nor the last: they denote the network.
        size, first = self.cluster_ips.num_addresses - 2, self.cluster_ips.network_address + 1
        start = self._choose(size)
        for offset in range(size):
            if (address := str(first + (start + offset) % size)) not in others.addresses:
                return address
        raise Unavailable(f"all cluster IPs of {self.cluster_ips} are allocated")

    def _with_node_ports(self, ports: list[Object], others: _Allocated) -> list[Object]:
        used = {*others.node_ports, *(port.get("nodePort") for port in ports)}
        result = []
        for port in ports:
            number = port.get("nodePort") or self._free_node_port(used)
            used.add(number)
            result.append({**port, "nodePort": number})
        return result

    def _free_node_port(self, used: Collection[Any]) -> int:
        start = self._choose(len(NODE_PORTS))
        for offset in range(len(NODE_PORTS)):
            if (number := NODE_PORTS[(start + offset) % len(NODE_PORTS)]) not in used:
                return number
        raise Unavailable("all node ports are allocated")


def _needs_cluster_ip(service: Object) -> bool:
    spec = as_object(service.get("spec"))
    return spec.get("type") != _EXTERNAL_NAME and spec.get("clusterIP") != HEADLESS


def _ports(spec: Mapping[str, Any]) -> list[Object]:
    return [as_object(port) for port in as_list(spec.get("ports"))]


def _with_defaults(service: Object) -> Object:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **as_object(service.get("spec"))}
    if (addresses := as_list(spec.get("clusterIPs"))) and not spec.get("clusterIP"):
        spec["clusterIP"] = addresses[0]
    if spec.get("clusterIP") == HEADLESS:
        spec["clusterIPs"] = [HEADLESS]
    if "ports" in spec:
        spec["ports"] = [{"protocol": "TCP", "targetPort": port.get("port"), **port} for port in _ports(spec)]
    return {**service, "spec": spec}


def _with_stored_values(stored: Object, new: Object) -> Object:
    """Returns *new* with the allocated values of *stored* that it omits, and without those that it cannot have."""
    old_spec, spec = as_object(stored.get("spec")), dict(as_object(new.get("spec")))
    if spec.get("type") == _EXTERNAL_NAME:
        if spec.get("clusterIP") == old_spec.get("clusterIP"):
            spec.pop("clusterIP", None)
            spec.pop("clusterIPs", None)
    elif not spec.get("clusterIP") and old_spec.get("clusterIP"):
        spec |= {"clusterIP": old_spec["clusterIP"], "clusterIPs": [old_spec["clusterIP"]]}
    if "ports" in spec:
        old = {_port_key(port): port["nodePort"] for port in _ports(old_spec) if port.get("nodePort")}
        has_node_ports = spec.get("type") in _NODE_PORT_TYPES
        spec["ports"] = [_with_stored_port(port, old, has_node_ports) for port in _ports(spec)]
    return {**new, "spec": spec}


def _with_stored_port(port: Object, old: Mapping[Any, int], has_node_ports: bool) -> Object:
    number = old.get(_port_key(port))
    if number is None:
        return port
    if has_node_ports:
        return {**port, "nodePort": port.get("nodePort") or number}
    return {key: value for key, value in port.items() if (key, value) != ("nodePort", number)}


def _port_key(port: Object) -> tuple[Any, Any]:
    return port.get("port"), port.get("protocol", "TCP")


def _node_port_errors(spec: Object, others: _Allocated) -> Iterator[FieldError]:
    own: set[tuple[int, str]] = set()
    for index, port in enumerate(_ports(spec)):
        field, number = f"spec.ports[{index}].nodePort", port.get("nodePort")
        if not number:
            continue
        if spec["type"] not in _NODE_PORT_TYPES:
            yield forbidden(field, f"may not be used when `type` is {spec['type']}")
        elif number not in NODE_PORTS:
            yield invalid(field, number, f"must be between {NODE_PORTS[0]} and {NODE_PORTS[-1]}")
        elif number in others.node_ports:
            yield invalid(field, number, "provided port is already allocated")
        elif (number, port["protocol"]) in own:
            yield duplicate(field, number, "node ports of a Service must be unique")
        own.add((number, port["protocol"]))
