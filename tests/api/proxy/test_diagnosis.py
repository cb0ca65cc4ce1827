"""The diagnosis through the proxy: read with the caller's credentials, with what the caller may read."""

from typing import Any

import pytest
from aiohttp import web

from launcher.core.diagnosis.launcher_state import Leadership
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.fake_api_server import FakeApiServer, HttpResponse
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.api.samples import A, framework
from tests.builders import a_role

Json = dict[str, Any]
FRAMEWORK = framework(namespace="default", uid="u", generation=1, creationTimestamp="2026-01-01T00:00:00Z")
SUSPENDED = {**FRAMEWORK, "spec": {**FRAMEWORK["spec"], "executionType": "Create"}}


def api_server(framework: Json, *, forbidden: tuple[str, ...] = (), **lists: list[Json]) -> HttpResponse:
    """Serves the Framework and lists in pages of one object; lists of *forbidden* resources are 403."""

    async def answer(request: web.Request) -> web.Response:
        resource = request.path.rpartition("/")[2]
        if request.path == A:
            return web.json_response(framework, status=framework.get("code", 200))
        if resource in forbidden:
            message = f'{resource} is forbidden: User "eve" cannot list resource'
            return web.json_response({"kind": "Status", "code": 403, "message": message}, status=403)
        items, begin = lists.get(resource, []), int(request.query.get("continue", "0"))
        following = str(begin + 1) if begin + 1 < len(items) else ""
        return web.json_response({"items": items[begin : begin + 1], "metadata": {"continue": following}})

    return answer


async def test_everything_is_read_with_the_callers_credentials(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(SUSPENDED)

    response = await proxy.get(f"{A}/diagnosis")

    assert response.status == 200
    found = response.json()
    assert (found["kind"], found["missingEvidence"]) == ("Diagnosis", [])
    assert "FL-LIFE-01" in [each["id"] for each in found["findings"]]
    read = {request.path.partition("?")[0].rpartition("/")[2] for request in cluster.requests}
    assert read == {A.rpartition("/")[2], "pods", "nodes", "events", "resourcequotas"}
    assert {request.headers["Authorization"] for request in cluster.requests} == {TOKEN}


async def test_what_the_caller_may_not_read_is_missing_evidence(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(SUSPENDED, forbidden=("nodes", "resourcequotas"))

    found = (await proxy.get(f"{A}/diagnosis")).json()

    assert [each["resource"] for each in found["missingEvidence"]] == ["nodes", "resourcequotas"]
    assert "forbidden" in found["missingEvidence"][0]["reason"]
    assert "FL-LIFE-01" in [each["id"] for each in found["findings"]]


@pytest.mark.parametrize("code", [401, 403, 404])
async def test_a_caller_who_may_not_read_the_framework_gets_the_error_of_the_api_server(
    proxy: ProxyClient, cluster: FakeApiServer, code: int
) -> None:
    cluster.answer = api_server({"kind": "Status", "code": code, "message": "no"})

    response = await proxy.get(f"{A}/diagnosis")

    assert (response.status, response.json()["message"]) == (code, "no")
    assert len(cluster.requests) == 1


async def test_lists_are_read_to_their_end(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    events = [
        {
            "involvedObject": {"uid": "u"},
            "reason": reason,
            "message": "m",
            "lastTimestamp": "2999-01-01T00:00:00Z",
        }
        for reason in ("Other", "InternalError")
    ]
    cluster.answer = api_server(SUSPENDED, events=events)

    found = (await proxy.get(f"{A}/diagnosis")).json()

    assert "FL-SYS-04" in [each["id"] for each in found["findings"]]


async def test_the_state_of_the_launcher_is_not_that_of_the_caller(cluster: FakeApiServer) -> None:
    """The Lease and the throttling of the launcher are known to it, whatever the caller may read."""
    cluster.answer = api_server(FRAMEWORK, forbidden=("pods", "nodes", "events", "resourcequotas"))
    access = ClusterConfig(cluster.url, FixedHeader("Bearer of-the-launcher"))
    state: dict[str, Any] = {
        "leadership": lambda: Leadership("launchers", "pod-1", 12, 15),
        "throttled_seconds": lambda: 7.5,
    }

    async with run_proxy(access, **state) as proxy:
        found = (await proxy.get(f"{A}/diagnosis")).json()

    findings = {each["id"]: each for each in found["findings"]}
    assert "kubectl -n launchers get pods,lease" in findings["FL-SYS-09"]["nextStep"]
    assert findings["FL-SYS-09"]["evidence"][0] == {
        "object": "lease/framework-launcher",
        "field": "spec.holderIdentity",
        "value": "pod-1, renewed 12s ago",
    }
    assert findings["FL-SYS-01"]["evidence"][1] == findings["FL-SYS-09"]["evidence"][0]
    assert "in 8s" in findings["FL-SYS-03"]["summary"]


async def test_a_role_selects_tasks(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    cluster.answer = api_server({**FRAMEWORK, "spec": {"taskRoles": [a_role("worker")]}})

    assert (await proxy.get(f"{A}/diagnosis?role=worker&index=0")).status == 200
    assert (await proxy.get(f"{A}/diagnosis?role=chief")).status == 404
    assert (await proxy.get(f"{A}/diagnosis?index=0")).status == 400


async def test_a_path_that_leaves_the_api_is_rejected(proxy: ProxyClient, cluster: FakeApiServer) -> None:
    response = await proxy.get(A.replace("/default/", "/%2e%2e/") + "/diagnosis")

    assert response.status in (400, 404)
    assert cluster.requests == []
