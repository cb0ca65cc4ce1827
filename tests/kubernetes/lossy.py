"""A way to kube-apiserver on which one answer gets lost."""

import http.client
import socket
import ssl
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.cluster.controlplane import ControlPlane

_SECONDS = 120.0
#: Of one connection, and nobody else's matter.
_NOT_PASSED_ON = frozenset({"connection", "keep-alive", "transfer-encoding", "host"})


class LossyProxy(ThreadingHTTPServer):
    """
    Passes on what it is sent, over plain HTTP on loopback, and cuts the first connection that asks for one thing.

    kube-apiserver has done by then what it was asked for.
    """

    daemon_threads = False

    def __init__(self, cluster: ControlPlane, method: str, ending: str) -> None:
        """The answer to *method* on a path with that *ending* is the one that gets lost."""
        super().__init__(("127.0.0.1", 0), _Request)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lost = threading.Event()
        self._method, self._ending = method, ending
        self._cluster = urlsplit(cluster.url)
        self._context = ssl.create_default_context(cafile=str(cluster.ca))
        self._open: list[http.client.HTTPSConnection] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        for connection in self._open:
            if connection.sock is not None:
                with suppress(OSError):  # it may have ended just now
                    connection.sock.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def upstream(self) -> http.client.HTTPSConnection:
        """A connection that ends with the proxy."""
        host, port = str(self._cluster.hostname), self._cluster.port
        connection = http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=self._context)
        self._open.append(connection)
        return connection

    def loses(self, method: str, path: str) -> bool:
        """Whether this is the one."""
        return method == self._method and path.endswith(self._ending) and not self.lost.is_set()


class _Request(BaseHTTPRequestHandler):
    server: LossyProxy

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def pass_on(self) -> None:
        self.close_connection = True
        connection = self.server.upstream()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # Once one of the two has gone, so does the other.
        with suppress(OSError, http.client.HTTPException):
            connection.request(self.command, self.path, body or None, headers)
            answer = connection.getresponse()
            if self.server.loses(self.command, self.path):
                answer.read()
                self.server.lost.set()
            else:
                self._answer(answer)
        connection.close()

    def _answer(self, answer: http.client.HTTPResponse) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while piece := answer.read1(65536):
            self.wfile.write(piece)


for _verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    setattr(_Request, f"do_{_verb}", _Request.pass_on)
