"""Connections to ports of the pods of this machine."""

import asyncio
import os

from launcher.core.errors import Unavailable
from launcher.core.json_access import as_object, text
from launcher.node.network.pod_network import Connection, PodNetwork, connect
from launcher.node.pods.pod_spec import uid_of
from launcher.store.interface import Object

_CONNECT_SECONDS = 10.0
_LOOPBACK = ("127.0.0.1", "::1")


class PodPorts:
    """Connects to ports of pods, in the network of each pod."""

    def __init__(self, network: PodNetwork) -> None:
        self._network = network

    async def connect(self, pod: Object, port: int) -> Connection:
        """Returns a TCP connection to a port of *pod*, at its IP or at the loopback address. Raises Unavailable."""
        uid = uid_of(pod) if self._network.is_isolated(uid_of(pod)) else ""
        address = text(as_object(pod.get("status")).get("podIP"))
        errors: list[OSError] = []
        for each in dict.fromkeys((*((address,) if address else ()), *_LOOPBACK)):
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await connect(self._network, each, port, uid)
            except OSError as error:
                errors.append(error)
        reason = os.strerror(errors[0].errno).lower() if errors[0].errno else "timed out"
        name = pod["metadata"]["name"]
        raise Unavailable(f"failed to connect to port {port} of pod {name}: {reason}")
