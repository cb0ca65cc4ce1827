"""Containers without a command or a working directory: what they use instead, and what else there is to do."""

import os
from pathlib import Path
from typing import Any

import pytest

from launcher.core.timestamps import parse_rfc3339
from tests.builders import a_container, a_framework, a_pod, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended


def run(server: Server, name: str, **container: Any) -> Any:
    """The completed Framework of one task with that container."""
    pod = a_pod_template({"name": "main", **container})
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod), name=name))
    return server.completed(name)


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Server:
    """A launcher with an image that has a program as its entrypoint, and one without files of its own."""
    program = tmp_path / "image/opt/train/main"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$0" "$@"\n')
    program.chmod(0o755)
    return serve(
        "--image",
        f"trainer:1={tmp_path}/image,entrypoint=/opt/train/main --verbose",
        "--image",
        "sh=/,entrypoint=sh -c",
    )


def test_the_entrypoint_of_the_image_runs_with_the_args_of_the_container(server: Server) -> None:
    run(server, "alone", image="trainer:1")
    run(server, "args", image="trainer:1", args=["--steps=5"])
    run(server, "machine", image="sh", args=["echo $((6*7))"])
    run(server, "none", image="other", args=["echo", "no entrypoint"])

    assert server.log("alone-worker-0") == "/opt/train/main --verbose\n"
    assert server.log("args-worker-0") == "/opt/train/main --verbose --steps=5\n"
    assert server.log("machine-worker-0") == "42\n"
    assert server.log("none-worker-0") == "no entrypoint\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="another user needs root")
def test_a_working_directory_that_the_user_of_the_container_cannot_enter_is_explained(
    serve: Serve, tmp_path: Path
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    server = serve("--workdir", str(closed))
    pod = a_pod("p", a_container("pwd", securityContext={"runAsUser": 65533}))
    server.post(PODS, pod)

    def probe() -> str | None:
        status = server.get(f"{PODS}/p").get("status") or {}
        waiting = [each["state"].get("waiting") or {} for each in status.get("containerStatuses") or ()]
        return next((each["message"] for each in waiting if "message" in each), None)

    message = until(probe, "the container waits")
    assert f'chdir to cwd ("{closed}") failed: permission denied' in message
    assert "set workingDir in its spec, or start the launcher with another --workdir" in message


def test_a_container_without_any_command_fails_at_once_with_the_solutions(server: Server) -> None:
    framework = run(server, "train", image="trainer:2")

    message = framework["status"]["message"]
    assert ended(framework) == "Failed"
    assert "no command specified" in message
    assert "--image trainer:2=DIR,entrypoint=COMMAND" in message
    status = framework["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][0]
    assert status["attemptStatus"]["completionStatus"]["code"] == -201
    assert _seconds(framework) < 8, "the grace of other start failures is 10 s"


def _seconds(framework: Any) -> float:
    status = framework["status"]
    return float(parse_rfc3339(status["completionTime"]) - parse_rfc3339(status["startTime"]))
