"""A fake launcher that sends configured responses and records requests."""

import os
import secrets
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from launcher.tls import certificate_authority
from launcher.tls.server_context import load_pem_chain
from tests.eventually import TIMEOUT_SECONDS

ATTEMPT_PATH = "/rendezvous/v1/namespaces/default/frameworks/mnist/attempts/0"


@dataclass(frozen=True, slots=True)
class FakeResponse:
    """A response; a *truncated* one closes the connection before its end."""

    status: int = 200
    body: str = ""
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request, and the programs that had the token on their command line meanwhile."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    exposing_programs: list[str]


@dataclass(slots=True)
class FakeLauncher:
    """Sends its responses in order, and repeats the last one."""

    responses: list[FakeResponse]
    url: str = ""
    #: Differs between tests.
    token: str = field(default_factory=partial(secrets.token_hex, 16))
    #: The CA of its certificate.
    ca: str = ""
    requests: list[RecordedRequest] = field(default_factory=list)
    #: Responses are sent only while this is set; initially set.
    responding: threading.Event = field(default_factory=threading.Event)
    #: Set by the first request.
    requested: threading.Event = field(default_factory=threading.Event)

    @property
    def attempt_url(self) -> str:
        return self.url + ATTEMPT_PATH

    def response(self, request: RecordedRequest) -> FakeResponse:
        self.requests.append(request)
        self.requested.set()
        self.responding.wait(TIMEOUT_SECONDS)
        return self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]


@contextmanager
def run_fake_launcher(*responses: FakeResponse, tls: bool = False) -> Iterator[FakeLauncher]:
    """Serves on a free port inside the context."""
    launcher = FakeLauncher(list(responses))
    launcher.responding.set()
    with _Server(("127.0.0.1", 0), _handler(launcher)) as server:
        launcher.url = f"http://127.0.0.1:{server.server_port}"
        if tls:
            launcher.url = launcher.url.replace("http:", "https:")
            context, launcher.ca = _tls_context()
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield launcher
        finally:
            launcher.responding.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores connections that the client has closed."""


def _handler(launcher: FakeLauncher) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            query, headers = dict(parse_qsl(url.query)), dict(self.headers)
            request = RecordedRequest(url.path, query, headers, _exposing_programs(launcher.token))
            response = launcher.response(request)
            body = response.body.encode()
            self.send_response(response.status)
            self.send_header("Content-Length", str(len(body) + 10 * response.truncated))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the library's name
            """Logs nothing."""

    return Handler


def _exposing_programs(token: str) -> list[str]:
    """The programs of running processes that have the token on their command line."""
    programs = []
    for pid in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") if pid.isdecimal() else []
        except OSError:
            continue  # the process has exited
        if any(token.encode() in word for word in words):
            programs.append(words[0].decode())
    return programs


def _tls_context() -> tuple[ssl.SSLContext, str]:
    """A server context, and its CA as PEM."""
    now, lifetime = datetime.now(UTC), timedelta(days=1)
    root = certificate_authority.new_authority(now, lifetime)
    pair = certificate_authority.new_serving(root, ["127.0.0.1"], now, lifetime)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pem_chain(
        context,
        certificate_authority.certificates_to_pem([pair.certificate]),
        certificate_authority.key_to_pem(pair),
    )
    return context, certificate_authority.certificates_to_pem([root.certificate]).decode()
