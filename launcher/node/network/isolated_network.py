"""The network of isolated pods: it allocates addresses, and calls the bridge in a thread."""

import asyncio
import logging
import socket
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from launcher.core.errors import Unavailable
from launcher.core.pods.observed_pod import has_terminated
from launcher.node.network.host_ports import HostPortForwarder, host_ports, unsupported_ports
from launcher.node.network.pod_addresses import PodAddresses
from launcher.node.network.pod_network import Endpoint, ListenAddress, PodBridge, PodSandbox, family_of
from launcher.node.network.resolv_conf import usable_resolv_conf
from launcher.node.network.service_forwarding import ServiceForwarding, run_in
from launcher.node.network.subnet import cluster_ips, gateway
from launcher.node.pods.pod_spec import full_name, uid_of
from launcher.store.interface import Object

log = logging.getLogger(__name__)

_RESOLV_CONF = Path("/etc/resolv.conf")
_NO_NAME_SERVER = "the name servers of /etc/resolv.conf listen only on the loopback interface of this machine"


class IsolatedPodNetwork:
    """Each pod has a network namespace and an address; the namespaces are connected by a bridge."""

    def __init__(
        self,
        bridge: PodBridge,
        addresses: PodAddresses,
        thread: ThreadPoolExecutor,
        *,
        isolates_new_pods: bool,
    ) -> None:
        """*thread* runs the calls of *bridge*. Without *isolates_new_pods*, only pods that have an address keep it."""
        self._bridge, self._addresses, self._thread = bridge, addresses, thread
        self._isolates_new_pods = isolates_new_pods
        #: The pods that this launcher has attached, and the processes whose namespaces they have.
        self._attached: dict[str, int | None] = {}
        self._unsupported: list[str] = []
        #: Why pods do not reach everything that the machine reaches; empty if they do.
        self.unreachable = ""
        self._resolv_conf: Path | None = None
        self._host_ports = HostPortForwarder(self)
        self._services = ServiceForwarding(bridge, addresses.subnet, thread)

    @property
    def subnet(self) -> IPv4Network:
        return self._addresses.subnet

    @property
    def gateway(self) -> str:
        return str(gateway(self.subnet))

    @property
    def cluster_ips(self) -> IPv4Network:
        return cluster_ips(self.subnet)

    async def open(self) -> None:
        """Connects the bridge to the outside, if that is possible. Raises Unavailable."""
        if reason := await run_in(self._thread, self._bridge.connect_outside, self.subnet):
            self.unreachable = reason
            self._unsupported.append(f"Pods reach each other, but nothing outside of this machine: {reason}.")
        resolv_conf = usable_resolv_conf()
        if resolv_conf is None:
            self.unreachable = self.unreachable or _NO_NAME_SERVER
            self._unsupported.append(f"Pods cannot resolve names of other machines: {_NO_NAME_SERVER}.")
        elif resolv_conf != _RESOLV_CONF:
            self._resolv_conf = resolv_conf

    async def close(self, *, remove_pods: bool) -> None:
        """Removes the network if it has no pods, or with *remove_pods*; otherwise the next launcher continues it."""
        self._host_ports.close_all()
        if remove_pods:
            for uid in self.pod_uids():
                await self.detach(uid)
        if not self.pod_uids():
            await run_in(self._thread, self._bridge.remove)
            self._addresses.remove()

    async def add(self, pod: Object, node_address: str) -> str:
        recorded = self._addresses.get(uid_of(pod))
        if recorded is not None:
            await self._forward_again(pod, str(recorded))
            return str(recorded)
        # A pod with an address was started by a launcher that did not isolate pods.
        known: str | None = (pod.get("status") or {}).get("podIP")
        if known or has_terminated(pod) or not self._isolates(pod):
            return known or node_address
        return str(self._addresses.allocate(uid_of(pod)))

    async def _forward_again(self, pod: Object, address: str) -> None:
        """Forwards the host ports of a pod that an earlier launcher has started."""
        try:
            await self._host_ports.open(uid_of(pod), host_ports(pod), address)
        except Unavailable as error:
            log.warning("host port not forwarded", extra={"pod": full_name(pod), "error": str(error)})

    def _isolates(self, pod: Object) -> bool:
        return self._isolates_new_pods and not pod["spec"].get("hostNetwork")

    def is_isolated(self, uid: str) -> bool:
        return self._addresses.get(uid) is not None

    async def attach(self, pod: Object, process: int | None) -> PodSandbox | None:
        uid = uid_of(pod)
        address = self._addresses.get(uid)
        if address is None:
            return None
        is_attached = self._bridge.namespace(uid) is not None and uid in self._attached
        if not is_attached or self._attached[uid] != process:
            await self._host_ports.open(uid, host_ports(pod), str(address))
            await run_in(self._thread, self._bridge.attach, uid, address, self.subnet, process)
            self._attached[uid] = process
        return self.sandbox(uid)

    def sandbox(self, uid: str) -> PodSandbox | None:
        file = self._bridge.namespace(uid)
        return PodSandbox(file, self._resolv_conf) if file is not None else None

    async def detach(self, uid: str) -> None:
        if self._addresses.get(uid) is None:
            return
        self._attached.pop(uid, None)
        self._host_ports.close(uid)
        await run_in(self._thread, self._bridge.detach, uid)
        self._addresses.release(uid)

    async def open_socket(self, address: str, uid: str = "", kind: int = socket.SOCK_STREAM) -> socket.socket:
        family = family_of(address)
        if not uid and (family is socket.AF_INET6 or not self._is_inside(address)):
            return socket.socket(family, kind)
        try:
            return await asyncio.to_thread(self._bridge.open_socket, uid, family, kind)
        except OSError as error:
            raise Unavailable(f"pod network: {error}") from error

    def _is_inside(self, address: str) -> bool:
        """Whether the address is that of a pod or of a Service."""
        return any(IPv4Address(address) in network for network in (self.subnet, self.cluster_ips))

    async def forward(
        self, endpoints: Mapping[ListenAddress, Sequence[Endpoint]]
    ) -> Collection[ListenAddress]:
        return await self._services.replace(endpoints)

    def pod_uids(self) -> Sequence[str]:
        return self._addresses.pod_uids()

    def unsupported_features(self, pod: Object) -> Sequence[str]:
        return [*self._unsupported, *unsupported_ports(pod)] if self.is_isolated(uid_of(pod)) else ()
