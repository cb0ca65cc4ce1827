"""Requests of browsers and other clients, sent as raw bytes, since HTTP libraries refuse to send some of them."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from launcher.api.middleware.access_guard import LOOPBACK, AccessGuard
from launcher.core.errors import Forbidden
from launcher.settings.local import exposure_error
from tests.api.servers import RunningServer, make_application, running

TOKEN = "correct horse battery staple"
BEARER = f"Authorization: Bearer {TOKEN}"
OWN = "Host: @"


@dataclass(slots=True)
class GuardedServer:
    """A server with the access guard, which records the paths of accepted requests."""

    server: RunningServer | None = None
    visited: list[str] = field(default_factory=list)

    async def enter(self, request: web.Request) -> web.Response:
        self.visited.append(request.path)
        return web.Response(text="inside")

    async def status_of(
        self, *headers: str, method: str = "GET", path: str = "/apis", body: bytes = b""
    ) -> int:
        """Returns the status code for exactly these headers; @ is the address of the server."""
        assert self.server is not None
        lines = [f"{method} {path} HTTP/1.1", *headers, f"Content-Length: {len(body)}", "Connection: close"]
        head = "\r\n".join((*lines, "", "")).replace("@", f"127.0.0.1:{self.server.port}")
        response = await self.server.raw(head.encode() + body)
        code = int(response.split(b" ", 2)[1])
        assert (b'"kind":"Status"' in response) is (code != 200)
        return code


@asynccontextmanager
async def run_guarded(guard: AccessGuard) -> AsyncIterator[GuardedServer]:
    guarded = GuardedServer()
    app = make_application(guard.middleware)
    app.router.add_route("*", "/{path:.*}", guarded.enter)
    async with running(app) as server:
        guarded.server = server
        yield guarded


@pytest.fixture
async def open_server() -> AsyncIterator[GuardedServer]:
    """A server without a token."""
    async with run_guarded(AccessGuard(LOOPBACK)) as guarded:
        yield guarded


@pytest.fixture
async def token_server() -> AsyncIterator[GuardedServer]:
    """A server with a token."""
    async with run_guarded(AccessGuard(LOOPBACK, TOKEN)) as guarded:
        yield guarded


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "127.0.0.1", "localhost", "LOCALHOST:8080", "localhost.", "[::1]:8080", "[::1]"],
)
async def test_allowed_hosts_are_accepted(open_server: GuardedServer, host: str) -> None:
    assert await open_server.status_of(f"Host: {host}") == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(("Host: evil.example",), id="a name pointed at this machine"),
        pytest.param(("Host: evil.example:8080",), id="and a port"),
        pytest.param(("Host: localhost.evil.example",), id="a name that begins well"),
        pytest.param(("Host: evil.example#localhost",), id="a name that ends well"),
        pytest.param(("Host: 127.0.0.1.nip.example",), id="a name made of the address"),
        pytest.param(("Host: localhost%40evil.example",), id="a user"),
        pytest.param(("Host: [localhost]",), id="brackets around a name"),
        pytest.param(("Host: ",), id="no name"),
        pytest.param((), id="no header"),
        pytest.param(
            ("Host: localhost", "X-Forwarded-Host: localhost", "Host: evil.example"), id="two names"
        ),
        pytest.param(
            ("Host: evil.example", "X-Forwarded-Host: localhost"), id="a header of an authenticating proxy"
        ),
        pytest.param(("Host: evil.example", BEARER), id="and a token"),
    ],
)
async def test_check_114_other_hosts_are_rejected(
    open_server: GuardedServer, headers: tuple[str, ...]
) -> None:
    assert await open_server.status_of(*headers) in (400, 403)
    assert open_server.visited == []


async def test_check_114_a_request_without_a_host_is_rejected(open_server: GuardedServer) -> None:
    assert open_server.server is not None
    response = await open_server.server.raw(b"GET /apis HTTP/1.0\r\n\r\n")

    assert response.startswith(b"HTTP/1.0 403 ")


async def test_check_114_the_host_in_the_request_line_does_not_count(open_server: GuardedServer) -> None:
    assert await open_server.status_of("Host: evil.example", path="http://localhost/apis") == 403


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param("http://evil.example", id="a stranger's page"),
        pytest.param("null", id="a page that hides where it is from"),
        pytest.param("http://127.0.0.1:1", id="another port of this machine"),
        pytest.param("https://@", id="another scheme"),
        pytest.param("http://@.evil.example", id="an origin that begins well"),
        pytest.param("", id="nothing"),
    ],
)
async def test_check_114_cross_origin_requests_are_rejected(open_server: GuardedServer, origin: str) -> None:
    assert await open_server.status_of(OWN, f"Origin: {origin}") == 403
    assert open_server.visited == []


async def test_same_origin_requests_are_accepted(open_server: GuardedServer) -> None:
    assert (
        await open_server.status_of(OWN, "Origin: http://@", "Sec-Fetch-Site: same-origin", method="POST")
        == 200
    )
    assert await open_server.status_of(OWN, "Sec-Fetch-Site: none") == 200


async def test_with_tls_the_own_origin_is_https() -> None:
    async def enter(request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def code_for(origin: str) -> int:
        headers = {"Host": "localhost", "Origin": origin}
        request = make_mocked_request("POST", "/apis", headers, sslcontext=ssl.create_default_context())
        return (await AccessGuard(LOOPBACK).middleware(request, enter)).status

    assert await code_for("https://localhost") == 200
    with pytest.raises(Forbidden):
        await code_for("http://localhost")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(("Content-Type: text/plain", "Origin: http://evil.example"), id="a form of plain text"),
        pytest.param(("Origin: http://evil.example",), id="no content type"),
        pytest.param(("Origin: null",), id="no content type, from a page without origin"),
        pytest.param(("Sec-Fetch-Site: cross-site",), id="no content type and no origin"),
        pytest.param(("Content-Type: application/json", "Sec-Fetch-Site: cross-site"), id="json"),
        pytest.param(("Sec-Fetch-Site: same-site",), id="another port of this machine"),
        pytest.param(("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: none"), id="two values"),
    ],
)
async def test_no_page_can_post_a_framework(open_server: GuardedServer, headers: tuple[str, ...]) -> None:
    body = b'{"kind": "Framework"}'

    assert await open_server.status_of(OWN, *headers, method="POST", body=body) == 403
    assert open_server.visited == []


async def test_no_page_can_make_an_image_of_a_watch(open_server: GuardedServer) -> None:
    path = "/apis/launcher.microsoft.com/v1/frameworks?watch=1"

    assert (
        await open_server.status_of(OWN, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image", path=path)
        == 403
    )
    assert open_server.visited == []


async def test_a_cors_preflight_is_rejected(open_server: GuardedServer) -> None:
    preflight = (OWN, "Origin: http://evil.example", "Access-Control-Request-Method: PUT")

    assert await open_server.status_of(*preflight, method="OPTIONS") == 403


async def test_the_body_of_a_rejected_request_is_not_awaited(open_server: GuardedServer) -> None:
    assert open_server.server is not None
    head = b"POST /apis HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 3000000\r\n\r\n"

    assert await open_server.server.first_line(head) == b"HTTP/1.1 403 Forbidden\r\n"


async def test_the_token_is_accepted(token_server: GuardedServer) -> None:
    assert await token_server.status_of(OWN, BEARER) == 200
    assert await token_server.status_of(OWN, f"authorization: bearer  {TOKEN}") == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="no token"),
        pytest.param(("Authorization: Bearer wrong",), id="another one"),
        pytest.param((f"Authorization: Bearer {TOKEN}x",), id="a token with a suffix"),
        pytest.param((f"Authorization: Bearer {TOKEN[:-1]}",), id="part of it"),
        pytest.param(("Authorization: Bearer ",), id="an empty one"),
        pytest.param(("Authorization: Bearer caf\xe9",), id="a token that is not ASCII"),
        pytest.param((f"Authorization: Basic {TOKEN}",), id="another scheme"),
        pytest.param((f"Authorization: {TOKEN}",), id="no scheme"),
        pytest.param((BEARER, "Authorization: Bearer wrong"), id="two"),
        pytest.param((f"Cookie: token={TOKEN}",), id="a cookie"),
    ],
)
async def test_check_082_other_tokens_are_rejected(
    token_server: GuardedServer, headers: tuple[str, ...]
) -> None:
    assert await token_server.status_of(OWN, *headers) == 401
    assert token_server.visited == []


async def test_check_082_an_unauthorized_response_has_no_details(token_server: GuardedServer) -> None:
    assert token_server.server is not None
    response = await token_server.server.client.get("/apis", Authorization="Bearer wrong")

    assert response.failure(401, "Unauthorized")["message"] == "Unauthorized"
    assert "WWW-Authenticate" not in response.headers


async def test_a_token_in_the_url_is_not_accepted(token_server: GuardedServer) -> None:
    assert await token_server.status_of(OWN, path=f"/apis?access_token={TOKEN.replace(' ', '+')}") == 401


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/store", "/version", "/version/"])
async def test_probes_need_no_token(token_server: GuardedServer, path: str) -> None:
    assert await token_server.status_of(OWN, path=path) == 200
    assert await token_server.status_of("Host: evil.example", path=path) == 403


@pytest.mark.parametrize(
    "path",
    [
        "/metrics",
        "/healthz/../apis",
        "/healthz/%2e%2e/apis",
        "/healthz/a/../../apis",
        "/healthz%2f..%2fapis",
        "/healthzx",
        "//healthz",
        "/version/x",
        "/version;/apis",
    ],
)
async def test_only_exact_probe_paths_need_no_token(token_server: GuardedServer, path: str) -> None:
    assert await token_server.status_of(OWN, path=path) == 401
    assert token_server.visited == []


async def test_check_080_headers_of_an_authenticating_proxy_are_ignored(token_server: GuardedServer) -> None:
    spoofed = ("X-Remote-User: admin", "X-Remote-Group: system:masters", "X-Forwarded-For: 127.0.0.1")

    assert await token_server.status_of(OWN, *spoofed) == 401


@pytest.mark.parametrize(
    "header", ["Impersonate-User: bob", "impersonate-group: g", "Impersonate-Extra-x: y"]
)
async def test_check_081_impersonation_is_rejected(
    open_server: GuardedServer, token_server: GuardedServer, header: str
) -> None:
    assert await open_server.status_of(OWN, header) == 403
    assert await token_server.status_of(OWN, header) == 401
    assert await token_server.status_of(OWN, BEARER, header) == 403
    assert open_server.visited == token_server.visited == []


async def test_hosts_can_be_added(open_server: GuardedServer) -> None:
    async with run_guarded(AccessGuard(LOOPBACK | {"Launcher.Example"}, TOKEN)) as guarded:
        assert await guarded.status_of("Host: launcher.example:443", BEARER) == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "[::1]", "localhost"])
def test_a_loopback_listener_needs_no_token(host: str) -> None:
    assert exposure_error(host, token=False, tls=False) is None


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "192.168.1.7", "launcher.example", "localhost.example"]
)
def test_a_public_listener_needs_a_token_and_tls(host: str) -> None:
    assert exposure_error(host, token=True, tls=True) is None
    assert "set TLS, or listen on 127.0.0.1" in str(exposure_error(host, token=True, tls=False))
    assert "set a token, or listen on 127.0.0.1" in str(exposure_error(host, token=False, tls=True))
    assert "set a token and TLS, or" in str(exposure_error(host, token=False, tls=False))
