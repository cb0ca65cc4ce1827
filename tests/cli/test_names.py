"""Names on the command line: a bad one is one error line and exit code 2, and no request is sent."""

import pytest
from aiohttp import web

from launcher.cli.client.api_path import FRAMEWORKS, PODS
from launcher.cli.errors import UsageError
from launcher.cli.main import main
from launcher.cli.names import ObjectReference, reference
from tests.builders import a_framework
from tests.cli.conftest import Served
from tests.cli.in_memory_launcher import InMemoryLauncher

Capture = pytest.CaptureFixture[str]

BAD = [
    "",
    "hello/scale",
    "..",
    "../pods",
    "a b",
    "Hello",
    "a" * 300,
    "hello/",
    "/hello",
    "pod/hello",
    "a%2Fb",
]
COMMANDS = [
    ["get", "NAME"],
    ["describe", "NAME"],
    ["logs", "NAME"],
    ["logs", "-f", "NAME"],
    ["exec", "NAME", "worker/0", "--", "ls"],
    ["events", "NAME"],
    ["wait", "NAME"],
    ["stop", "NAME"],
    ["start", "NAME"],
    ["scale", "NAME", "worker=1"],
    ["delete", "NAME"],
    ["delete", "other", "NAME"],
]


@pytest.fixture
def requests(served: Served, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every request that arrives at the server of the commands."""
    arrived: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        arrived.append(f"{request.method} {request.path_qs}")
        return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    monkeypatch.setenv("LAUNCHER_SERVER", f"http://127.0.0.1:{served(app, None)}")
    return arrived


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_invalid_name_is_rejected_before_any_request(
    requests: list[str], command: list[str], name: str, capsys: Capture
) -> None:
    code = main([name if word == "NAME" else word for word in command])

    printed = capsys.readouterr()
    assert (code, requests, printed.out) == (2, [], "")
    assert len(printed.err.splitlines()) == 1
    assert printed.err.startswith("NAME: ")


@pytest.mark.parametrize("namespace", ["", "..", "a/b", "A", "a b", "a" * 64])
@pytest.mark.parametrize("command", [["list"], ["get", "hello"], ["delete", "hello"], ["delete", "--all"]])
def test_an_invalid_namespace_is_rejected_before_any_request(
    requests: list[str], command: list[str], namespace: str, capsys: Capture
) -> None:
    assert main([*command, "-n", namespace]) == 2
    error = capsys.readouterr().err

    assert requests == []
    assert error.startswith("--namespace: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("container", ["", "..", "a/b", "A B"])
def test_an_invalid_container_is_rejected_before_any_request(
    requests: list[str], container: str, capsys: Capture
) -> None:
    assert main(["logs", "hello", "-c", container]) == 2
    assert requests == []
    assert capsys.readouterr().err.startswith("--container: ")


@pytest.mark.parametrize("selector", ["", " ", ","])
def test_an_empty_selector_deletes_nothing(requests: list[str], selector: str, capsys: Capture) -> None:
    assert main(["delete", "-l", selector]) == 2
    assert requests == []
    assert capsys.readouterr().err == ("--selector: must not be empty; use --all to delete every Framework\n")


def test_an_empty_name_deletes_no_framework(server: InMemoryLauncher) -> None:
    server.create(a_framework(name="one"))
    server.create(a_framework(name="two"))

    assert main(["delete", ""]) == 2
    assert [server.get(name)["metadata"].get("deletionTimestamp") for name in server.names()] == [None, None]


@pytest.mark.parametrize("kind", ["framework", "frameworks", "framework.launcher.microsoft.com"])
def test_a_name_may_be_prefixed_with_its_kind(server: InMemoryLauncher, kind: str, capsys: Capture) -> None:
    server.create(a_framework())

    assert main(["get", f"{kind}/mnist", "-o", "name"]) == 0
    assert main(["scale", f"{kind}/mnist", "worker=3"]) == 0
    assert main(["events", f"{kind}/mnist"]) == 0
    assert main(["delete", f"{kind}/mnist"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "framework/mnist",
        "framework/mnist scaled",
        "framework/mnist deleting",
    ]


def test_names_accept_the_kind_of_a_job() -> None:
    assert reference("tfjob/dist") == ObjectReference("dist", "TFJob")
    assert reference("pytorchjobs.kubeflow.org/dist") == ObjectReference("dist", "PyTorchJob")
    with pytest.raises(UsageError, match="unknown kind 'pod'; use NAME or framework/NAME"):
        reference("pod/dist")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a?b"])
def test_no_path_contains_an_invalid_name(name: str) -> None:
    with pytest.raises(UsageError):
        FRAMEWORKS.path("default", name)
    with pytest.raises(UsageError):
        PODS.path(name, "pod")


def test_names_are_quoted_in_paths() -> None:
    assert PODS.path("default", "p", "log") == "/api/v1/namespaces/default/pods/p/log"
    assert PODS.path(None) == "/api/v1/pods"


def test_delete_accepts_a_selector(server: InMemoryLauncher, capsys: Capture) -> None:
    for name in ("one", "two"):
        framework = a_framework(name=name)
        framework["metadata"]["labels"] = {"team": name}
        server.create(framework)

    assert main(["delete", "-l", "team=two"]) == 0
    assert capsys.readouterr().out == "framework/two deleting\n"
