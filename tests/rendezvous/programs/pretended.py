"""A launcher that answers as it is told, and remembers what it was asked."""

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
from launcher.tls.server_context import show

ATTEMPT = "/rendezvous/v1/namespaces/default/frameworks/mnist/attempts/0"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said to one question; *cut* leaves in the middle of it."""

    status: int = 200
    body: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked, and which processes showed the token on their command line meanwhile."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    shown: list[str]


@dataclass(slots=True)
class Pretended:
    """Gives its answers one after the other, the last one again and again."""

    answers: list[Answer]
    url: str = ""
    #: Of the attempt: no other test's.
    token: str = field(default_factory=partial(secrets.token_hex, 16))
    #: What vouches for its certificate.
    ca: str = ""
    questions: list[Question] = field(default_factory=list)
    #: Questions are answered only while this is set; set from the start.
    open: threading.Event = field(default_factory=threading.Event)
    asked: threading.Event = field(default_factory=threading.Event)

    @property
    def attempt(self) -> str:
        return self.url + ATTEMPT

    def answer(self, question: Question) -> Answer:
        self.questions.append(question)
        self.asked.set()
        self.open.wait(60)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def pretended(*answers: Answer, tls: bool = False) -> Iterator[Pretended]:
    """Inside, it serves on a free port."""
    launcher = Pretended(list(answers))
    launcher.open.set()
    with _Server(("127.0.0.1", 0), _handler(launcher)) as server:
        launcher.url = f"http://127.0.0.1:{server.server_port}"
        if tls:
            launcher.url = launcher.url.replace("http:", "https:")
            context, launcher.ca = _certified()
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield launcher
        finally:
            launcher.open.set()
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asked has gone; that is what the test is about, if it is about anything."""


def _handler(launcher: Pretended) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = dict(parse_qsl(address.query))
            said = launcher.answer(Question(address.path, query, dict(self.headers), _shown(launcher.token)))
            body = said.body.encode()
            self.send_response(said.status)
            self.send_header("Content-Length", str(len(body) + 10 * said.cut))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # so the library calls it
            """Nothing is written."""

    return Handler


def _shown(token: str) -> list[str]:
    """The programs that show the token to everybody who lists processes."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0") if name.isdecimal() else []
        except OSError:
            continue  # it has ended
        if any(token.encode() in word for word in words):
            found.append(words[0].decode())
    return found


def _certified() -> tuple[ssl.SSLContext, str]:
    now, life = datetime.now(UTC), timedelta(days=1)
    root = certificate_authority.new_authority(now, life)
    pair = certificate_authority.new_serving(root, ["127.0.0.1"], now, life)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    show(
        context,
        certificate_authority.written_certificates([pair.certificate]),
        certificate_authority.written_key(pair),
    )
    return context, certificate_authority.written_certificates([root.certificate]).decode()
