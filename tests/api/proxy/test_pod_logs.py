"""Logs of deleted pods through the proxy: from the archive, with the caller's rights."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from launcher.core.errors import Forbidden, Unavailable
from launcher.log_archive.interface import ArchivedPod, LogKey
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.conftest import LAUNCHER_CREDENTIALS
from tests.api.proxy.fake_api_server import FakeApiServer, HttpResponse
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.log_archive.memory_archive import MemoryArchive

POD = "/api/v1/namespaces/default/pods/mnist-worker-0"
LOG = f"{POD}/log"
OLD, NEW = "8f4c2a9e-0001", "8f4c2a9e-0002"
PODS = ArchivedPod("default", "mnist-worker-0", OLD)
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def line(second: int, text: str) -> bytes:
    return f"2026-01-31T12:00:0{second}.000000000Z {text}\n".encode()


TEXT = line(1, "one") + line(2, "two") + line(3, "three")


def api_server(uid: str | None, *, allowed: bool = True, codes: dict[str, int] | None = None) -> HttpResponse:
    """Serves the pod with that uid, or none, and its log; *codes* are those of errors by path."""

    async def answer(request: web.Request) -> web.Response:
        code = (codes or {}).get(request.path)
        if code is None and request.path == POD and uid is None:
            code = 404
        if code is not None:
            return web.json_response({"kind": "Status", "code": code, "message": "no"}, status=code)
        if request.path == REVIEW:
            return web.json_response({"status": {"allowed": allowed}}, status=201)
        if request.path == LOG:
            return web.Response(text="the log of the existing pod\n")
        return web.json_response({"metadata": {"name": "mnist-worker-0", "uid": uid}})

    return answer


@pytest.fixture
def archive() -> MemoryArchive:
    result = MemoryArchive()
    result.logs[LogKey(PODS, "main", 0)] = TEXT
    return result


@pytest.fixture
async def proxy(cluster: FakeApiServer, archive: MemoryArchive) -> AsyncIterator[ProxyClient]:
    """A proxy with a log archive."""
    config = ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS))
    async with run_proxy(config, log_archive=archive) as running:
        yield running


@pytest.mark.parametrize("uid", [None, NEW], ids=["deleted", "replaced"])
async def test_the_log_of_a_pod_that_no_longer_exists_is_archived(
    proxy: ProxyClient, cluster: FakeApiServer, uid: str | None
) -> None:
    cluster.answer = api_server(uid)

    response = await proxy.get(f"{LOG}?uid={OLD}")

    assert (response.status, response.body) == (200, b"one\ntwo\nthree\n")
    assert response.headers["Content-Type"] == "text/plain"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Launcher-Pod-Uid"] == OLD


async def test_the_right_to_get_the_log_is_that_of_the_caller(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(None)

    await proxy.get(f"{LOG}?uid={OLD}")

    assert [(request.method, request.path) for request in cluster.requests] == [
        ("GET", POD),
        ("POST", REVIEW),
    ]
    assert {request.headers["Authorization"] for request in cluster.requests} == {TOKEN}
    assert cluster.last.json()["spec"]["resourceAttributes"] == {
        "namespace": "default",
        "verb": "get",
        "resource": "pods",
        "subresource": "log",
        "name": "mnist-worker-0",
    }


async def test_a_caller_without_the_right_gets_403(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = api_server(None, allowed=False)

    response = await proxy.get(f"{LOG}?uid={OLD}")

    assert response.status == 403
    assert "pods/log" in response.json()["message"]
    assert b"one" not in response.body


@pytest.mark.parametrize(
    ("path", "code"),
    [
        pytest.param(POD, 401, id="unknown credentials"),
        pytest.param(POD, 403, id="no right to get the pod"),
        pytest.param(REVIEW, 401, id="credentials that expire"),
        pytest.param(REVIEW, 500, id="an error of the API server"),
    ],
)
async def test_an_error_of_the_api_server_is_returned(
    proxy: ProxyClient, cluster: FakeApiServer, path: str, code: int
) -> None:
    cluster.answer = api_server(None, codes={path: code})

    response = await proxy.get(f"{LOG}?uid={OLD}")

    assert (response.status, response.json()["message"]) == (code, "no")


async def test_without_credentials_nothing_is_requested(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    response = await proxy.session.get(f"{proxy.url}{LOG}?uid={OLD}", headers={"Authorization": ""})

    assert response.status == 401
    assert cluster.requests == []


async def test_the_log_of_an_existing_pod_is_that_of_the_cluster(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(OLD)

    response = await proxy.get(f"{LOG}?uid={OLD}&container=main&tailLines=3")

    assert response.body == b"the log of the existing pod\n"
    assert response.headers["Launcher-Pod-Uid"] == OLD
    assert [request.path for request in cluster.requests] == [POD, f"{LOG}?container=main&tailLines=3"]


async def test_without_a_uid_the_request_is_forwarded_as_it_is(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(None, codes={LOG: 404})

    response = await proxy.get(f"{LOG}?previous=true")

    assert response.status == 404
    assert "Launcher-Pod-Uid" not in response.headers
    assert [request.path for request in cluster.requests] == [f"{LOG}?previous=true"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("tailLines=1", "three\n", id="the last lines"),
        pytest.param("timestamps=true", TEXT.decode(), id="timestamps"),
        pytest.param("sinceTime=2026-01-31T12:00:02Z", "two\nthree\n", id="since a time"),
        pytest.param("sinceSeconds=1", "", id="since some seconds ago"),
        pytest.param("limitBytes=5", "one\nt", id="the first bytes"),
        pytest.param("container=main&follow=true", "one\ntwo\nthree\n", id="follow"),
    ],
)
async def test_the_options_of_a_log_apply(
    proxy: ProxyClient, cluster: FakeApiServer, query: str, expected: str
) -> None:
    cluster.answer = api_server(None)

    assert (await proxy.get(f"{LOG}?uid={OLD}&{query}")).body.decode() == expected


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("tailLines=-1", 422, id="an invalid number"),
        pytest.param("sinceTime=soon", 400, id="an invalid time"),
        pytest.param("container=other", 400, id="no such container"),
        pytest.param("previous=true", 400, id="no previous run"),
    ],
)
async def test_invalid_options_are_rejected(
    proxy: ProxyClient, cluster: FakeApiServer, query: str, code: int
) -> None:
    cluster.answer = api_server(None)

    assert (await proxy.get(f"{LOG}?uid={OLD}&{query}")).status == code


async def test_runs_and_containers_are_selected(
    proxy: ProxyClient, cluster: FakeApiServer, archive: MemoryArchive
) -> None:
    cluster.answer = api_server(None)
    archive.logs[LogKey(PODS, "main", 1)] = line(5, "after a restart")
    archive.logs[LogKey(PODS, "init", 0)] = line(0, "before all others")

    async def log(query: str) -> Any:
        return await proxy.get(f"{LOG}?uid={OLD}&{query}")

    assert (await log("container=main")).body == b"after a restart\n"
    assert (await log("container=main&previous=true")).body == b"one\ntwo\nthree\n"
    assert (await log("container=init")).body == b"before all others\n"
    unnamed = await log("")
    assert (unnamed.status, b"[init main]" in unnamed.body) == (400, True)


@pytest.mark.parametrize("uid", ["unknown", "..%2F..", "%2e%2e", "a%0Ab"])
async def test_an_unknown_uid_is_not_found(proxy: ProxyClient, cluster: FakeApiServer, uid: str) -> None:
    cluster.answer = api_server(None)

    assert (await proxy.get(f"{LOG}?uid={uid}")).status == 404


async def test_without_an_archive_the_response_names_the_flag(cluster: FakeApiServer) -> None:
    cluster.answer = api_server(None)
    async with run_proxy(ClusterConfig(cluster.url, FixedHeader(LAUNCHER_CREDENTIALS))) as proxy:
        response = await proxy.get(f"{LOG}?uid={OLD}")

    assert response.status == 404
    assert "--log-archive" in response.json()["message"]


@pytest.mark.parametrize("error", [Forbidden("no credentials"), Unavailable("down")])
async def test_an_error_of_the_archive_is_not_one_of_the_caller(
    proxy: ProxyClient, cluster: FakeApiServer, archive: MemoryArchive, error: Exception
) -> None:
    cluster.answer = api_server(None)

    async def fail(_: ArchivedPod) -> Any:
        raise error

    archive.runs = fail  # type: ignore[method-assign,assignment]  # a failing archive

    assert (await proxy.get(f"{LOG}?uid={OLD}")).status == 503


async def test_an_archive_that_hangs_is_unavailable(
    proxy: ProxyClient, cluster: FakeApiServer, archive: MemoryArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.answer = api_server(None)
    monkeypatch.setattr("launcher.api.proxy.pod_logs._READ_SECONDS", 0.2)

    async def hang(_: LogKey) -> Any:
        await asyncio.Event().wait()

    archive.read = hang  # type: ignore[method-assign,assignment]  # a hanging archive

    assert (await proxy.get(f"{LOG}?uid={OLD}")).status == 503


async def test_a_long_log_is_returned_completely(
    proxy: ProxyClient, cluster: FakeApiServer, archive: MemoryArchive
) -> None:
    cluster.answer = api_server(None)
    archive.logs[LogKey(PODS, "main", 0)] = line(1, "x" * 100) * 10_000

    assert (await proxy.get(f"{LOG}?uid={OLD}")).body == (b"x" * 100 + b"\n") * 10_000
