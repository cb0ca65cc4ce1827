"""Forwards TCP connections and UDP datagrams to ports of Services to their endpoints, in this process."""

import asyncio
import random
import socket
from collections.abc import Mapping, Sequence

from launcher.core.errors import Unavailable
from launcher.node.network.pod_network import UDP, Connection, Endpoint, ListenAddress, PodNetwork, connect
from launcher.node.network.tcp_relay import relay
from launcher.node.network.udp_forwarder import UdpForwarder, bound_socket

_CONNECT_SECONDS = 10.0


class ServiceForwarder:
    """Listens on the ports of Services that have endpoints, so that connections to others are refused."""

    def __init__(self, network: PodNetwork) -> None:
        self._network = network
        self._servers: dict[ListenAddress, asyncio.Server | UdpForwarder] = {}
        self._endpoints: Mapping[ListenAddress, Sequence[Endpoint]] = {}

    async def replace(
        self, endpoints: Mapping[ListenAddress, Sequence[Endpoint]]
    ) -> Mapping[ListenAddress, OSError | Unavailable]:
        """Listens at these addresses only. Open connections continue. Returns the addresses that are not available."""
        self._endpoints = endpoints
        for address in self._servers.keys() - endpoints.keys():
            self._servers.pop(address).close()
        for address, server in self._servers.items():
            if isinstance(server, UdpForwarder):
                server.replace(endpoints[address])
        errors: dict[ListenAddress, OSError | Unavailable] = {}
        for address in endpoints.keys() - self._servers.keys():
            try:
                self._servers[address] = await self._listen(address)
            except (OSError, Unavailable) as error:
                errors[address] = error
        return errors

    def close(self) -> None:
        """Stops listening."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    async def _listen(self, address: ListenAddress) -> asyncio.Server | UdpForwarder:
        if address.protocol == UDP:
            opened = await self._network.open_socket(address.host, kind=socket.SOCK_DGRAM)
            listener = bound_socket(opened, address.host, address.port)
            return await UdpForwarder.listen(listener, self._network, self._endpoints[address])
        return await self._listen_tcp(address)

    async def _listen_tcp(self, address: ListenAddress) -> asyncio.Server:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = await self._connect_to_any(self._endpoints.get(address, ()))
            if connection is None:
                writer.close()
            else:
                await relay((reader, writer), connection)

        listener = await self._network.open_socket(address.host)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address.host, address.port))
            return await asyncio.start_server(forward, sock=listener)
        except BaseException:
            listener.close()
            raise

    async def _connect_to_any(self, endpoints: Sequence[Endpoint]) -> Connection | None:
        """A connection to one of the endpoints in random order; None if all fail."""
        for endpoint in random.sample(endpoints, len(endpoints)):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await connect(self._network, endpoint.address, endpoint.port)
            except (OSError, Unavailable):  # TimeoutError is an OSError
                continue
        return None
