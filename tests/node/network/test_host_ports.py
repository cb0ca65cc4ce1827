import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from launcher.core.errors import Unavailable
from launcher.node.network.host_ports import ForwardedPort, HostPortForwarder, host_ports, unsupported_ports
from launcher.node.network.pod_network import SharedPodNetwork
from tests.cluster.ports import free_port
from tests.eventually import eventually


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


class EchoProtocol(asyncio.DatagramProtocol):
    """Responds to each datagram with the same one."""

    def __init__(self) -> None:
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]  # its real type
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self.transport is not None
        self.transport.sendto(data, addr)


@asynccontextmanager
async def a_udp_echo_server() -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(EchoProtocol, local_addr=("127.0.0.2", 0))
    yield transport.get_extra_info("sockname")[1]
    transport.close()


async def udp_echo(port: int, data: bytes) -> bytes:
    """The response to a datagram, which is sent again until there is one."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.setblocking(False)
        client.connect(("127.0.0.1", port))
        async with asyncio.timeout(30):
            while True:
                with suppress(TimeoutError, ConnectionRefusedError):
                    client.send(data)
                    async with asyncio.timeout(1):
                        return await loop.sock_recv(client, 65536)


async def test_datagrams_are_passed_on_and_each_client_gets_its_own_responses() -> None:
    port, forwarder = free_port(), HostPortForwarder(SharedPodNetwork())
    port.release()
    async with a_udp_echo_server() as container_port:
        ports = [ForwardedPort("127.0.0.1", port.number, container_port, "UDP")]
        await forwarder.open("a", ports, "127.0.0.2")

        responses = await asyncio.gather(*(udp_echo(port.number, f"{n}".encode()) for n in range(20)))

    assert responses == [f"{n}".encode() for n in range(20)]
    forwarder.close("a")
    await eventually(lambda: is_free(port.number), "the port is closed")


def is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        try:
            again.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


async def test_a_udp_port_in_use_is_reported() -> None:
    forwarder = HostPortForwarder(SharedPodNetwork())
    async with a_udp_echo_server() as used:
        with pytest.raises(Unavailable, match=f"hostPort {used}"):
            await forwarder.open("a", [ForwardedPort("127.0.0.2", used, 80, "UDP")], "127.0.0.3")


async def test_a_port_of_another_protocol_is_reported_and_not_opened() -> None:
    port = {"containerPort": 80, "hostPort": 1, "protocol": "SCTP"}
    pod = {"metadata": {}, "spec": {"containers": [{"name": "a", "ports": [port]}]}}

    await HostPortForwarder(SharedPodNetwork()).open("a", host_ports(pod), "127.0.0.2")

    assert ["SCTP" in sentence for sentence in unsupported_ports(pod)] == [True]


def test_the_ports_of_all_containers_are_forwarded() -> None:
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
        ForwardedPort("0.0.0.0", 53, 53, "UDP"),
        ForwardedPort("127.0.0.1", 8082, 82),
    ]
