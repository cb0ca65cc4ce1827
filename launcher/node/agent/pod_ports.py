"""Connections to ports of the pods of this machine."""

import asyncio
import os
import socket

from launcher.core.errors import Unavailable
from launcher.core.json_access import as_object, text
from launcher.node.network import namespaces
from launcher.node.network.pod_network import PodNetwork, PodSandbox
from launcher.node.pods.pod_spec import uid_of
from launcher.store.interface import Object

_CONNECT_SECONDS = 10.0
_LOOPBACK = ("127.0.0.1", "::1")

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class PodPorts:
    """Connects to ports of pods, in the network of each pod."""

    def __init__(self, network: PodNetwork) -> None:
        self._network = network

    async def connect(self, pod: Object, port: int) -> Connection:
        """Returns a TCP connection to a port of *pod*, at its IP or at the loopback address. Raises Unavailable."""
        sandbox = self._network.sandbox(uid_of(pod))
        address = text(as_object(pod.get("status")).get("podIP"))
        errors: list[OSError] = []
        for each in dict.fromkeys((*((address,) if address else ()), *_LOOPBACK)):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await _connect(sandbox, each, port)
            except OSError as error:
                errors.append(error)
        reason = os.strerror(errors[0].errno).lower() if errors[0].errno else "timed out"
        name = pod["metadata"]["name"]
        raise Unavailable(f"failed to connect to port {port} of pod {name}: {reason}")


async def _connect(sandbox: PodSandbox | None, address: str, port: int) -> Connection:
    if sandbox is None:
        return await asyncio.open_connection(address, port)
    connection = await asyncio.to_thread(_socket_inside, sandbox, address)
    try:
        await asyncio.get_running_loop().sock_connect(connection, (address, port))
        return await asyncio.open_connection(sock=connection)
    except BaseException:
        connection.close()
        raise


def _socket_inside(sandbox: PodSandbox, address: str) -> socket.socket:
    """A socket of the pod's network namespace, in which it stays."""
    with namespaces.inside(sandbox.namespace):
        created = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    created.setblocking(False)
    return created
