"""Requests and responses that the proxy forwards."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from launcher.api.middleware.metrics import CallbackGauge, Metrics
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.api.samples import A, B
from tests.eventually import TIMEOUT_SECONDS

#: What the caller has not sent, and the API server gets all the same.
_ADDED = {"Host", "X-Forwarded-For"}


def answering(response: Callable[[], web.Response]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return response()

    return answer


async def test_a_request_is_forwarded_unchanged(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    path = "/api/v1/namespaces/a%2Fb/pods?labelSelector=x%20in%20(a,b)&limit=5&limit=6&empty=&watch"
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io, */*"

    answer = await proxy.get(path, accept, X_Own="1", Impersonate_User="bob", Accept_Encoding="gzip")

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


async def test_no_headers_are_added_to_a_request(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    request = f"POST /apis HTTP/1.1\r\nHost: door\r\nAuthorization: {TOKEN}\r\nContent-Length: 1\r\n\r\nx"

    async with asyncio.timeout(TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request.encode())
        await reader.readline()
        writer.close()
        await writer.wait_closed()

    assert set(cluster.last.headers) == {"Authorization", "Content-Length", *_ADDED}


async def test_repeated_headers_are_forwarded(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    headers = [("Authorization", TOKEN), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")]

    async with proxy.session.get(f"{proxy.url}/apis", headers=headers):
        pass

    assert cluster.last.headers.getall("Impersonate-Group") == ["a", "b"]


async def test_the_address_of_the_caller_is_forwarded(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    await proxy.get("/apis")
    direct = cluster.last.headers["X-Forwarded-For"]
    await proxy.get("/apis", X_Forwarded_For="10.1.2.3")

    assert direct == "127.0.0.1"
    assert cluster.last.headers.getall("X-Forwarded-For") == ["10.1.2.3, 127.0.0.1"]


async def test_hop_by_hop_headers_are_not_forwarded(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    await proxy.get(
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
async def test_other_bodies_are_forwarded_byte_for_byte(
    proxy: ProxyClient, cluster: FakeApiServer, method: str
) -> None:
    body = b'{"kind":"Pod" ,  "apiVersion":"v1"}\n'

    await proxy.call(method, "/api/v1/namespaces/default/pods?dryRun=All", body, "application/json")

    assert (cluster.last.method, cluster.last.body) == (method, body)
    assert cluster.last.headers["Content-Type"] == "application/json"
    assert cluster.last.headers["Content-Length"] == str(len(body))


async def test_a_chunked_body_is_streamed(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"a" * 100_000
        yield b"b"

    await proxy.post("/api/v1/namespaces/default/pods", pieces())

    assert cluster.last.body == b"a" * 100_000 + b"b"
    assert cluster.last.headers["Transfer-Encoding"] == "chunked"


@pytest.mark.parametrize("media", ["merge-patch+json", "json-patch+json", "apply-patch+yaml"])
async def test_patches_of_frameworks_are_forwarded_unchanged(
    proxy: ProxyClient, cluster: FakeApiServer, media: str
) -> None:
    await proxy.patch(f"{A}?fieldManager=me", b"{anything: at all}", f"application/{media}")

    assert cluster.last.body == b"{anything: at all}"
    assert cluster.last.headers["Content-Type"] == f"application/{media}"


async def test_a_response_is_forwarded_unchanged(proxy: ProxyClient, cluster: FakeApiServer) -> None:
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
    answered = await proxy.get("/apis", Accept_Encoding="gzip")

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


async def test_redirects_are_not_followed(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = answering(lambda: web.Response(status=301, headers={"Location": "/elsewhere"}))

    answer = await proxy.get("/apis/")

    assert (answer.status, answer.headers["Location"]) == (301, "/elsewhere")
    assert len(cluster.requests) == 1


async def test_cookies_of_one_caller_are_not_sent_for_another(cluster: FakeApiServer) -> None:
    cluster.answer = answering(lambda: web.Response(headers={"Set-Cookie": "session=first; Path=/"}))
    # Clients do not store cookies for IP addresses.
    named = cluster.url.replace("127.0.0.1", "localhost")

    async with run_proxy(ClusterConfig(named, FixedHeader(LAUNCHER_CREDENTIALS))) as proxy:
        answer = await proxy.get("/apis")
        await proxy.get("/apis")

    assert answer.headers["Set-Cookie"] == "session=first; Path=/"
    assert "Cookie" not in cluster.last.headers


async def test_a_head_is_answered_without_a_body(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = answering(lambda: web.Response(body=b"12345"))

    answer = await proxy.call("HEAD", A)

    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "5")
    assert cluster.last.method == "HEAD"


async def test_a_watch_is_streamed_and_ends_with_its_caller(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    go_on = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        await go_on.wait()
        await response.write(b'{"type":"DELETED"}\n')
        await asyncio.sleep(TIMEOUT_SECONDS)
        return response

    cluster.answer = watch
    async with proxy.watch(f"{B}?watch=1") as stream:
        assert await stream.next() == {"type": "ADDED"}
        go_on.set()
        assert await stream.next() == {"type": "DELETED"}

    async with asyncio.timeout(TIMEOUT_SECONDS):
        await cluster.cancelled.wait()


async def test_the_end_of_a_watch_is_forwarded(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        return response

    cluster.answer = watch
    async with proxy.watch(f"{B}?watch=1") as stream:
        assert await stream.rest() == [{"type": "ADDED"}]


async def test_an_interrupted_response_is_interrupted_for_the_caller(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        assert request.transport is not None
        request.transport.abort()
        return response

    cluster.answer = broken
    async with proxy.watch(f"{B}?watch=1") as stream:
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.rest()


async def test_a_slow_caller_slows_down_the_api_server(proxy: ProxyClient, cluster: FakeApiServer) -> None:
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
    async with proxy.session.get(f"{proxy.url}/api/v1/namespaces/default/pods/a/log?follow=1") as response:
        assert len(await response.content.readexactly(2**16)) == 2**16
        last = -1
        while last != sent:
            last = sent
            await asyncio.sleep(0.5)

    assert sent < all_of_it / 2


async def test_paths_with_dots_are_rejected(cluster: FakeApiServer) -> None:
    async with run_proxy(
        ClusterConfig(f"{cluster.url}/k8s/clusters/one", FixedHeader(LAUNCHER_CREDENTIALS))
    ) as proxy:
        for path in ("/../two/api", "/api/../../two", "/api/%2e%2e/two", "/api/%2E./x", "/./api"):
            (await proxy.get(path)).failure(400, "BadRequest")
        await proxy.get("/api/v1/pods")

    assert [requests.path for requests in cluster.requests] == ["/k8s/clusters/one/api/v1/pods"]


async def test_unknown_methods_are_rejected(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    (await proxy.call("TRACE", "/apis")).failure(405, "MethodNotAllowed")
    assert cluster.requests == []


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/metrics"])
async def test_health_and_metrics_are_served_by_the_proxy_itself(
    proxy: ProxyClient, cluster: FakeApiServer, path: str
) -> None:
    async with proxy.session.get(
        URL(proxy.url + path), headers={"Authorization": ""}, skip_auto_headers=("Authorization",)
    ) as response:
        assert response.status == 200
    assert cluster.requests == []


async def test_requests_are_counted(proxy: ProxyClient) -> None:
    await proxy.get(B)
    await proxy.get("/apis/apps/v1/deployments")

    text = (await proxy.get("/metrics")).body.decode()
    assert '{code="200",resource="frameworks",subresource="",verb="list"} 1' in text
    assert '{code="200",resource="",subresource="",verb="get"} 1' in text
    assert "launcher_frameworks" not in text


async def test_callback_gauges_are_part_of_the_metrics(cluster: FakeApiServer) -> None:
    leads = CallbackGauge("launcher_leader", "Whether it leads.", lambda: [((), 1.0)])
    access = ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS))

    async with run_proxy(access, metrics=Metrics(gauges=[leads])) as proxy:
        text = (await proxy.get("/metrics")).body.decode()

    assert "# TYPE launcher_leader gauge\nlauncher_leader 1.0\n" in text
