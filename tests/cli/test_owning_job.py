"""Frameworks that belong to jobs: changes are made on the job, whose controller would revert others."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from launcher.cli.main import main
from tests.builders import a_framework
from tests.cli.conftest import Served
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.eventually import until
from tests.job_kinds.samples import a_tfjob, replicas
from tests.local.server import FRAMEWORKS, PODS, Server

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]
TFJOBS = "/apis/kubeflow.org/v1/namespaces/default/tfjobs"


@pytest.fixture
def local_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A launcher on this machine, set as the server of all commands."""
    local_server = Server(tmp_path)
    monkeypatch.setenv("LAUNCHER_SERVER", local_server.url)
    yield local_server
    local_server.end()


def start_job(local_server: Server, name: str = "dist", **policy: Any) -> Json:
    """The Framework of a new TFJob, once both of its pods run."""
    env = [{"name": "LAUNCHER_TEST", "value": str(local_server.data)}]
    job = a_tfjob(name, policy=policy, Worker=replicas(2, command=["sleep", "1000"], env=env))
    local_server.post(TFJOBS, job)

    def running_framework() -> Json | None:
        found = [each for each in items(local_server, FRAMEWORKS) if each["metadata"]["name"] == name]
        return found[0] if found and (found[0].get("status") or {}).get("state") == "AttemptRunning" else None

    return until(running_framework, f"the Framework of {name} runs")


def items(local_server: Server, path: str) -> list[Json]:
    found: list[Json] = local_server.get(path)["items"]
    return found


@pytest.mark.parametrize("which", ["dist", "--all", "framework/dist", "tfjob/dist"])
def test_deleting_the_framework_of_a_job_deletes_the_job(
    local_server: Server, which: str, capsys: Capture
) -> None:
    start_job(local_server)

    assert main(["delete", which, "--wait"]) == 0

    printed = capsys.readouterr()
    message = "" if which == "tfjob/dist" else "framework/dist is owned by tfjob/dist: deleting the job\n"
    assert printed.err == message
    assert printed.out == "tfjob/dist deleting\ntfjob/dist deleted\n"
    assert [items(local_server, path) for path in (TFJOBS, FRAMEWORKS, PODS)] == [[], [], []]


def test_scaling_the_framework_of_a_job_scales_the_job(local_server: Server, capsys: Capture) -> None:
    start_job(local_server)

    assert main(["scale", "dist", "worker=3"]) == 0

    printed = capsys.readouterr()
    assert printed.err == "framework/dist is owned by tfjob/dist: scaling the job\n"
    assert printed.out == "tfjob/dist scaled\n"
    assert local_server.get(f"{TFJOBS}/dist")["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] == 3
    until(lambda: True if len(items(local_server, PODS)) == 3 else None, "there are three pods")


def test_stopping_the_framework_of_a_job_completes_the_job(local_server: Server, capsys: Capture) -> None:
    start_job(local_server)

    assert main(["stop", "dist"]) == 0
    assert capsys.readouterr().err == "framework/dist is owned by tfjob/dist, which completes with it\n"

    def has_ended() -> bool | None:
        conditions = (local_server.get(f"{TFJOBS}/dist").get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Failed" and each["status"] == "True" for each in conditions) or None

    until(has_ended, "the job has ended")


def test_start_resumes_a_suspended_job(local_server: Server, capsys: Capture) -> None:
    job = a_tfjob("dist", policy={"suspend": True}, Worker=replicas(1, command=["true"]))
    local_server.post(TFJOBS, job)

    assert main(["start", "tfjob/dist"]) == 0
    assert capsys.readouterr().out == "tfjob/dist started\n"
    assert local_server.get(f"{TFJOBS}/dist")["spec"]["runPolicy"]["suspend"] is False


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [("true", 0, "dist: Succeeded"), ("false", 1, "tfjob/dist failed: ")],
)
def test_submit_waits_for_a_job_too(
    local_server: Server, tmp_path: Path, command: str, code: int, line: str, capsys: Capture
) -> None:
    del local_server
    file = tmp_path / "job.json"
    file.write_bytes(orjson.dumps(a_tfjob("dist", Worker=replicas(1, command=[command]))))

    assert main(["submit", "--wait", str(file)]) == code
    assert capsys.readouterr().err.splitlines()[-1].startswith(line)


def a_framework_owned_by(kind: str = "TFJob", version: str = "kubeflow.org/v1") -> Json:
    """A Framework whose owner does not exist."""
    framework = a_framework(name="dist")
    owner = {"apiVersion": version, "kind": kind, "name": "dist", "uid": "1-2", "controller": True}
    framework["metadata"]["ownerReferences"] = [owner]
    return framework


def test_a_framework_whose_job_no_longer_exists_is_deleted_itself(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework_owned_by())

    assert main(["delete", "dist"]) == 0
    assert capsys.readouterr().out == "framework/dist deleting\n"


@pytest.mark.parametrize("command", [["delete", "dist"], ["delete", "--all"], ["scale", "dist", "worker=3"]])
def test_a_framework_of_another_controller_is_not_changed(
    server: InMemoryLauncher, command: list[str], capsys: Capture
) -> None:
    server.create(a_framework_owned_by("Workflow", "argoproj.io/v1"))

    assert main(command) == 1
    assert capsys.readouterr().err == (
        "framework/dist is owned by Workflow dist (argoproj.io/v1), whose controller would revert the change; change "
        "that object instead\n"
    )
    assert "deletionTimestamp" not in server.get("dist")["metadata"]


@pytest.mark.parametrize("command", [["delete", "dist"], ["scale", "dist", "worker=3"]])
def test_a_forbidden_change_of_the_job_changes_nothing(
    served: Served, monkeypatch: pytest.MonkeyPatch, command: list[str], capsys: Capture
) -> None:
    changed: list[str] = []

    async def framework(_: web.Request) -> web.Response:
        return web.json_response(a_framework_owned_by())

    async def job(request: web.Request) -> web.Response:
        if request.method == "GET":
            return web.json_response(a_tfjob("dist"))
        status = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "you may not"}
        return web.json_response(status, status=403)

    async def other(request: web.Request) -> web.Response:
        changed.append(f"{request.method} {request.path}")
        return web.json_response({})

    app = web.Application()
    app.router.add_get(f"{FRAMEWORKS}/dist", framework)
    app.router.add_route("*", f"{TFJOBS}/dist", job)
    app.router.add_route("*", "/{path:.*}", other)
    monkeypatch.setenv("LAUNCHER_SERVER", f"http://127.0.0.1:{served(app, None)}")

    assert main(command) == 1
    done = {"delete": "deleted", "scale": "scaled"}[command[0]]
    assert capsys.readouterr().err.splitlines()[1:] == [
        f"tfjob/dist owns framework/dist and cannot be {done}: you may not"
    ]
    assert changed == []
