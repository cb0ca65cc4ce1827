"""Connections to ports of Services are forwarded to one of their endpoints."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from launcher.node.network.pod_network import TCP, UDP, Endpoint, ListenAddress, SharedPodNetwork
from launcher.node.services.service_forwarder import ServiceForwarder
from tests.cluster.ports import free_port
from tests.eventually import TIMEOUT_SECONDS


@asynccontextmanager
async def a_server(name: bytes) -> AsyncIterator[Endpoint]:
    """A server that answers with its *name* and what it received."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name + await reader.read())
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
        yield Endpoint("127.0.0.1", server.sockets[0].getsockname()[1])


async def call(address: ListenAddress, data: bytes = b"") -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(data)
    writer.write_eof()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await reader.read()
    finally:
        writer.close()


@pytest.fixture
async def forwarder() -> AsyncIterator[ServiceForwarder]:
    forwarder = ServiceForwarder(SharedPodNetwork())
    yield forwarder
    forwarder.close()


@pytest.fixture
def address() -> ListenAddress:
    port = free_port()
    port.release()
    return ListenAddress(TCP, "127.96.0.1", port.number)


async def test_connections_are_forwarded_to_all_endpoints(
    forwarder: ServiceForwarder, address: ListenAddress
) -> None:
    data = b"x" * 1_000_000
    async with a_server(b"1") as one, a_server(b"2") as two:
        assert await forwarder.replace({address: [one, two]}) == {}

        answers = {await call(address, data) for _ in range(64)}

    assert answers == {b"1" + data, b"2" + data}


async def test_an_endpoint_that_refuses_connections_is_skipped(
    forwarder: ServiceForwarder, address: ListenAddress
) -> None:
    async with a_server(b"1") as one, AsyncExitStack() as stack:
        two = await stack.enter_async_context(a_server(b"2"))
        await stack.aclose()
        await forwarder.replace({address: [one, two]})

        assert {await call(address) for _ in range(16)} == {b"1"}

    assert await call(address) == b""


async def test_endpoints_are_replaced_while_a_connection_is_open(
    forwarder: ServiceForwarder, address: ListenAddress
) -> None:
    async with a_server(b"1") as one, a_server(b"2") as two:
        await forwarder.replace({address: [one]})
        reader, writer = await asyncio.open_connection(address.host, address.port)
        await forwarder.replace({address: [two]})
        assert await call(address) == b"2"

        await forwarder.replace({})
        with pytest.raises(ConnectionRefusedError):
            await call(address)
        writer.write_eof()
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await reader.read() in (b"1", b"2")
        writer.close()


async def test_an_address_in_use_is_returned_and_others_are_forwarded(
    forwarder: ServiceForwarder, address: ListenAddress
) -> None:
    async with a_server(b"1") as one, a_server(b"2") as other:
        used = ListenAddress(TCP, other.address, other.port)

        errors = await forwarder.replace({used: [one], address: [one]})

        assert list(errors) == [used]
        assert await call(address) == b"1"


class NameProtocol(asyncio.DatagramProtocol):
    """Answers datagrams with a *name*."""

    def __init__(self, name: bytes) -> None:
        self._name = name

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # its real type
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._transport.sendto(self._name + data, addr)


@asynccontextmanager
async def a_udp_server(name: bytes) -> AsyncIterator[Endpoint]:
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: NameProtocol(name), ("127.0.0.1", 0)
    )
    try:
        yield Endpoint("127.0.0.1", transport.get_extra_info("sockname")[1])
    finally:
        transport.close()


async def send(client: socket.socket, data: bytes) -> bytes:
    """The answer to a datagram."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await asyncio.get_running_loop().sock_sendall(client, data)
        return await asyncio.get_running_loop().sock_recv(client, 100)


async def test_datagrams_of_a_client_reach_one_endpoint_until_it_is_gone(
    forwarder: ServiceForwarder, address: ListenAddress
) -> None:
    port = ListenAddress(UDP, address.host, address.port)
    async with a_udp_server(b"1") as one, a_udp_server(b"2") as two:
        await forwarder.replace({port: [one]})
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.connect((port.host, port.port))
            assert await send(client, b"a") == b"1a"
            await forwarder.replace({port: [one, two]})
            assert {await send(client, b"b") for _ in range(8)} == {b"1b"}

            await forwarder.replace({port: [two]})

            assert await send(client, b"c") == b"2c"
