"""
The service proxy of local mode, as kube-proxy on a cluster: connections to Services reach their ready pods.

Cluster IPs of isolated pods are forwarded by the kernel where it can. This process forwards others, and node ports.
"""

import asyncio
import errno
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress

from launcher.core.errors import Unavailable
from launcher.core.events import ObjectEvent
from launcher.node.network.pod_network import TCP, UDP, ListenAddress, PodNetwork
from launcher.node.services.endpoints import (
    ProxiedService,
    SelectedPod,
    ServicePort,
    is_bound_by_pods,
    proxied_service,
    selected_pod,
    service_ports,
)
from launcher.node.services.service_forwarder import ServiceForwarder
from launcher.store.backoff import wait_or_timeout
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, SharedInformers
from launcher.store.interface import PODS, SERVICES, Key, Object

log = logging.getLogger(__name__)

_COMPONENT = "service-proxy"
_ANY = "0.0.0.0"  # noqa: S104  # node ports are those of all addresses of the machine
#: Changes within this time are handled together.
_COALESCE_SECONDS = 0.02
#: The largest part of the time that is spent on changes.
_MAX_SHARE = 0.1
#: Another program may have released a port.
_RETRY_SECONDS = 5.0


class ServiceProxy:
    """Keeps the forwarded ports equal to the Services and pods of the store."""

    def __init__(self, informers: SharedInformers, network: PodNetwork, events: EventRecorder) -> None:
        self._network, self._forwarder, self._events = network, ServiceForwarder(network), events
        services = EventHandlerFuncs(self._upsert_service, self._delete_service)
        pods = EventHandlerFuncs(self._upsert_pod, self._delete_pod)
        self._informers = (
            informers.add_event_handler(SERVICES, services, component=_COMPONENT),
            informers.add_event_handler(PODS, pods, component=_COMPONENT),
        )
        self._services: dict[Key, ProxiedService] = {}
        #: By namespace and name.
        self._pods: dict[str, dict[str, SelectedPod]] = {}
        self._changed = asyncio.Event()
        #: The messages that were recorded for addresses at which nothing listens.
        self._reported: Mapping[ListenAddress, str] = {}

    async def run(self) -> None:
        """Applies changes until cancelled; then this process forwards no port."""
        for informer in self._informers:
            await informer.synced.wait()
        clock = asyncio.get_running_loop().time
        try:
            while True:
                await self._wait_for_change()
                await asyncio.sleep(_COALESCE_SECONDS)
                self._changed.clear()
                started_at = clock()
                await self._sync()
                await asyncio.sleep((clock() - started_at) / _MAX_SHARE)
        finally:
            self._forwarder.close()

    async def _wait_for_change(self) -> None:
        if self._reported:
            await wait_or_timeout(self._changed, _RETRY_SECONDS)
        else:
            await self._changed.wait()

    # Changes

    def _upsert_service(self, key: Key, service: Object) -> None:
        new = proxied_service(service)
        if new is None:
            self._delete_service(key)
        elif self._services.get(key) != new:
            self._services[key] = new
            self._changed.set()

    def _delete_service(self, key: Key) -> None:
        if self._services.pop(key, None) is not None:
            self._changed.set()

    def _upsert_pod(self, key: Key, pod: Object) -> None:
        self._set_pod(key, selected_pod(pod))

    def _delete_pod(self, key: Key) -> None:
        self._set_pod(key, None)

    def _set_pod(self, key: Key, pod: SelectedPod | None) -> None:
        namespace, name = key
        pods = self._pods.setdefault(namespace, {})
        before = pods.pop(name, None)
        if pod is not None:
            pods[name] = pod
        if not pods:
            del self._pods[namespace]
        versions = [each for each in (before, pod) if each is not None]
        if before != pod and any(
            service.selects(version)
            for service in self._services.values()
            if service.key[0] == namespace
            for version in versions
        ):
            self._changed.set()

    # Ports

    async def _sync(self) -> None:
        ports = {address: port for port in self._ports() for address in _listen_addresses(port)}
        endpoints = {address: port.endpoints for address, port in ports.items()}
        cluster_ips = {address: endpoints[address] for address in endpoints if address.host != _ANY}
        by_kernel = cluster_ips.keys() - await self._network.forward(cluster_ips)
        errors = await self._forwarder.replace(
            {address: endpoints[address] for address in endpoints.keys() - by_kernel}
        )
        messages = {address: _message(address, error) for address, error in errors.items()}
        for address in messages:
            if self._reported.get(address) != messages[address]:
                self._report(ports[address].service, messages[address])
        self._reported = messages

    def _ports(self) -> Iterator[ServicePort]:
        for service in self._services.values():
            yield from service_ports(service, self._pods.get(service.key[0], {}).values())

    def _report(self, key: Key, message: str) -> None:
        log.warning("port of a Service not forwarded", extra={"service": key, "error": message})
        with suppress(KeyError):  # it was deleted meanwhile
            metadata = {"namespace": key[0], "name": key[1], "uid": self._services[key].uid}
            service = {"apiVersion": SERVICES.api_version, "kind": SERVICES.kind, "metadata": metadata}
            self._events.record(service, [ObjectEvent("ListenFailed", message, warning=True)])


def _listen_addresses(port: ServicePort) -> Iterator[ListenAddress]:
    """Where connections to the port arrive: nowhere without endpoints, so that they are refused."""
    if port.protocol not in (TCP, UDP) or not port.endpoints:
        return
    if not is_bound_by_pods(port):
        yield ListenAddress(port.protocol, port.cluster_ip, port.port)
    if port.node_port:
        yield ListenAddress(port.protocol, _ANY, port.node_port)


def _message(address: ListenAddress, error: OSError | Unavailable) -> str:
    reasons = {
        errno.EACCES: "only root can listen on a port below 1024: use a higher port, or the port of the pod",
        errno.EADDRINUSE: "another program listens on it: end that program, or choose another port",
    }
    number = error.errno if isinstance(error, OSError) else None
    reason = reasons.get(number or 0, str(error))
    return f"Connections to {address.host}:{address.port} do not reach the pods: {reason}."
