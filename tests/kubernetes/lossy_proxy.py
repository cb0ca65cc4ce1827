"""A proxy to kube-apiserver that loses one response."""

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

_TIMEOUT_SECONDS = 120.0
#: Per connection.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "host"})


class LossyProxy(ThreadingHTTPServer):
    """
    Forwards plain HTTP, and closes the first connection with a certain request.

    kube-apiserver has processed the request by then.
    """

    daemon_threads = False

    def __init__(self, cluster: ControlPlane, method: str, ending: str) -> None:
        """The response to *method* on a path with that *ending* is lost."""
        super().__init__(("127.0.0.1", 0), _Request)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lost = threading.Event()
        self._method, self._ending = method, ending
        self._cluster = urlsplit(cluster.url)
        self._context = ssl.create_default_context(cafile=str(cluster.ca))
        self._connections: list[http.client.HTTPSConnection] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown()
        for connection in self._connections:
            if connection.sock is not None:
                with suppress(OSError):  # it may just have ended
                    connection.sock.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def upstream(self) -> http.client.HTTPSConnection:
        """Opens a connection that is closed with the proxy."""
        host, port = str(self._cluster.hostname), self._cluster.port
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_SECONDS, context=self._context)
        self._connections.append(connection)
        return connection

    def loses(self, method: str, path: str) -> bool:
        """Whether this is the request."""
        return method == self._method and path.endswith(self._ending) and not self.lost.is_set()


class _Request(BaseHTTPRequestHandler):
    server: LossyProxy

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""

    def forward(self) -> None:
        self.close_connection = True
        connection = self.server.upstream()
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        # When one side closes, the other is closed too.
        with suppress(OSError, http.client.HTTPException):
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            if self.server.loses(self.command, self.path):
                response.read()
                self.server.lost.set()
            else:
                self._respond(response)
        connection.close()

    def _respond(self, response: http.client.HTTPResponse) -> None:
        self.send_response_only(response.status)
        for name, value in response.getheaders():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        while chunk := response.read1(65536):
            self.wfile.write(chunk)


for _verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
    setattr(_Request, f"do_{_verb}", _Request.forward)
