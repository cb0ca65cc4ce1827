"""
The kernel's part of a pod network: a bridge, and for each pod a network namespace that is connected to it.

Everything is found again by its name: after a crash the same calls complete what was begun. All methods block, and
move the calling thread between namespaces, so they run in a thread of their own.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from pyroute2 import IPRoute

from launcher.node.network import conntrack, link_messages, namespaces, nat, nftables, service_rules
from launcher.node.network.pod_network import Endpoint, ListenAddress
from launcher.node.network.subnet import cluster_ips, gateway

_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
#: The first port for which no privilege is needed.
_UNPRIVILEGED_PORTS = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
#: That of Ethernet, for a machine without a default route.
_DEFAULT_MTU = 1500
#: The request for the MTU of an interface: its name, and room for the result.
_SIOCGIFMTU, _MTU_REQUEST = 0x8921, "16si20x"
#: The interface of a pod.
_POD_INTERFACE = "eth0"
_LOOPBACK_INDEX = 1
#: The resolution of addresses by an interface. The kernel begins to forward packets of a new one in the background, and
#: requests are lost until then: they are repeated after 0.1 instead of 1 second, for 3 seconds as by default.
_RESOLUTION = {"retrans_time_ms": "100\n", "mcast_solicit": "30\n"}
#: The numbers of the kernel for routes to addresses of the machine itself.
_LOCAL_ROUTE, _LOCAL_TABLE, _HOST_SCOPE = 2, 255, 254


class Bridge:
    """The bridge of one launcher, named after *network_id*, which has eight letters or digits."""

    def __init__(self, network_id: str, directory: Path) -> None:
        """The namespaces of the pods are mounted in *directory*."""
        self.network_id = network_id
        self.name, self._veth = f"fl-{network_id}", f"fl{network_id}"
        self._table = f"framework_launcher_{network_id}"
        self._service_table = f"{self._table}_services"
        #: That of all its interfaces. 0 is that of all others.
        self._group = int(network_id, 36) % 0x7FFFFFFF + 1
        self._directory = directory

    def create(self, subnet: IPv4Network) -> None:
        """Creates the bridge with the first address of *subnet*, unless it exists. Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with IPRoute() as ip:
            found = ip.link_lookup(ifname=self.name)
            if not found:
                # A fixed address: otherwise it changes with the interfaces that are connected.
                ip.link("add", ifname=self.name, kind="bridge", address=_hardware_address(subnet))
                found = ip.link_lookup(ifname=self.name)
            ip.addr("replace", index=found[0], address=str(gateway(subnet)), prefixlen=subnet.prefixlen)
            ip.link("set", index=found[0], state="up", mtu=_outside_mtu(ip), group=self._group)
            _resolve_fast(self.name)
            # Every address of a Service is one of the machine, which refuses connections that nothing else handles.
            ip.route(
                "replace",
                type=_LOCAL_ROUTE,
                table=_LOCAL_TABLE,
                scope=_HOST_SCOPE,
                dst=str(cluster_ips(subnet)),
                prefsrc=str(gateway(subnet)),
                oif=found[0],
            )

    def connect_outside(self, subnet: IPv4Network) -> str:
        """Lets pods reach what the machine reaches. Returns why that is not possible, or an empty string."""
        try:
            nat.add_rules(self._table, self.name, subnet)
        except nftables.NftablesError as error:
            return f"{error}; build or load nf_tables and nft_masq"
        return _enable_forwarding()

    def open_services(self, subnet: IPv4Network) -> str:
        """Lets the kernel forward the ports of Services. Returns why that is not possible, or an empty string."""
        try:
            service_rules.open_table(self._service_table, self.name, subnet, cluster_ips(subnet))
        except nftables.NftablesError as error:
            return str(error)
        return _enable_forwarding()

    def service_ports(self) -> Sequence[ListenAddress]:
        """The ports that the kernel forwards, also those of an earlier launcher. Raises OSError."""
        return sorted(service_rules.forwarded_ports(self._service_table))

    def replace_services(
        self, ports: Mapping[ListenAddress, Sequence[Endpoint]], deleted: Sequence[ListenAddress]
    ) -> None:
        """Forwards these ports, and those of *deleted* no longer. Others stay as they are. Raises OSError."""
        service_rules.replace(self._service_table, ports, deleted)
        conntrack.delete_stale_flows({**dict.fromkeys(deleted, ()), **ports})

    def close_services(self) -> None:
        """Ends the forwarding of all ports of Services."""
        nftables.delete_table(self._service_table)

    def attach(self, uid: str, address: IPv4Address, subnet: IPv4Network, process: int | None = None) -> None:
        """
        Creates the pod's namespace and connects it, unless that is done.

        With *process*, it is the namespace of the process, instead of one of an earlier process.
        """
        file = self._directory / uid
        if process is None:
            namespaces.create(file)
        elif not namespaces.is_namespace_of(process, file):
            self.detach(uid)
            namespaces.mount_from(process, file)
        with namespaces.inside(file):
            is_connected = bool(_index_of(_POD_INTERFACE))
        if not is_connected:
            self._connect(file, f"{self._veth}{int(address) & 0xFFFF:04x}")
        with namespaces.inside(file):
            # As container engines do: a program that is not root may listen on port 80 of its own network.
            _UNPRIVILEGED_PORTS.write_text("0\n")
            _resolve_fast(_POD_INTERFACE)
            index = _index_of(_POD_INTERFACE)
            link_messages.execute(
                link_messages.link_up(_LOOPBACK_INDEX),
                link_messages.interface_address(index, address, subnet.prefixlen),
                link_messages.link_up(index),
                link_messages.default_route(gateway(subnet)),
            )

    def _connect(self, file: Path, interface: str) -> None:
        """Creates the *interface*, whose other end is in the namespace of *file*."""
        if former := _index_of(interface):
            # That of a namespace that the kernel has not removed yet, and may remove now.
            with suppress(OSError):
                link_messages.execute(link_messages.link_deletion(former))
        port = link_messages.BridgePort(_index_of(self.name), self._group, _mtu_of(self.name))
        with _opened(file) as namespace:
            link_messages.execute(link_messages.veth_pair(interface, port, _POD_INTERFACE, namespace))
        # For a pod that reaches itself by its Service, where bridges pass the rules of nftables (br_netfilter).
        link_messages.execute(link_messages.hairpin_mode(_index_of(interface)))

    def detach(self, uid: str) -> None:
        """Removes the pod's namespace. The kernel removes its interface, once no process is in the namespace."""
        namespaces.remove(self._directory / uid)

    def namespace(self, uid: str) -> Path | None:
        """The file on which the pod's namespace is mounted; None if there is none."""
        file = self._directory / uid
        return file if namespaces.is_namespace(file) else None

    def open_socket(self, uid: str, family: int, kind: int) -> socket.socket:
        """A socket in the network of the pod, or without *uid* in that of the bridge. Raises OSError."""
        if not uid:
            return socket.socket(family, kind)
        with namespaces.inside(self._directory / uid):
            return socket.socket(family, kind)

    def pod_uids(self) -> list[str]:
        """The pods that have a namespace file."""
        return [file.name for file in self._directory.glob("[!.]*")]

    def is_in_use(self) -> bool:
        """Whether a process is in the namespace of a pod."""
        return namespaces.are_in_use(self._directory.glob("[!.]*"))

    def remove(self) -> None:
        """Removes everything."""
        for uid in self.pod_uids():
            self.detach(uid)
        nftables.delete_table(self._table)
        nftables.delete_table(self._service_table)
        with suppress(OSError):  # there are none
            link_messages.execute(link_messages.group_deletion(self._group))
        with suppress(OSError):
            self._directory.rmdir()


def machine_networks() -> list[IPv4Network]:
    """The networks to which this machine has routes or addresses, in all routing tables."""
    with IPRoute() as ip:
        routes = [
            f"{destination}/{route['dst_len']}"
            for route in ip.get_routes(family=socket.AF_INET)
            if (destination := route.get_attr("RTA_DST")) is not None
        ]
        addresses = [
            f"{address.get_attr('IFA_ADDRESS')}/{address['prefixlen']}"
            for address in ip.get_addr(family=socket.AF_INET)
        ]
    return [IPv4Network(text, strict=False) for text in (*routes, *addresses)]


def _enable_forwarding() -> str:
    """Lets the machine forward packets. Returns why that is not possible, or an empty string."""
    try:
        if _FORWARDING.read_text().strip() != "1":
            _FORWARDING.write_text("1\n")
    except OSError as error:
        return f"packets cannot be forwarded: {_FORWARDING}: {error.strerror}"
    return ""


def _index_of(interface: str) -> int:
    """The index of the interface in the network namespace of this thread; 0 if it does not exist."""
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        return 0


def _resolve_fast(interface: str) -> None:
    # A normal user does not have these settings.
    with suppress(FileNotFoundError):
        for name, value in _RESOLUTION.items():
            Path(f"/proc/sys/net/ipv4/neigh/{interface}/{name}").write_text(value)


def _outside_mtu(ip: IPRoute) -> int:
    """The largest packet that each interface with a default route can send: pods reach the outside through them."""
    routes = ip.get_default_routes(family=socket.AF_INET)
    outside = {index for route in routes if (index := route.get_attr("RTA_OIF")) is not None}
    return min((ip.get_links(index)[0].get_attr("IFLA_MTU") for index in outside), default=_DEFAULT_MTU)


def _mtu_of(interface: str) -> int:
    request = struct.pack(_MTU_REQUEST, interface.encode(), 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        mtu: int = struct.unpack(_MTU_REQUEST, fcntl.ioctl(any_socket, _SIOCGIFMTU, request))[1]
        return mtu


@contextmanager
def _opened(file: Path) -> Iterator[int]:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _hardware_address(subnet: IPv4Network) -> str:
    """A locally administered address that is unique like the *subnet*."""
    return ":".join(f"{byte:02x}" for byte in b"\x02\x42" + subnet.network_address.packed)
