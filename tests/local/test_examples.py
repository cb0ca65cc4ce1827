"""Every example runs to completion, unchanged, on a launcher with the nodes that it needs."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.rendezvous.container_programs import program_text
from tests.eventually import TIMEOUT_SECONDS, until
from tests.launcher_process import PROJECT
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended

EXAMPLES = {path.stem for path in (PROJECT / "examples").glob("*.yaml")}


def submit(server: Server, example: str) -> str:
    """Submits the example and returns its name."""
    path = PROJECT / "examples" / f"{example}.yaml"
    created = server.curl(FRAMEWORKS, "-H", "Content-Type: application/yaml", "--data-binary", f"@{path}")
    return str(orjson.loads(created)["metadata"]["name"])


def run(server: Server, example: str) -> Any:
    return ended(server.completed(submit(server, example)))


def test_the_hello_example_greets_from_every_task(serve: Serve) -> None:
    server = serve()

    assert run(server, "hello") == "Succeeded"
    assert server.log("hello-greeter-1") == "hello from greeter 1 of hello\n"


def test_the_discovery_example_connects_its_tasks(serve: Serve) -> None:
    server = serve("--node=one", "--node=two,ip=127.0.0.9")

    assert run(server, "discovery") == "Succeeded"
    assert server.log("sum-master-0") == "the sum is 6\n"


def test_the_nfs_example_writes_to_the_export(serve: Serve, tmp_path: Path) -> None:
    server = serve(f"--nfs=nfs.example.org:/exports/notes={tmp_path}")

    assert run(server, "nfs") == "Succeeded"
    notes = (tmp_path / "notes.txt").read_text().splitlines()
    assert sorted(notes) == [f"line of task {index}" for index in range(3)]


def test_the_hostpath_example_runs_on_its_node(serve: Serve) -> None:
    server = serve("--node=node-a", "--node=node-c")

    assert run(server, "hostpath") == "Succeeded"
    assert server.log("count-files-counter-0").strip() == str(len(list(Path("/usr/share").glob("[!.]*"))))
    assert server.get(f"{PODS}/count-files-counter-0")["spec"]["nodeName"] == "node-a"


def test_the_ordered_roles_example_creates_the_loader_first(serve: Serve) -> None:
    server = serve()

    assert run(server, "ordered-roles") == "Succeeded"
    created = {
        pod["metadata"]["labels"]["FC_TASKROLE_NAME"]: pod["metadata"]["creationTimestamp"]
        for pod in server.get(PODS)["items"]
    }
    assert created["loader"] <= created["report"]


def test_the_retry_example_completes_and_leaves_no_pod(serve: Serve) -> None:
    server = serve(module="tests.local.serve_without_backoff")

    assert run(server, "retry") in ("Succeeded", "Failed")  # its result is random
    until(lambda: None if server.get(PODS)["items"] else True, "cleanPodPolicy All leaves no pod")


def test_the_several_nodes_example_runs_on_both_gpu_nodes(serve: Serve) -> None:
    training = "pool=training,nvidia.com/gpu=1,taint=training=only:NoSchedule"
    server = serve(f"--node=gpu0,{training}", f"--node=gpu1,{training},ip=127.0.0.9", "--node=cpu0")

    assert run(server, "several-nodes") == "Succeeded"
    output = {server.log(f"spread-trainer-{index}").split(" on ")[1] for index in range(2)}
    assert output == {"gpu0 at 127.0.0.2\n", "gpu1 at 127.0.0.9\n"}


def test_the_training_example_learns_the_weights(serve: Serve) -> None:
    server = serve(f"--image=training:1={PROJECT / 'examples/training'}")

    assert run(server, "training") == "Succeeded"
    for rank in range(4):
        assert f"rank {rank}: weight 3.0, bias 2.0, loss 0.01\n" in server.log(f"training-worker-{rank}")


def test_the_gang_example_runs_on_two_nodes(serve: Serve) -> None:
    server = serve("--node=gpu0,nvidia.com/gpu=2", "--node=gpu1,nvidia.com/gpu=2")

    assert run(server, "gang") == "Succeeded"
    assert server.log("ring-worker-3") == "worker 3 of 4 is placed\n"


@pytest.fixture
def terminal(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has installed the launcher, in a directory with the examples."""
    command = tmp_path / "bin" / "launcher"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH={PROJECT} exec {sys.executable} -m launcher "$@"\n')
    command.chmod(0o755)
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    path = f"{command.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path}


@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_the_command_in_the_first_line_of_every_example_runs_it(
    example: str, tmp_path: Path, terminal: dict[str, str]
) -> None:
    first = (PROJECT / "examples" / f"{example}.yaml").read_text().splitlines()[0]
    assert first.startswith("# Run it: ")

    ran = subprocess.run(
        ["bash", "-c", first.removeprefix("# Run it: ")],
        cwd=tmp_path,
        env=terminal,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )

    assert " succeeded after " in ran.stderr or (example == "retry" and " failed after " in ran.stderr)
    assert ran.returncode == 0 or example == "retry"  # its result is random


def test_the_image_of_the_example_contains_the_launchers_program() -> None:
    assert (PROJECT / "examples/trainer/get_ips.sh").read_text() == program_text("get_ips.sh")
