"""An image registry that serves no image: the name of an image decides how its pull fails."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.realnodes.bed import RealNodes

#: The host of these images, and one that does not respond.
REGISTRY, UNREACHABLE = "registry.test", "unreachable.test"
#: The response by the first part of an image's name.
_RESPONSES = {
    "missing": (HTTPStatus.NOT_FOUND, "MANIFEST_UNKNOWN"),
    "private": (HTTPStatus.FORBIDDEN, "DENIED"),
    "limited": (HTTPStatus.TOO_MANY_REQUESTS, "TOOMANYREQUESTS"),
    "broken": (HTTPStatus.INTERNAL_SERVER_ERROR, "UNKNOWN"),
}
_TIMEOUT_SECONDS = 60.0


class _Registry(ThreadingHTTPServer):
    """Responds to an image named ``slow`` only after ``ended`` is set."""

    daemon_threads = False

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), _Request)
        self.ended = threading.Event()


class _Request(BaseHTTPRequestHandler):
    server: _Registry

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""

    def do_GET(self) -> None:
        name = self.path.removeprefix("/v2/").partition("/")[0]
        if name == "slow":
            self.server.ended.wait(_TIMEOUT_SECONDS * 10)
        status, code = _RESPONSES.get(name, _RESPONSES["missing"])
        body = f'{{"errors": [{{"code": "{code}", "message": "no"}}]}}'.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()


@contextmanager
def registry(bed: RealNodes) -> Iterator[None]:
    """Runs the registry, which the nodes know by its name."""
    server = _Registry(bed.host_address)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for node in bed.nodes.values():
        node.set_registry(REGISTRY, f"http://{bed.host_address}:{server.server_address[1]}")
        # No program listens on this port.
        node.set_registry(UNREACHABLE, f"http://{bed.host_address}:1")
    try:
        yield
    finally:
        server.ended.set()
        server.shutdown()
        thread.join(_TIMEOUT_SECONDS)
        server.server_close()
