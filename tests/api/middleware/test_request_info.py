import pytest
from aiohttp.test_utils import make_mocked_request

from launcher.api.http.query import flag
from launcher.api.middleware.request_info import RequestInfo, parse_request_info

FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"
RENDEZVOUS = "/rendezvous/v1/namespaces/default/frameworks/mnist/attempts"


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("GET", FRAMEWORKS, RequestInfo("list", "frameworks")),
        ("GET", f"{FRAMEWORKS}/", RequestInfo("list", "frameworks")),
        ("HEAD", FRAMEWORKS, RequestInfo("list", "frameworks")),
        ("GET", "/apis/launcher.microsoft.com/v1/frameworks", RequestInfo("list", "frameworks")),
        ("GET", f"{FRAMEWORKS}?watch=True", RequestInfo("watch", "frameworks", long_running=True)),
        ("GET", f"{FRAMEWORKS}?watch=0", RequestInfo("list", "frameworks")),
        ("GET", "/api/v1/watch/namespaces/default/pods", RequestInfo("watch", "pods", long_running=True)),
        ("GET", "/api/v1/watch/nodes", RequestInfo("watch", "nodes", long_running=True)),
        ("GET", "/api/v1/watch/nodes/a", RequestInfo("watch", "nodes", long_running=True)),
        ("GET", "/api/v1/watch/namespaces/default/pods/a", RequestInfo("watch", "pods", long_running=True)),
        ("GET", "/api/v1/watch/namespaces/default", RequestInfo("watch", "namespaces", long_running=True)),
        ("POST", "/api/v1/watch/namespaces/default/pods/a", RequestInfo("create", "pods", writes=True)),
        ("POST", FRAMEWORKS, RequestInfo("create", "frameworks", writes=True)),
        ("DELETE", FRAMEWORKS, RequestInfo("deletecollection", "frameworks", writes=True)),
        ("GET", f"{FRAMEWORKS}/a?watch=1", RequestInfo("get", "frameworks")),
        ("PUT", f"{FRAMEWORKS}/a", RequestInfo("update", "frameworks", writes=True)),
        ("PATCH", f"{FRAMEWORKS}/a/status", RequestInfo("patch", "frameworks", "status", writes=True)),
        ("GET", f"{FRAMEWORKS}/a/other", RequestInfo("get", "frameworks")),
        (
            "GET",
            "/api/v1/namespaces/default/pods/a/log",
            RequestInfo("get", "pods", "log", long_running=True),
        ),
        ("POST", "/api/v1/namespaces/default/pods/a/log", RequestInfo("create", "pods", "log", writes=True)),
        ("GET", "/api/v1/namespaces", RequestInfo("list", "namespaces")),
        ("GET", "/api/v1/namespaces/default", RequestInfo("get", "namespaces")),
        ("GET", "/api/v1/namespaces?watch=1", RequestInfo("watch", "namespaces", long_running=True)),
        ("GET", "/api/v1/frameworks", RequestInfo("get")),
        ("GET", "/apis/apps/v1/deployments", RequestInfo("get")),
        ("GET", "/apis/apps/v1/deployments?watch=1", RequestInfo("get", long_running=True)),
        ("GET", "/apis/apps/v1/watch/deployments", RequestInfo("get", long_running=True)),
        ("POST", "/apis/apps/v1/deployments?watch=1", RequestInfo("create", writes=True)),
        (
            "POST",
            "/api/v1/namespaces/default/pods/a/exec",
            RequestInfo("create", "pods", "exec", writes=True, long_running=True),
        ),
        (
            "GET",
            "/api/v1/namespaces/default/services/a/proxy/b",
            RequestInfo("get", "services", long_running=True),
        ),
        ("GET", "/rendezvous/v1/programs/barrier.sh", RequestInfo("watch", "rendezvous", long_running=True)),
        ("GET", f"{RENDEZVOUS}/0?wait=1", RequestInfo("watch", "rendezvous", long_running=True)),
        ("GET", f"{RENDEZVOUS}/0/", RequestInfo("get")),
        ("GET", f"{RENDEZVOUS}/../..", RequestInfo("get")),
        ("POST", f"{RENDEZVOUS}/0", RequestInfo("create", writes=True)),
        ("GET", "/apis", RequestInfo("get")),
        ("GET", "/", RequestInfo("get")),
        (
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            RequestInfo("create", writes=True),
        ),
        ("BREW", FRAMEWORKS, RequestInfo("", "frameworks", writes=True)),
    ],
)
def test_method_and_path_determine_the_request_info(method: str, path: str, call: RequestInfo) -> None:
    assert parse_request_info(make_mocked_request(method, path)) == call


@pytest.mark.parametrize(
    ("query", "on"),
    [
        ({}, False),
        ({"x": "false"}, False),
        ({"x": "FALSE"}, False),
        ({"x": "0"}, False),
        ({"x": "true"}, True),
        ({"x": "True"}, True),
        ({"x": "1"}, True),
        ({"x": ""}, True),
        ({"x": "abc"}, True),
    ],
)
def test_a_query_flag_is_true_unless_false_or_0(query: dict[str, str], on: bool) -> None:
    assert flag(query, "x") is on
