import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from launcher.core.errors import Unavailable
from launcher.node.network.host_ports import ForwardedPort, HostPortForwarder, host_ports
from launcher.node.network.pod_network import SharedPodNetwork
from tests.cluster.ports import free_port


@asynccontextmanager
async def an_echo_server() -> AsyncIterator[int]:
    """A server that responds with what it received, once its client has closed its side. Yields its port."""

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read())
        writer.close()

    async with await asyncio.start_server(respond, "127.0.0.2", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def echo(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    writer.write_eof()
    try:
        async with asyncio.timeout(30):
            return await reader.read()
    finally:
        writer.close()


async def test_a_connection_is_passed_on_in_both_directions() -> None:
    port, forwarder, data = free_port(), HostPortForwarder(SharedPodNetwork()), b"x" * 1_000_000
    port.release()
    async with an_echo_server() as container_port:
        ports = [ForwardedPort("127.0.0.1", port.number, container_port)]
        await forwarder.open("a", ports, "127.0.0.2")
        await forwarder.open("a", ports, "127.0.0.2")

        assert await echo(port.number, data) == data

    assert await echo(port.number, b"x") == b"", "the container does not listen"
    forwarder.close("a")
    with pytest.raises(ConnectionRefusedError):
        await echo(port.number, b"x")


async def test_a_port_in_use_is_reported_and_no_other_port_of_the_pod_stays_open() -> None:
    port, forwarder = free_port(), HostPortForwarder(SharedPodNetwork())
    port.release()
    async with an_echo_server() as used:
        ports = [ForwardedPort("127.0.0.1", port.number, 80), ForwardedPort("127.0.0.2", used, 80)]

        with pytest.raises(Unavailable, match=f"hostPort {used}"):
            await forwarder.open("a", ports, "127.0.0.2")

    with pytest.raises(ConnectionRefusedError):
        await echo(port.number, b"x")


def test_the_tcp_ports_of_all_containers_are_forwarded() -> None:
    containers = [
        {"name": "a", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]},
        {
            "name": "b",
            "ports": [
                {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
                {"containerPort": 82, "hostPort": 8082, "hostIP": "127.0.0.1", "protocol": "TCP"},
            ],
        },
    ]

    assert host_ports({"metadata": {}, "spec": {"containers": containers}}) == [
        ForwardedPort("0.0.0.0", 8080, 80),
        ForwardedPort("127.0.0.1", 8082, 82),
    ]
