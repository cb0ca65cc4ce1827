"""The samples of the page about moving in, each run as its users run it."""

from pathlib import Path
from typing import Any

import pytest

from tests.local.conftest import Serve
from tests.local.printed import Shell
from tests.local.server import PODS, PROJECT, Server, ended, loopback, until

SAMPLES = PROJECT / "examples/moving-in"
#: A node with an address of its own: what listens in these tests is in nobody's way.
NODES = tuple(f"--node=moving{number},ip={loopback(61 + number)}" for number in range(3))


@pytest.fixture
def server(serve: Serve) -> Server:
    server = serve(*NODES)

    def all_ready() -> bool | None:
        found = [node["status"].get("conditions") or [] for node in server.get("/api/v1/nodes")["items"]]
        ready = [each for each in found if any(c["type"] == "Ready" and c["status"] == "True" for c in each)]
        return len(ready) == len(NODES) or None

    until(all_ready, "the nodes are ready")
    return server


@pytest.fixture
def shell(server: Server, tmp_path: Path) -> Shell:
    return Shell(tmp_path / "home", {"LAUNCHER_SERVER": server.url})


def tf_config(cluster: str, task: str) -> str:
    return f'{{"cluster":{{{cluster}}},"task":{{{task}}},"environment":"cloud"}}\n'


RUNS = {
    "frameworkcontroller": ("batch", None, ""),
    "tfjob": (
        "mnist",
        "worker-0",
        tf_config(
            '"ps":["mnist-ps-0.default.svc:2222"],'
            '"worker":["mnist-worker-0.default.svc:2222","mnist-worker-1.default.svc:2222"]',
            '"type":"worker","index":0',
        ),
    ),
    "tfjob-v1alpha1": (
        "oldest",
        "master-0",
        tf_config(
            '"master":["oldest-master-0.default.svc:2222"],"ps":["oldest-ps-0.default.svc:3333"]',
            '"type":"master","index":0',
        ),
    ),
    "pytorchjob": ("torch", "master-0", "rank 0 has heard of 1 2 in a world of 3\n"),
    "mpijob": ("mpi", "launcher-0", "mpi-worker-0 slots=2\nmpi-worker-1 slots=2\n"),
    "xgboostjob": ("boost", "master-0", "rank 0 of 3, workers boost-worker-0,boost-worker-1\n"),
    "jaxjob": ("jax", "worker-1", "process 1 of 2, jax-worker-0 leads\n"),
}


def test_every_sample_has_a_test() -> None:
    assert {path.stem for path in SAMPLES.iterdir()} == {*RUNS, "arena", "simpletfjob", "README"}


@pytest.mark.parametrize("sample", RUNS)
def test_a_sample_is_converted_and_runs_to_its_end(server: Server, shell: Shell, sample: str) -> None:
    name, task, log = RUNS[sample]

    shell(f"launcher convert {SAMPLES / sample}.yaml | launcher submit -")

    assert ended(server.completed(name)) == "Succeeded"
    if task is not None:
        assert server.log(f"{name}-{task}") == log


def test_frameworkcontrollers_runs_under_its_own_name(server: Server) -> None:
    server.kubectl("create", "-f", str(SAMPLES / "frameworkcontroller.yaml"))

    framework: Any = server.completed("batch")

    assert ended(framework) == "Succeeded"
    until(lambda: server.get(PODS)["items"] == [] or None, "its pods are deleted")


@pytest.mark.parametrize("sample", [sample for sample in RUNS if "job" in sample])
def test_kubeflows_are_created_with_kubectl_and_have_their_own_status(server: Server, sample: str) -> None:
    name, task, log = RUNS[sample]
    kind = sample.partition("-")[0]

    server.kubectl("create", "-f", f"{SAMPLES / sample}.yaml")
    server.kubectl("wait", f"{kind}s.kubeflow.org/{name}", "--for=condition=Succeeded", "--timeout=60s")

    (_, row) = server.kubectl("get", f"{kind}s", name).splitlines()
    assert row.split()[:2] == [name, "Succeeded"]
    assert server.log(f"{name}-{task}") == log


def test_arenas_command_line_runs_to_its_end(server: Server, shell: Shell) -> None:
    said = shell(str(SAMPLES / "arena.sh"))

    assert "styled created" in said
    assert ended(server.completed("styled")) == "Succeeded"
    assert server.log("styled-worker-0") == "3 epochs\n"


def test_simpletfjobs_template_runs_to_its_end(server: Server, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "home/simpletfjob.yaml").write_bytes((SAMPLES / "simpletfjob.yaml").read_bytes())

    shell("simpletfjob simpletfjob.yaml -N 3 --submit --wait")

    assert server.log("spread-worker1-0") == "worker 1 on moving2\n"
