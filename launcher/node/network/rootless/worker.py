"""
The program that changes a normal user's pod network, in the namespaces of the holder.

A process with several threads, such as the launcher, cannot enter a user namespace. So each launcher has a worker: it
executes the calls of ``Bridge``, and opens sockets, which are of the network in which they were opened. It ends with
the launcher. Requests and responses are packets of JSON, one at a time on each connection.
"""

import json
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute, NetlinkError

from launcher.node.network.bridge import Bridge
from launcher.node.network.pod_network import Endpoint, ListenAddress
from launcher.node.network.rootless.holder import enter

MAX_PACKET_BYTES = 131072
_LOOPBACK_INDEX = 1


def main(init: str, network_id: str, directory: str, connections: str) -> None:
    """Serves the *connections*, descriptors that are separated by commas, in the namespaces of the process *init*."""
    # Before the first thread: only the calling thread is moved.
    enter(int(init))
    with IPRoute() as ip:
        ip.link("set", index=_LOOPBACK_INDEX, state="up")
    calls = _Calls(Bridge(network_id, Path(directory)))
    threads = [
        threading.Thread(target=_serve, args=(socket.socket(fileno=int(file)), calls))
        for file in connections.split(",")
    ]
    for thread in threads:
        thread.start()


class _Calls:
    """The calls of a launcher; their arguments and results are JSON."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    def create(self, subnet: str) -> None:
        self._bridge.create(IPv4Network(subnet))

    def connect_outside(self, subnet: str) -> str:
        return self._bridge.connect_outside(IPv4Network(subnet))

    def open_services(self, subnet: str) -> str:
        return self._bridge.open_services(IPv4Network(subnet))

    def service_ports(self) -> Sequence[Sequence[Any]]:
        return self._bridge.service_ports()

    def replace_services(self, ports: Sequence[Any], deleted: Sequence[Any]) -> None:
        endpoints = {
            ListenAddress(*address): [Endpoint(*each) for each in targets] for address, targets in ports
        }
        self._bridge.replace_services(endpoints, [ListenAddress(*each) for each in deleted])

    def close_services(self) -> None:
        self._bridge.close_services()

    def attach(self, uid: str, address: str, subnet: str) -> None:
        self._bridge.attach(uid, IPv4Address(address), IPv4Network(subnet))

    def detach(self, uid: str) -> None:
        self._bridge.detach(uid)

    def open_socket(self, uid: str, family: int, kind: int) -> socket.socket:
        return self._bridge.open_socket(uid, family, kind)


def _serve(connection: socket.socket, calls: _Calls) -> None:
    with connection, suppress(ConnectionError):
        while packet := connection.recv(MAX_PACKET_BYTES):
            request = json.loads(packet)
            response, files = _respond(calls, request["call"], request["arguments"])
            socket.send_fds(connection, [json.dumps(response).encode()], [file.fileno() for file in files])
            for file in files:
                file.close()
    # The other connection is closed with this one.
    os._exit(0)


def _respond(calls: _Calls, name: str, arguments: list[Any]) -> tuple[dict[str, Any], list[socket.socket]]:
    try:
        result = getattr(calls, name)(*arguments)
    except (OSError, NetlinkError) as error:
        return {"error": str(error)}, []
    if isinstance(result, socket.socket):
        return {"result": None}, [result]
    return {"result": result}, []
