"""Forwards the datagrams of a port to pods, and those of a pod back to the client that sent to it before."""

import asyncio
import random
import socket
from collections.abc import Sequence
from typing import Any

from launcher.core.errors import Unavailable
from launcher.node.network.pod_network import Endpoint, PodNetwork

#: The time after which a client that sends and receives nothing is forgotten, as by the kernel's address translation.
_IDLE_SECONDS = 120.0
#: Clients of one port, and datagrams of one client until its socket is open. Further ones are dropped.
_MAX_CLIENTS, _MAX_WAITING = 1024, 64


class UdpForwarder(asyncio.DatagramProtocol):
    """The clients of one port, each with a socket to one of the endpoints, which is selected at random."""

    def __init__(self, network: PodNetwork, endpoints: Sequence[Endpoint]) -> None:
        self._network, self._endpoints = network, endpoints
        self._transport: asyncio.DatagramTransport | None = None
        self._clients: dict[Any, _UdpClient] = {}

    @classmethod
    async def listen(
        cls, listener: socket.socket, network: PodNetwork, endpoints: Sequence[Endpoint]
    ) -> "UdpForwarder":
        """Forwards the datagrams of *listener*, which is bound to a port."""
        loop = asyncio.get_running_loop()
        _, forwarder = await loop.create_datagram_endpoint(lambda: cls(network, endpoints), sock=listener)
        return forwarder

    def replace(self, endpoints: Sequence[Endpoint]) -> None:
        """Forwards to these endpoints only: clients of others get another one with their next datagram."""
        self._endpoints = endpoints
        for client in list(self._clients.values()):
            if client.endpoint not in endpoints:
                client.close()

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
            if len(self._clients) >= _MAX_CLIENTS or not self._endpoints:
                return
            endpoint = random.choice(self._endpoints)  # noqa: S311  # no secret
            client = self._clients[addr] = _UdpClient(self, addr, endpoint)
            client.open(self._network)
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

    def __init__(self, forwarder: UdpForwarder, address: Any, endpoint: Endpoint) -> None:
        self._forwarder, self._address, self.endpoint = forwarder, address, endpoint
        self._transport: asyncio.DatagramTransport | None = None
        self._waiting: list[bytes] = []
        self._opening: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def open(self, network: PodNetwork) -> None:
        """Begins to open the socket; datagrams wait until it is."""
        self._opening = asyncio.create_task(self._open(network))

    async def _open(self, network: PodNetwork) -> None:
        try:
            opened = await network.open_socket(self.endpoint.address, kind=socket.SOCK_DGRAM)
            opened.setblocking(False)
            opened.connect(self.endpoint)
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


def bound_socket(opened: socket.socket, host: str, port: int) -> socket.socket:
    """The socket, which is bound and does not block. Raises OSError, and closes it."""
    try:
        opened.bind((host, port))
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened
