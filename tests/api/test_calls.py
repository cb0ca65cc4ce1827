import pytest
from aiohttp.test_utils import make_mocked_request

from launcher.api.middleware.request_info import Call, call_of, flag

FRAMEWORKS = "/apis/launcher.microsoft.com/v1/namespaces/default/frameworks"
RENDEZVOUS = "/rendezvous/v1/namespaces/default/frameworks/mnist/attempts"


@pytest.mark.parametrize(
    ("method", "path", "call"),
    [
        ("GET", FRAMEWORKS, Call("list", "frameworks")),
        ("GET", f"{FRAMEWORKS}/", Call("list", "frameworks")),
        ("HEAD", FRAMEWORKS, Call("list", "frameworks")),
        ("GET", "/apis/launcher.microsoft.com/v1/frameworks", Call("list", "frameworks")),
        ("GET", f"{FRAMEWORKS}?watch=True", Call("watch", "frameworks", lasting=True)),
        ("GET", f"{FRAMEWORKS}?watch=0", Call("list", "frameworks")),
        ("GET", "/api/v1/watch/namespaces/default/pods", Call("watch", "pods", lasting=True)),
        ("GET", "/api/v1/watch/nodes", Call("watch", "nodes", lasting=True)),
        ("GET", "/api/v1/watch/nodes/a", Call("watch", "nodes", lasting=True)),
        ("GET", "/api/v1/watch/namespaces/default/pods/a", Call("watch", "pods", lasting=True)),
        ("GET", "/api/v1/watch/namespaces/default", Call("watch", "namespaces", lasting=True)),
        ("POST", "/api/v1/watch/namespaces/default/pods/a", Call("create", "pods", writes=True)),
        ("POST", FRAMEWORKS, Call("create", "frameworks", writes=True)),
        ("DELETE", FRAMEWORKS, Call("deletecollection", "frameworks", writes=True)),
        ("GET", f"{FRAMEWORKS}/a?watch=1", Call("get", "frameworks")),
        ("PUT", f"{FRAMEWORKS}/a", Call("update", "frameworks", writes=True)),
        ("PATCH", f"{FRAMEWORKS}/a/status", Call("patch", "frameworks", "status", writes=True)),
        ("GET", f"{FRAMEWORKS}/a/other", Call("get", "frameworks")),
        ("GET", "/api/v1/namespaces/default/pods/a/log", Call("get", "pods", "log", lasting=True)),
        ("POST", "/api/v1/namespaces/default/pods/a/log", Call("create", "pods", "log", writes=True)),
        ("GET", "/api/v1/namespaces", Call("list", "namespaces")),
        ("GET", "/api/v1/namespaces/default", Call("get", "namespaces")),
        ("GET", "/api/v1/namespaces?watch=1", Call("watch", "namespaces", lasting=True)),
        ("GET", "/api/v1/frameworks", Call("get")),
        ("GET", "/apis/apps/v1/deployments", Call("get")),
        ("GET", "/apis/apps/v1/deployments?watch=1", Call("get", lasting=True)),
        ("GET", "/apis/apps/v1/watch/deployments", Call("get", lasting=True)),
        ("POST", "/apis/apps/v1/deployments?watch=1", Call("create", writes=True)),
        ("POST", "/api/v1/namespaces/default/pods/a/exec", Call("create", "pods", writes=True, lasting=True)),
        ("GET", "/api/v1/namespaces/default/services/a/proxy/b", Call("get", "services", lasting=True)),
        ("GET", "/rendezvous/v1/programs/barrier.sh", Call("watch", "rendezvous", lasting=True)),
        ("GET", f"{RENDEZVOUS}/0?wait=1", Call("watch", "rendezvous", lasting=True)),
        ("GET", f"{RENDEZVOUS}/0/", Call("get")),
        ("GET", f"{RENDEZVOUS}/../..", Call("get")),
        ("POST", f"{RENDEZVOUS}/0", Call("create", writes=True)),
        ("GET", "/apis", Call("get")),
        ("GET", "/", Call("get")),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", Call("create", writes=True)),
        ("BREW", FRAMEWORKS, Call("", "frameworks", writes=True)),
    ],
)
def test_method_and_path_say_what_is_asked_for(method: str, path: str, call: Call) -> None:
    assert call_of(make_mocked_request(method, path)) == call


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
def test_whatever_is_not_no_is_yes(query: dict[str, str], on: bool) -> None:
    assert flag(query, "x") is on
