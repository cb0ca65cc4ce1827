"""kubectl port-forward to pods of local mode."""

import hashlib
import os
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clients.isolated_namespace import IsolatedNamespace
from tests.clients.kubectl import Kubectl
from tests.eventually import TIMEOUT_SECONDS, until

#: Sends back the bytes of each connection, and after its end their hash.
PROGRAM = """
import hashlib, os, socketserver

class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        digest = hashlib.sha256()
        while data := self.request.recv(65536):
            digest.update(data)
            self.request.sendall(data)
        self.request.sendall(digest.digest())

class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

with Server(("127.0.0.1", 0), Handler) as server:
    with open("/gate/port.new", "w") as file:
        file.write(str(server.server_address[1]))
    os.rename("/gate/port.new", "/gate/port")
    server.serve_forever()
"""


@pytest.fixture
def port(isolated: IsolatedNamespace, kubectl: Kubectl) -> int:
    """The port of the program in the running pod ``alone``."""
    (isolated.gate / "program.py").write_text(PROGRAM)
    pod = isolated.pod(main=f"exec {sys.executable} -I /gate/program.py")
    pod["metadata"]["labels"] = {"app": "echo"}
    kubectl("create", "-f", "-", stdin=pod)
    kubectl("wait", "pod/alone", "--for=condition=Ready", "--timeout=30s")
    until((isolated.gate / "port").exists, "the program listens")
    return int((isolated.gate / "port").read_text())


@pytest.fixture
def local(kubectl: Kubectl, port: int) -> int:
    """The port of a running ``kubectl port-forward``."""
    return kubectl.forward("pod/alone", port)[1]


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)


def received(connection: socket.socket) -> Iterator[bytes]:
    """Yields what arrives until the end."""
    while data := connection.recv(65536):
        yield data


def exchange(port: int, content: bytes) -> bytes:
    """Sends *content* and ends this direction while all bytes that arrive are read. Returns those."""
    with connect(port) as connection, ThreadPoolExecutor(1) as sender:

        def send() -> None:
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)

        sending = sender.submit(send)
        output = b"".join(received(connection))
        sending.result(TIMEOUT_SECONDS)
    return output


def test_bytes_are_the_same_in_both_directions_until_each_is_closed(local: int) -> None:
    content = os.urandom(20_000_000)

    output = exchange(local, content)

    assert output[-32:] == hashlib.sha256(content).digest()
    assert hashlib.sha256(output[:-32]).digest() == output[-32:]


def test_connections_are_independent(local: int) -> None:
    contents = [os.urandom(200_000 * number) for number in range(8)]

    with connect(local) as idle, ThreadPoolExecutor(len(contents)) as clients:
        outputs = list(clients.map(lambda content: exchange(local, content), contents))
        idle.sendall(b"still here")
        assert idle.recv(100) == b"still here"

    assert [output[:-32] for output in outputs] == contents


def test_a_service_is_forwarded_to_its_pod(kubectl: Kubectl, port: int) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "echo"},
        "spec": {"selector": {"app": "echo"}, "ports": [{"port": 80, "targetPort": port}]},
    }
    kubectl("create", "-f", "-", stdin=service)

    _, local = kubectl.forward("svc/echo", 80)

    assert exchange(local, b"hello")[:-32] == b"hello"


@pytest.mark.usefixtures("port")
def test_a_port_without_a_program_is_reported(kubectl: Kubectl) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        free = closed.getsockname()[1]
    process, local = kubectl.forward("alone", free)

    with connect(local) as connection:
        assert connection.recv(100) == b""

    # kubectl ends after the first error.
    assert process.exit_code() == 1
    assert f"port {free} of pod alone: connection refused" in process.errors()


def test_a_session_ends_with_its_pod(kubectl: Kubectl, port: int) -> None:
    process, local = kubectl.forward("alone", port)
    with connect(local) as connection:
        connection.sendall(b"hello")
        assert connection.recv(100) == b"hello"

        kubectl("delete", "pod", "alone")

        assert process.exit_code() == 1
    assert "lost connection to pod" in process.errors()


def test_a_client_without_websockets_is_rejected_with_a_way_out(kubectl: Kubectl, port: int) -> None:
    done = kubectl.run("port-forward", "alone", f":{port}", KUBECTL_PORT_FORWARD_WEBSOCKETS="false")

    assert done.returncode == 1
    assert "SPDY without a WebSocket is not supported in local mode" in done.stderr
