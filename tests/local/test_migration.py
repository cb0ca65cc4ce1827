"""The samples of the page about migration, each run as its users run it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.clients.kubectl import Kubectl
from tests.eventually import until
from tests.launcher_process import PROJECT
from tests.local.conftest import Serve
from tests.local.documented_commands import Shell
from tests.local.server import PODS, Server, ended, loopback

SAMPLES = PROJECT / "examples/migrate"
#: FrameworkController's own path of Frameworks.
ALIAS_FRAMEWORKS = "/apis/frameworkcontroller.microsoft.com/v1/namespaces/default/frameworks"
#: A node with its own address, so that ports of these tests do not conflict with others.
NODES = tuple(f"--node=machine{number},ip={loopback(61 + number)}" for number in range(3))


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
    "pytorchjob": ("torch", "master-0", "connected ranks: 1 2 of 3\n"),
    "mpijob": ("mpi", "launcher-0", "mpi-worker-0 slots=2\nmpi-worker-1 slots=2\n"),
    "xgboostjob": ("boost", "master-0", "rank 0 of 3, workers boost-worker-0,boost-worker-1\n"),
    "jaxjob": ("jax", "worker-1", "process 1 of 2, coordinator jax-worker-0\n"),
}


def test_every_sample_has_a_test() -> None:
    assert {path.stem for path in SAMPLES.iterdir()} == {*RUNS, "arena", "simpletfjob", "README"}


@pytest.mark.parametrize("sample", RUNS)
def test_a_sample_is_converted_and_runs_to_completion(server: Server, shell: Shell, sample: str) -> None:
    name, task, log = RUNS[sample]

    shell(f"launcher convert {SAMPLES / sample}.yaml | launcher submit -")

    assert ended(server.completed(name)) == "Succeeded"
    if task is not None:
        assert server.log(f"{name}-{task}") == log


def test_a_frameworkcontroller_sample_runs_in_its_own_api_group(server: Server) -> None:
    created = server.post(
        ALIAS_FRAMEWORKS, yaml.safe_load((SAMPLES / "frameworkcontroller.yaml").read_text())
    )

    framework: Any = server.completed("batch")

    assert created["apiVersion"] == "frameworkcontroller.microsoft.com/v1"
    assert ended(framework) == "Succeeded"
    until(lambda: server.get(PODS)["items"] == [] or None, "its pods are deleted")


@pytest.mark.parametrize("sample", [sample for sample in RUNS if "job" in sample])
def test_kubeflow_samples_are_created_with_kubectl_and_have_their_own_status(
    server: Server, kubectl: Kubectl, sample: str
) -> None:
    name, task, log = RUNS[sample]
    kind = sample.partition("-")[0]

    kubectl("create", "-f", f"{SAMPLES / sample}.yaml")
    kubectl("wait", f"{kind}s.kubeflow.org/{name}", "--for=condition=Succeeded", "--timeout=60s")

    (_, row) = kubectl("get", f"{kind}s", name).splitlines()
    assert row.split()[:2] == [name, "Succeeded"]
    assert server.log(f"{name}-{task}") == log


def test_an_arena_command_line_runs_to_completion(server: Server, shell: Shell) -> None:
    output = shell(str(SAMPLES / "arena.sh"))

    assert "styled created" in output
    assert ended(server.completed("styled")) == "Succeeded"
    assert server.log("styled-worker-0") == "3 epochs\n"


def test_a_simpletfjob_template_runs_to_completion(server: Server, shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "home/simpletfjob.yaml").write_bytes((SAMPLES / "simpletfjob.yaml").read_bytes())

    shell("simpletfjob simpletfjob.yaml -N 3 --submit --wait")

    assert server.log("spread-worker1-0") == "worker 1 on machine2\n"
