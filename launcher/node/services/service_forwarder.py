"""Forwards TCP connections to ports of Services to their endpoints, in this process."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from launcher.node.network.tcp_relay import Connect, Connection, relay
from launcher.node.services.endpoints import Endpoint

_CONNECT_SECONDS = 10.0


class ListenAddress(NamedTuple):
    """Where connections to a Service arrive."""

    host: str
    port: int


class ServiceForwarder:
    """Listens on the ports of Services that have endpoints, so that connections to others are refused."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._servers: dict[ListenAddress, asyncio.Server] = {}
        self._endpoints: Mapping[ListenAddress, Sequence[Endpoint]] = {}

    async def replace(
        self, endpoints: Mapping[ListenAddress, Sequence[Endpoint]]
    ) -> Mapping[ListenAddress, OSError]:
        """Listens at these addresses only. Open connections continue. Returns the addresses that are not available."""
        self._endpoints = endpoints
        for address in self._servers.keys() - endpoints.keys():
            self._servers.pop(address).close()
        errors: dict[ListenAddress, OSError] = {}
        for address in endpoints.keys() - self._servers.keys():
            try:
                self._servers[address] = await self._listen(address)
            except OSError as error:
                errors[address] = error
        return errors

    def close(self) -> None:
        """Stops listening."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    async def _listen(self, address: ListenAddress) -> asyncio.Server:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = await self._connect_to_any(self._endpoints.get(address, ()))
            if connection is None:
                writer.close()
            else:
                await relay((reader, writer), connection)

        return await asyncio.start_server(forward, address.host, address.port)

    async def _connect_to_any(self, endpoints: Sequence[Endpoint]) -> Connection | None:
        """A connection to one of the endpoints in random order; None if all fail."""
        for endpoint in random.sample(endpoints, len(endpoints)):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._connect(endpoint.address, endpoint.port)
            except OSError:  # TimeoutError included
                continue
        return None
