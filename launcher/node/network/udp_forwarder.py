"""Forwards the datagrams of a host port to a pod, and those of the pod back to the client that sent to it before."""

import asyncio
import socket
from typing import Any

from launcher.core.errors import Unavailable
from launcher.node.network.pod_network import PodNetwork

#: The time after which a client that sends and receives nothing is forgotten, as by the kernel's address translation.
_IDLE_SECONDS = 120.0
#: Clients of one port, and datagrams of one client until its socket is open. Further ones are dropped.
_MAX_CLIENTS, _MAX_WAITING = 1024, 64


class UdpForwarder(asyncio.DatagramProtocol):
    """The clients of one host port, each with a socket to the port of the pod."""

    def __init__(self, network: PodNetwork, address: str, port: int) -> None:
        """Datagrams are forwarded to *port* of the pod at *address*."""
        self._network, self._target = network, (address, port)
        self._transport: asyncio.DatagramTransport | None = None
        self._clients: dict[Any, _UdpClient] = {}

    @classmethod
    async def listen(
        cls, host: str, host_port: int, network: PodNetwork, address: str, port: int
    ) -> "UdpForwarder":
        """Listens at *host_port*. Raises OSError."""
        loop = asyncio.get_running_loop()
        _, forwarder = await loop.create_datagram_endpoint(
            lambda: cls(network, address, port), local_addr=(host, host_port)
        )
        return forwarder

    def close(self) -> None:
        """Ends the forwarding."""
        if self._transport is not None:
            self._transport.close()
        for client in list(self._clients.values()):
            client.close()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # its real type
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        client = self._clients.get(addr)
        if client is None:
            if len(self._clients) >= _MAX_CLIENTS:
                return
            client = self._clients[addr] = _UdpClient(self, addr)
            client.open(self._network, self._target)
        client.send(data)

    def respond(self, data: bytes, address: Any) -> None:
        """Sends a datagram of the pod to the client at *address*."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(data, address)

    def remove(self, address: Any) -> None:
        """Forgets the client at *address*."""
        self._clients.pop(address, None)


class _UdpClient(asyncio.DatagramProtocol):
    """The socket to the pod for one client."""

    def __init__(self, forwarder: UdpForwarder, address: Any) -> None:
        self._forwarder, self._address = forwarder, address
        self._transport: asyncio.DatagramTransport | None = None
        self._waiting: list[bytes] = []
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self, network: PodNetwork, target: tuple[str, int]) -> None:
        """Begins to open the socket; datagrams wait until it is."""
        self._opening = asyncio.create_task(self._open(network, target))

    async def _open(self, network: PodNetwork, target: tuple[str, int]) -> None:
        try:
            opened = await network.open_socket(target[0], kind=socket.SOCK_DGRAM)
            opened.setblocking(False)
            opened.connect(target)
            await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=opened)
        except (OSError, Unavailable):
            self.close()  # as if the datagram was lost

    def send(self, data: bytes) -> None:
        """Sends a datagram of the client to the pod."""
        self._restart_timer()
        if self._transport is not None:
            self._transport.sendto(data)
        elif len(self._waiting) < _MAX_WAITING:
            self._waiting.append(data)

    def close(self) -> None:
        """Closes the socket."""
        self._forwarder.remove(self._address)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
        elif self._opening is not None and self._opening is not asyncio.current_task():
            self._opening.cancel()

    def _restart_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.close)

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # its real type
        self._transport = transport
        for data in self._waiting:
            transport.sendto(data)
        self._waiting.clear()

    def datagram_received(self, data: bytes, addr: Any) -> None:  # noqa: ARG002  # that of the pod
        self._restart_timer()
        self._forwarder.respond(data, self._address)

    def error_received(self, exc: Exception) -> None:
        """Does nothing: the pod does not listen yet, and the client sends again."""
