"""HTTP attacks: request smuggling, path traversal, resource exhaustion and method override."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import orjson
import pytest

from tests.builders import a_framework, a_role
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server

TOKEN = "6f1c0d6a-a-token-for-this-test"
SECONDS = 30.0
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3}) ")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One launcher for all of these tests, with a token: none of them changes it."""
    directory = tmp_path_factory.mktemp("http")
    token = directory / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    server = Server(directory, "--token-file", str(token))
    try:
        until(lambda: server.curl("/readyz") == "ok" or None, "the launcher is ready")
        yield server
    finally:
        server.end()


def connection(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=SECONDS)


def statuses(server: Server, request: bytes, within: float = SECONDS) -> list[int]:
    """The status of each response until the server closes the connection or sends nothing for *within* seconds."""
    response = b""
    with connection(server) as client:
        client.settimeout(within)
        client.sendall(request)
        with suppress(TimeoutError):
            while data := client.recv(65536):
                response += data
    return [int(code) for code in _STATUS.findall(response)]


def get(server: Server, target: str, *headers: str) -> list[int]:
    lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Connection: close", *headers]
    return statuses(server, "\r\n".join([*lines, "", ""]).encode("latin-1"))


AUTHORIZED = f"Authorization: Bearer {TOKEN}"
_HEAD = f"POST {FRAMEWORKS} HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZED}\r\nContent-Type: application/json\r\n"
_SECOND = f"GET {FRAMEWORKS} HTTP/1.1\r\nHost: localhost\r\n{AUTHORIZED}\r\n\r\n"


@pytest.mark.parametrize(
    "request_text",
    [
        pytest.param(
            f"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{_SECOND}", id="both lengths"
        ),
        pytest.param(f"Content-Length: 0\r\nContent-Length: 5\r\n\r\n{_SECOND}", id="two lengths"),
        pytest.param(f"Content-Length: 0, 5\r\n\r\n{_SECOND}", id="a list of lengths"),
        pytest.param(f"Content-Length: +0\r\n\r\n{_SECOND}", id="a length with a sign"),
        pytest.param(f"Content-Length: 0x0\r\n\r\n{_SECOND}", id="a length in another base"),
        pytest.param(f"Transfer-Encoding: xchunked\r\n\r\n{_SECOND}", id="an unknown encoding"),
        pytest.param(
            f"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{_SECOND}", id="chunked not last"
        ),
        pytest.param(f"Content-Length : 0\r\n\r\n{_SECOND}", id="a blank before the colon"),
        pytest.param(f"X-A: b\r\n Content-Length: 9\r\n\r\n{_SECOND}", id="a folded header"),
        pytest.param(f"X-A: b\nContent-Length: 0\r\n\r\n{_SECOND}", id="a line that ends without CR"),
        pytest.param(f"X-A: b\rContent-Length: 0\r\n\r\n{_SECOND}", id="a line that ends without LF"),
        pytest.param(f"X-A: \0\r\nContent-Length: 0\r\n\r\n{_SECOND}", id="a zero byte in a header"),
        pytest.param(
            f"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n{_SECOND}",
            id="a chunk of a huge size",
        ),
        pytest.param(
            f"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n{_SECOND}", id="a chunk of a negative size"
        ),
    ],
)
def test_a_request_with_an_ambiguous_length_is_refused_and_its_connection_closed(
    server: Server, request_text: str
) -> None:
    found = statuses(server, (_HEAD + request_text).encode("latin-1"), within=5.0)

    assert found == [400]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(f"/readyz/..{FRAMEWORKS}", id="dots"),
        pytest.param(f"/readyz/%2e%2e{FRAMEWORKS}", id="encoded dots"),
        pytest.param(f"/readyz%2f..{FRAMEWORKS}", id="an encoded slash"),
        pytest.param(f"/readyz/%252e%252e{FRAMEWORKS}", id="dots that are encoded twice"),
        pytest.param(f"/{FRAMEWORKS}", id="two slashes"),
        pytest.param(f"//readyz/..{FRAMEWORKS}", id="another host in the path"),
        pytest.param(f"/readyz;{FRAMEWORKS}", id="a parameter"),
        pytest.param(f"/readyz\\..{FRAMEWORKS}", id="a backslash"),
        pytest.param(f"{FRAMEWORKS}%00/readyz", id="a zero byte"),
        pytest.param(f"{FRAMEWORKS}?/readyz", id="a probe in the query"),
        pytest.param(f"{FRAMEWORKS}#/readyz", id="a probe in the fragment"),
        pytest.param(f"http://localhost/readyz/..{FRAMEWORKS}", id="a whole URL"),
        pytest.param(f"/rendezvous/v1/programs/..%2f..%2f..{FRAMEWORKS}", id="out of the rendezvous"),
    ],
)
def test_no_form_of_a_path_bypasses_the_token(server: Server, target: str) -> None:
    assert get(server, target)[0] in (400, 401, 403, 404)


@pytest.mark.parametrize(
    "target",
    [
        "/openapi/v3/..%2f..%2f..%2fetc%2fpasswd",
        "/rendezvous/v1/programs/..%2f__init__.py",
        "/rendezvous/v1/programs/%2fetc%2fpasswd",
        "/api/v1/namespaces/default/pods/..%2f..%2fstore.db/log",
        "/api/v1/namespaces/..%2f..%2f..%2fetc/pods/passwd/log",
        f"{FRAMEWORKS}/%2e%2e%2f%2e%2e",
        f"{FRAMEWORKS}/a%00b",
    ],
)
def test_no_path_leads_to_a_file(server: Server, target: str) -> None:
    assert get(server, target, AUTHORIZED)[0] in (400, 404)


@pytest.mark.parametrize(
    "header", ["X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE"]
)
def test_no_header_changes_the_method(server: Server, header: str) -> None:
    body = orjson.dumps(an_unstarted_framework()).decode()
    server.curl(FRAMEWORKS, "-H", AUTHORIZED, "-H", "Content-Type: application/json", "--data-binary", body)

    for method in ("POST", "GET"):
        server.curl(f"{FRAMEWORKS}/kept?_method=DELETE", "-H", AUTHORIZED, "-H", header, "-X", method)
        server.curl(f"{FRAMEWORKS}?_method=DELETE", "-H", AUTHORIZED, "-H", header, "-X", method)

    stored = orjson.loads(server.curl(f"{FRAMEWORKS}/kept", "-H", AUTHORIZED))
    assert stored["kind"] == "Framework"
    assert "deletionTimestamp" not in stored["metadata"]


def test_a_head_larger_than_64_kib_is_refused(server: Server) -> None:
    assert get(server, FRAMEWORKS, AUTHORIZED, f"X-Long: {'a' * 70_000}")[0] in (400, 431)
    assert get(server, f"{FRAMEWORKS}?labelSelector={'a' * 70_000}", AUTHORIZED)[0] in (400, 414)


def test_a_body_larger_than_3_mib_is_refused_before_it_is_sent(server: Server) -> None:
    started = time.monotonic()

    found = statuses(server, f"{_HEAD}Connection: close\r\nContent-Length: {2**40}\r\n\r\n{{".encode())

    assert found == [413]
    assert time.monotonic() - started < SECONDS


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
def test_a_body_that_is_nested_too_deep_is_refused(server: Server, media: str, tmp_path: Path) -> None:
    (tmp_path / "deep").write_text("[" * 500_000)

    options = ("-H", AUTHORIZED, "-H", f"Content-Type: {media}", "--data-binary", f"@{tmp_path / 'deep'}")
    response = orjson.loads(server.curl(FRAMEWORKS, *options))

    assert response["code"] == 400
    assert server.curl("/readyz") == "ok"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "identity, gzip"])
def test_a_compressed_body_is_not_decompressed(server: Server, coding: str, tmp_path: Path) -> None:
    (tmp_path / "packed").write_bytes(b"\x1f\x8b" + bytes(100))

    headers = (AUTHORIZED, "Content-Type: application/json", f"Content-Encoding: {coding}")
    options = (option for header in headers for option in ("-H", header))
    response = orjson.loads(server.curl(FRAMEWORKS, *options, "--data-binary", f"@{tmp_path / 'packed'}"))

    assert response["code"] in (400, 415)


def test_slow_clients_do_not_block_others(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(300):
            slow = stack.enter_context(connection(server))
            slow.sendall(f"POST {FRAMEWORKS} HTTP/1.1\r\nHost: local".encode())
        for _ in range(150):
            slow = stack.enter_context(connection(server))
            slow.sendall(f"{_HEAD}Content-Length: 1000\r\n\r\n{{".encode())
        started = time.monotonic()

        found = get(server, FRAMEWORKS, AUTHORIZED)

        assert found == [200]
        assert time.monotonic() - started < SECONDS / 3


def an_unstarted_framework() -> dict[str, object]:
    """A Framework that is stored and not started."""
    framework = a_framework(a_role(tasks=1), name="kept")
    framework["spec"]["executionType"] = "Create"
    return framework
