"""What a browser can be made to send is sent here as bytes, since no honest client would write it."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from launcher.api.middleware.access_guard import LOOPBACK, Guard
from launcher.core.errors import Forbidden
from launcher.settings import refusal
from tests.api.around import Running, application, running

TOKEN = "correct horse battery staple"
BEARER = f"Authorization: Bearer {TOKEN}"
OWN = "Host: @"


@dataclass(slots=True)
class Room:
    """What is behind the guard; it notes the paths of all who got in."""

    server: Running | None = None
    visited: list[str] = field(default_factory=list)

    async def enter(self, request: web.Request) -> web.Response:
        self.visited.append(request.path)
        return web.Response(text="inside")

    async def knock(self, *headers: str, method: str = "GET", path: str = "/apis", body: bytes = b"") -> int:
        """The code that is answered to exactly these headers; @ stands for the server's own address."""
        assert self.server is not None
        lines = [f"{method} {path} HTTP/1.1", *headers, f"Content-Length: {len(body)}", "Connection: close"]
        head = "\r\n".join((*lines, "", "")).replace("@", f"127.0.0.1:{self.server.port}")
        answer = await self.server.raw(head.encode() + body)
        code = int(answer.split(b" ", 2)[1])
        assert (b'"kind":"Status"' in answer) is (code != 200)
        return code


@asynccontextmanager
async def room(guard: Guard) -> AsyncIterator[Room]:
    behind = Room()
    app = application(guard.middleware)
    app.router.add_route("*", "/{path:.*}", behind.enter)
    async with running(app) as server:
        behind.server = server
        yield behind


@pytest.fixture
async def laptop() -> AsyncIterator[Room]:
    """Behind the guard of a server on a laptop: no token."""
    async with room(Guard(LOOPBACK)) as behind:
        yield behind


@pytest.fixture
async def machine() -> AsyncIterator[Room]:
    """Behind the guard of a server that wants a token."""
    async with room(Guard(LOOPBACK, TOKEN)) as behind:
        yield behind


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "127.0.0.1", "localhost", "LOCALHOST:8080", "localhost.", "[::1]:8080", "[::1]"],
)
async def test_a_server_answers_to_its_names(laptop: Room, host: str) -> None:
    assert await laptop.knock(f"Host: {host}") == 200


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
        pytest.param(("Host: evil.example", "X-Forwarded-Host: localhost"), id="a proxy's word"),
        pytest.param(("Host: evil.example", BEARER), id="and a token"),
    ],
)
async def test_check_114_other_names_are_refused(laptop: Room, headers: tuple[str, ...]) -> None:
    assert await laptop.knock(*headers) in (400, 403)
    assert laptop.visited == []


async def test_check_114_a_request_of_old_that_names_nobody_is_refused(laptop: Room) -> None:
    assert laptop.server is not None
    answer = await laptop.server.raw(b"GET /apis HTTP/1.0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.0 403 ")


async def test_check_114_a_name_in_the_request_line_does_not_help(laptop: Room) -> None:
    assert await laptop.knock("Host: evil.example", path="http://localhost/apis") == 403


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
async def test_check_114_pages_of_other_origins_are_refused(laptop: Room, origin: str) -> None:
    assert await laptop.knock(OWN, f"Origin: {origin}") == 403
    assert laptop.visited == []


async def test_pages_of_our_own_may_call(laptop: Room) -> None:
    assert await laptop.knock(OWN, "Origin: http://@", "Sec-Fetch-Site: same-origin", method="POST") == 200
    assert await laptop.knock(OWN, "Sec-Fetch-Site: none") == 200


async def test_under_tls_our_own_pages_are_those_that_came_under_tls() -> None:
    async def enter(request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def knock(origin: str) -> int:
        headers = {"Host": "localhost", "Origin": origin}
        request = make_mocked_request("POST", "/apis", headers, sslcontext=ssl.create_default_context())
        return (await Guard(LOOPBACK).middleware(request, enter)).status

    assert await knock("https://localhost") == 200
    with pytest.raises(Forbidden):
        await knock("http://localhost")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(("Content-Type: text/plain", "Origin: http://evil.example"), id="a form of plain text"),
        pytest.param(("Origin: http://evil.example",), id="no content type"),
        pytest.param(("Origin: null",), id="no content type, from a page without origin"),
        pytest.param(("Sec-Fetch-Site: cross-site",), id="no content type and no origin"),
        pytest.param(("Content-Type: application/json", "Sec-Fetch-Site: cross-site"), id="json"),
        pytest.param(("Sec-Fetch-Site: same-site",), id="another port of this machine"),
        pytest.param(("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: none"), id="two words"),
    ],
)
async def test_no_page_can_post_a_framework(laptop: Room, headers: tuple[str, ...]) -> None:
    body = b'{"kind": "Framework"}'

    assert await laptop.knock(OWN, *headers, method="POST", body=body) == 403
    assert laptop.visited == []


async def test_no_page_can_make_an_image_of_a_watch(laptop: Room) -> None:
    path = "/apis/launcher.microsoft.com/v1/frameworks?watch=1"

    assert await laptop.knock(OWN, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image", path=path) == 403
    assert laptop.visited == []


async def test_no_page_gets_leave_by_asking_first(laptop: Room) -> None:
    asked = (OWN, "Origin: http://evil.example", "Access-Control-Request-Method: PUT")

    assert await laptop.knock(*asked, method="OPTIONS") == 403


async def test_a_refused_body_is_not_waited_for(laptop: Room) -> None:
    assert laptop.server is not None
    head = b"POST /apis HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 3000000\r\n\r\n"

    assert await laptop.server.first_line(head) == b"HTTP/1.1 403 Forbidden\r\n"


async def test_the_token_opens(machine: Room) -> None:
    assert await machine.knock(OWN, BEARER) == 200
    assert await machine.knock(OWN, f"authorization: bearer  {TOKEN}") == 200


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param((), id="no token"),
        pytest.param(("Authorization: Bearer wrong",), id="another one"),
        pytest.param((f"Authorization: Bearer {TOKEN}x",), id="one that begins well"),
        pytest.param((f"Authorization: Bearer {TOKEN[:-1]}",), id="part of it"),
        pytest.param(("Authorization: Bearer ",), id="an empty one"),
        pytest.param(("Authorization: Bearer caf\xe9",), id="one that is no ascii"),
        pytest.param((f"Authorization: Basic {TOKEN}",), id="another scheme"),
        pytest.param((f"Authorization: {TOKEN}",), id="no scheme"),
        pytest.param((BEARER, "Authorization: Bearer wrong"), id="two"),
        pytest.param((f"Cookie: token={TOKEN}",), id="a cookie"),
    ],
)
async def test_check_082_nothing_but_the_token_opens(machine: Room, headers: tuple[str, ...]) -> None:
    assert await machine.knock(OWN, *headers) == 401
    assert machine.visited == []


async def test_check_082_the_refusal_says_no_more_than_that(machine: Room) -> None:
    assert machine.server is not None
    answer = await machine.server.client.get("/apis", Authorization="Bearer wrong")

    assert answer.refused(401, "Unauthorized")["message"] == "Unauthorized"
    assert "WWW-Authenticate" not in answer.headers


async def test_a_token_in_the_address_does_not_open(machine: Room) -> None:
    assert await machine.knock(OWN, path=f"/apis?access_token={TOKEN.replace(' ', '+')}") == 401


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/store", "/version", "/version/"])
async def test_probes_need_no_token(machine: Room, path: str) -> None:
    assert await machine.knock(OWN, path=path) == 200
    assert await machine.knock("Host: evil.example", path=path) == 403


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
async def test_nothing_else_can_pass_for_a_probe(machine: Room, path: str) -> None:
    assert await machine.knock(OWN, path=path) == 401
    assert machine.visited == []


async def test_check_080_the_headers_of_a_proxy_make_nobody_an_admin(machine: Room) -> None:
    spoofed = ("X-Remote-User: admin", "X-Remote-Group: system:masters", "X-Forwarded-For: 127.0.0.1")

    assert await machine.knock(OWN, *spoofed) == 401


@pytest.mark.parametrize(
    "header", ["Impersonate-User: bob", "impersonate-group: g", "Impersonate-Extra-x: y"]
)
async def test_check_081_nobody_acts_as_somebody_else(laptop: Room, machine: Room, header: str) -> None:
    assert await laptop.knock(OWN, header) == 403
    assert await machine.knock(OWN, header) == 401
    assert await machine.knock(OWN, BEARER, header) == 403
    assert laptop.visited == machine.visited == []


async def test_names_can_be_added(laptop: Room) -> None:
    async with room(Guard(LOOPBACK | {"Launcher.Example"}, TOKEN)) as behind:
        assert await behind.knock("Host: launcher.example:443", BEARER) == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "[::1]", "localhost"])
def test_on_this_machine_alone_a_server_may_listen_without_a_token(host: str) -> None:
    assert refusal(host, token=False, tls=False) is None


@pytest.mark.parametrize(
    "host", ["", "0.0.0.0", "::", "192.168.1.7", "launcher.example", "localhost.example"]
)
def test_where_others_reach_it_a_server_needs_a_token_and_tls(host: str) -> None:
    assert refusal(host, token=True, tls=True) is None
    assert "set TLS, or listen on 127.0.0.1" in str(refusal(host, token=True, tls=False))
    assert "set a token, or listen on 127.0.0.1" in str(refusal(host, token=False, tls=True))
    assert "set a token and TLS, or" in str(refusal(host, token=False, tls=False))
