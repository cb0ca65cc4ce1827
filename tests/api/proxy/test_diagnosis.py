"""The diagnosis through the proxy: read with the caller's credentials, with what the caller may read."""

from typing import Any

import pytest
from aiohttp import web

from launcher.core.diagnosis.launcher_state import Leadership
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import FrameworkName
from launcher.core.status import State
from launcher.store.kubernetes.cluster_config import ClusterConfig
from launcher.store.kubernetes.credentials import FixedHeader
from tests.api.proxy.fake_api_server import FakeApiServer, HttpResponse
from tests.api.proxy.proxies import TOKEN, ProxyClient, run_proxy
from tests.api.samples import A, framework
from tests.builders import a_role
from tests.core.diagnosis.situations import a_status, a_task

Json = dict[str, Any]
FRAMEWORK = framework(namespace="default", uid="u", generation=1, creationTimestamp="2026-01-01T00:00:00Z")
SUSPENDED = {**FRAMEWORK, "spec": {**FRAMEWORK["spec"], "executionType": "Create"}}


def api_server(
    framework: Json, *, forbidden: tuple[str, ...] = (), log: str = "", **lists: list[Json]
) -> HttpResponse:
    """Serves the Framework, lists in pages of one object, and one log; *forbidden* resources are 403."""

    async def answer(request: web.Request) -> web.Response:
        resource = request.path.rpartition("/")[2]
        if request.path == A:
            return web.json_response(framework, status=framework.get("code", 200))
        if resource in forbidden:
            message = f'{resource} is forbidden: User "eve" cannot list resource'
            return web.json_response({"kind": "Status", "code": 403, "message": message}, status=403)
        if resource == "log":
            return web.Response(text=log)
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


async def test_only_the_events_of_the_objects_in_question_are_listed(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    pod = crash_looping(WAITING)
    ready = {**pod, "metadata": {**pod["metadata"], "name": "a-worker-1", "uid": "q"}}
    ready["status"] = {"phase": "Running", "containerStatuses": [{"name": "main", "ready": True}]}
    cluster.answer = api_server(STARTED, pods=[pod, ready])

    await proxy.get(f"{A}/diagnosis")

    events = [request.path for request in cluster.requests if "/events?" in request.path]
    assert {path.partition("fieldSelector=")[2].partition("&")[0] for path in events} == {
        "involvedObject.uid%3Du",
        "involvedObject.uid%3Dp",
    }


def crash_looping(state: Json, **last: Any) -> Json:
    """The pod of a task, whose container exited with code 3."""
    container = {
        "name": "main",
        "restartCount": 1,
        "ready": "running" in state,
        "state": state,
        "lastState": {"terminated": {"exitCode": 3, **last}},
    }
    return {
        "metadata": {
            "name": f"{FRAMEWORK['metadata']['name']}-worker-0",
            "uid": "p",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"uid": "u", "controller": True}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "main"}]},
        "status": {"phase": "Running", "containerStatuses": [container]},
    }


STARTED = {
    **FRAMEWORK,
    "spec": {"taskRoles": [a_role("worker", 1)]},
    "status": status_to_json(
        a_status([a_task(0, State.RUNNING)], state=State.RUNNING), FrameworkName("a"), "u"
    ),
}
WAITING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}


def log_requests(cluster: FakeApiServer) -> list[str]:
    return [request.path for request in cluster.requests if "/log?" in request.path]


async def test_the_last_lines_of_a_failure_are_read_with_the_callers_credentials(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(STARTED, log="step\nno data\n", pods=[crash_looping(WAITING)])

    found = (await proxy.get(f"{A}/diagnosis")).json()

    (finding,) = found["findings"]
    assert finding["summary"].endswith("exit code 3; last line: no data")
    assert {"object": "pod/a-worker-0", "field": "log[main]", "value": "step\nno data"} in finding["evidence"]
    (path,) = log_requests(cluster)
    assert "/pods/a-worker-0/log?container=main&tailLines=5&previous=false&limitBytes=4096" in path
    assert {request.headers["Authorization"] for request in cluster.requests} == {TOKEN}


async def test_no_log_is_read_if_the_status_has_the_last_lines(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(STARTED, pods=[crash_looping(WAITING, message="no data")])

    (finding,) = (await proxy.get(f"{A}/diagnosis")).json()["findings"]

    assert finding["summary"].endswith("last line: no data")
    assert log_requests(cluster) == []


async def test_a_log_that_the_caller_may_not_read_is_missing_evidence(
    proxy: ProxyClient, cluster: FakeApiServer
) -> None:
    cluster.answer = api_server(STARTED, forbidden=("log",), pods=[crash_looping({"running": {}})])

    found = (await proxy.get(f"{A}/diagnosis")).json()

    (finding,) = found["findings"]
    assert finding["summary"].endswith("exit code 3")
    assert [each["resource"] for each in found["missingEvidence"]] == ["pods/log"]
    assert "previous=true" in log_requests(cluster)[0]


@pytest.mark.parametrize(
    ("log", "causes"),
    [
        pytest.param("2026-01-01T00:00:01.123456789Z step 1\n", ["FL-RUN-17"], id="an old line"),
        pytest.param("2999-01-01T00:00:00.000000000Z step 1\n", [], id="a new line"),
        pytest.param("", ["FL-RUN-17"], id="no line since its start"),
    ],
)
async def test_the_log_of_a_selected_task_shows_whether_it_is_silent(
    proxy: ProxyClient, cluster: FakeApiServer, log: str, causes: list[str]
) -> None:
    pod = crash_looping({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    pod["status"]["containerStatuses"] = [{**pod["status"]["containerStatuses"][0], "lastState": {}}]
    cluster.answer = api_server(STARTED, log=log, pods=[pod])

    selected = (await proxy.get(f"{A}/diagnosis?role=worker&index=0")).json()
    read = len(log_requests(cluster))
    (await proxy.get(f"{A}/diagnosis")).json()

    assert [each["id"] for each in selected["findings"]] == causes
    assert (read, len(log_requests(cluster))) == (1, 1), "only for one selected task"


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
