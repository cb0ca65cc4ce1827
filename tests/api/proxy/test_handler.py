"""What goes through the front door, both ways."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from launcher.api.middleware.metrics import Gauge, Metrics
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.client import PATIENCE
from tests.api.proxy.conftest import OWN
from tests.api.proxy.doors import TOKEN, Door, door_to
from tests.api.proxy.upstream import ApiServer
from tests.api.samples import A, B

#: What the caller has not sent, and the API server gets all the same.
_ADDED = {"Host", "X-Forwarded-For"}


def answering(response: Callable[[], web.Response]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return response()

    return answer


async def test_a_request_goes_on_as_it_came(door: Door, cluster: ApiServer) -> None:
    path = "/api/v1/namespaces/a%2Fb/pods?labelSelector=x%20in%20(a,b)&limit=5&limit=6&empty=&watch"
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io, */*"

    answer = await door.get(path, accept, X_Own="1", Impersonate_User="bob", Accept_Encoding="gzip")

    assert answer.status == 200
    assert (cluster.last.method, cluster.last.path) == ("GET", path)
    sent = {
        "Authorization": TOKEN,
        "Accept": accept,
        "User-Agent": "a-client",
        "X-Own": "1",
        "Impersonate-User": "bob",
        "Accept-Encoding": "gzip",
    }
    assert {name: cluster.last.headers[name] for name in cluster.last.headers if name not in _ADDED} == sent
    assert cluster.last.headers["Host"] == cluster.url.removeprefix("http://")


async def test_nothing_is_said_that_the_caller_has_not_said(door: Door, cluster: ApiServer) -> None:
    request = f"POST /apis HTTP/1.1\r\nHost: door\r\nAuthorization: {TOKEN}\r\nContent-Length: 1\r\n\r\nx"

    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
        writer.write(request.encode())
        await reader.readline()
        writer.close()
        await writer.wait_closed()

    assert set(cluster.last.headers) == {"Authorization", "Content-Length", *_ADDED}


async def test_headers_that_stand_there_twice_go_on_twice(door: Door, cluster: ApiServer) -> None:
    headers = [("Authorization", TOKEN), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]

    async with door.session.get(f"{door.url}/apis", headers=headers):
        pass

    assert cluster.last.headers.getall("Impersonate-Group") == ["a", "b"]


async def test_the_audit_log_is_told_where_a_request_is_from(door: Door, cluster: ApiServer) -> None:
    await door.get("/apis")
    direct = cluster.last.headers["X-Forwarded-For"]
    await door.get("/apis", X_Forwarded_For="10.1.2.3")

    assert direct == "127.0.0.1"
    assert cluster.last.headers.getall("X-Forwarded-For") == ["10.1.2.3, 127.0.0.1"]


async def test_headers_of_one_connection_end_at_the_door(door: Door, cluster: ApiServer) -> None:
    await door.get(
        "/apis",
        Connection="keep-alive, X-Hop",
        Keep_Alive="300",
        TE="trailers",
        X_Hop="1",
        Proxy_Authorization="Basic eDp5",
        X_Remote_User="admin",
        X_Remote_Group="system:masters",
        Upgrade="h2c",
    )

    seen = {name.lower() for name in cluster.last.headers}
    assert seen.isdisjoint(
        {"connection", "keep-alive", "te", "x-hop", "proxy-authorization", "upgrade"}
        | {"x-remote-user", "x-remote-group"}
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_body_that_is_not_ours_to_check_goes_on_byte_for_byte(
    door: Door, cluster: ApiServer, method: str
) -> None:
    body = b'{"kind":"Pod" ,  "apiVersion":"v1"}\n'

    await door.call(method, "/api/v1/namespaces/default/pods?dryRun=All", body, "application/json")

    assert (cluster.last.method, cluster.last.body) == (method, body)
    assert cluster.last.headers["Content-Type"] == "application/json"
    assert cluster.last.headers["Content-Length"] == str(len(body))


async def test_a_body_in_pieces_goes_on_in_pieces(door: Door, cluster: ApiServer) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a" * 100_000
        yield b"b"

    await door.post("/api/v1/namespaces/default/pods", pieces())

    assert cluster.last.body == b"a" * 100_000 + b"b"
    assert cluster.last.headers["Transfer-Encoding"] == "chunked"


@pytest.mark.parametrize("media", ["merge-patch+json", "json-patch+json", "apply-patch+yaml"])
async def test_patches_of_frameworks_go_on_as_they_are(door: Door, cluster: ApiServer, media: str) -> None:
    await door.patch(f"{A}?fieldManager=me", b"{anything: at all}", f"application/{media}")

    assert cluster.last.body == b"{anything: at all}"
    assert cluster.last.headers["Content-Type"] == f"application/{media}"


async def test_an_answer_comes_back_as_it_is(door: Door, cluster: ApiServer) -> None:
    body = gzip.compress(b"pods" * 1000)

    async def answer(_: web.Request) -> web.Response:
        response = web.Response(status=418, reason="Odd", body=body)
        response.headers.update(
            {
                "Content-Type": "application/vnd.odd",
                "Content-Encoding": "gzip",
                "Audit-Id": "one-of-theirs",
                "Retry-After": "7",
                "X-Kubernetes-Pf-Flowschema-Uid": "0",
                "Date": "Thu, 01 Jan 1970 00:00:00 GMT",
                "Connection": "X-Hop",
                "X-Hop": "1",
            }
        )
        response.headers.add("Warning", '299 - "a"')
        response.headers.add("Warning", '299 - "b"')
        return response

    cluster.answer = answer
    answered = await door.get("/apis", Accept_Encoding="gzip")

    assert (answered.status, answered.body) == (418, body)
    assert dict(answered.headers) == {
        "Content-Type": "application/vnd.odd",
        "Content-Encoding": "gzip",
        "Content-Length": str(len(body)),
        "Audit-Id": "one-of-theirs",
        "Retry-After": "7",
        "X-Kubernetes-Pf-Flowschema-Uid": "0",
        "Date": "Thu, 01 Jan 1970 00:00:00 GMT",
        "Warning": '299 - "a"',
        "Server": "framework-launcher",
    }
    assert answered.warnings == ['299 - "a"', '299 - "b"']


async def test_a_redirection_is_the_callers_to_follow(door: Door, cluster: ApiServer) -> None:
    cluster.answer = answering(lambda: web.Response(status=301, headers={"Location": "/elsewhere"}))

    answer = await door.get("/apis/")

    assert (answer.status, answer.headers["Location"]) == (301, "/elsewhere")
    assert len(cluster.asked) == 1


async def test_cookies_of_one_caller_are_not_sent_for_another(cluster: ApiServer) -> None:
    cluster.answer = answering(lambda: web.Response(headers={"Set-Cookie": "session=first; Path=/"}))
    # Of an address that is no name, nobody keeps any.
    named = cluster.url.replace("127.0.0.1", "localhost")

    async with door_to(ClusterConfig(named, FixedHeader(OWN))) as door:
        answer = await door.get("/apis")
        await door.get("/apis")

    assert answer.headers["Set-Cookie"] == "session=first; Path=/"
    assert "Cookie" not in cluster.last.headers


async def test_a_head_is_answered_without_a_body(door: Door, cluster: ApiServer) -> None:
    cluster.answer = answering(lambda: web.Response(body=b"12345"))

    answer = await door.call("HEAD", A)

    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "5")
    assert cluster.last.method == "HEAD"


async def test_a_watch_comes_line_by_line_and_ends_with_its_caller(door: Door, cluster: ApiServer) -> None:
    go_on = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        await go_on.wait()
        await response.write(b'{"type":"DELETED"}\n')
        await asyncio.sleep(PATIENCE)
        return response

    cluster.answer = watch
    async with door.watch(f"{B}?watch=1") as stream:
        assert await stream.next() == {"type": "ADDED"}
        go_on.set()
        assert await stream.next() == {"type": "DELETED"}

    async with asyncio.timeout(PATIENCE):
        await cluster.given_up.wait()


async def test_a_watch_that_ends_well_ends_well(door: Door, cluster: ApiServer) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        return response

    cluster.answer = watch
    async with door.watch(f"{B}?watch=1") as stream:
        assert await stream.rest() == [{"type": "ADDED"}]


async def test_an_answer_that_breaks_off_breaks_off(door: Door, cluster: ApiServer) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        assert request.transport is not None
        request.transport.abort()
        return response

    cluster.answer = broken
    async with door.watch(f"{B}?watch=1") as stream:
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.rest()


async def test_whoever_reads_slowly_lets_the_api_server_wait(door: Door, cluster: ApiServer) -> None:
    sent, all_of_it = 0, 2**26

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(all_of_it // 2**16):
            await response.write(b"x" * 2**16)
            sent += 2**16
        return response

    cluster.answer = flood
    async with door.session.get(f"{door.url}/api/v1/namespaces/default/pods/a/log?follow=1") as response:
        assert len(await response.content.readexactly(2**16)) == 2**16
        last = -1
        while last != sent:
            last = sent
            await asyncio.sleep(0.5)

    assert sent < all_of_it / 2


async def test_nothing_climbs_out_of_the_path_of_the_cluster(cluster: ApiServer) -> None:
    async with door_to(ClusterConfig(f"{cluster.url}/k8s/clusters/one", FixedHeader(OWN))) as door:
        for path in ("/../two/api", "/api/../../two", "/api/%2e%2e/two", "/api/%2E./x", "/./api"):
            (await door.get(path)).refused(400, "BadRequest")
        await door.get("/api/v1/pods")

    assert [asked.path for asked in cluster.asked] == ["/k8s/clusters/one/api/v1/pods"]


async def test_methods_that_nobody_uses_are_refused(door: Door, cluster: ApiServer) -> None:
    (await door.call("TRACE", "/apis")).refused(405, "MethodNotAllowed")
    assert cluster.asked == []


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/metrics"])
async def test_health_and_metrics_are_the_launchers_own(door: Door, cluster: ApiServer, path: str) -> None:
    async with door.session.get(
        URL(door.url + path), headers={"Authorization": ""}, skip_auto_headers=("Authorization",)
    ) as response:
        assert response.status == 200
    assert cluster.asked == []


async def test_requests_are_counted(door: Door) -> None:
    await door.get(B)
    await door.get("/apis/apps/v1/deployments")

    text = (await door.get("/metrics")).body.decode()
    assert 'verb="list",resource="frameworks",subresource="",code="200"} 1' in text
    assert 'verb="get",resource="",subresource="",code="200"} 1' in text
    assert "launcher_frameworks" not in text


async def test_metrics_hold_what_other_parts_know(cluster: ApiServer) -> None:
    leads = Gauge("launcher_leader", "Whether it leads.", lambda: [((), 1.0)])
    access = ClusterConfig(cluster.url, FixedHeader(OWN))

    async with door_to(access, metrics=Metrics(gauges=[leads])) as door:
        text = (await door.get("/metrics")).body.decode()

    assert "# TYPE launcher_leader gauge\nlauncher_leader 1.0\n" in text
