"""The jobs and commands in the documentation of Arena and simpletfjob run unchanged through the API proxy."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.builders import Json
from tests.cluster.controlplane import ControlPlane
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import SLOW_CONTROLLER_SECONDS, NamespaceClient
from tests.local.documented_commands import Shell, blocks, command

_GPUS = {"nvidia.com/gpu": "4"}


@dataclass(frozen=True, slots=True)
class GpuCluster:
    """A control plane with GPU nodes, and the URL of a launcher for it."""

    plane: ControlPlane
    url: str


@pytest.fixture(scope="module")
def gpu_cluster(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuCluster]:
    directory = tmp_path_factory.mktemp("site")
    with ControlPlane(directory / "plane", programs, nodes=3) as plane:
        define_frameworks(plane)
        for node in plane.admin.get("/api/v1/nodes")["items"]:
            capacity = {"status": {"capacity": _GPUS, "allocatable": _GPUS}}
            plane.admin.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", capacity)
        launcher = KubeLauncher(directory / "launcher", launcher_account(plane).kubeconfig)
        try:
            yield GpuCluster(plane, launcher.url)
        finally:
            launcher.end()


@pytest.fixture
def ns(gpu_cluster: GpuCluster) -> NamespaceClient:
    """An empty namespace."""
    return NamespaceClient(gpu_cluster.plane, gpu_cluster.plane.new_namespace())


@pytest.fixture
def shell(gpu_cluster: GpuCluster, ns: NamespaceClient, tmp_path: Path) -> Shell:
    """A user's shell whose default namespace is that of the test."""
    token = tmp_path / "token"
    token.write_text(gpu_cluster.plane.admin_token)
    token.chmod(0o600)
    user_shell = Shell(
        tmp_path / "home", {"LAUNCHER_SERVER": gpu_cluster.url, "LAUNCHER_TOKEN_FILE": str(token)}
    )
    (tmp_path / "home/.arena").mkdir()
    (tmp_path / "home/.arena/config").write_text(f"namespace = {ns.namespace}\n")
    return user_shell


def wait_until_all_run(ns: NamespaceClient, *names: str) -> dict[str, Json]:
    """Waits until all these pods run, and returns all pods."""

    def probe() -> dict[str, Json] | None:
        pods = ns.pods()
        running = {name for name, pod in pods.items() if pod["status"]["phase"] == "Running"}
        return pods if running >= set(names) else None

    return ns.until(probe, f"{', '.join(names)} run")


def wait_for_running_instances(ns: NamespaceClient, shell: Shell, name: str, count: int) -> dict[str, str]:
    """Waits until arena lists *count* running instances, and returns the node of each."""

    def probe() -> dict[str, str] | None:
        head, *rows = (line.split() for line in shell(f"arena get {name}").splitlines() if line.strip())
        assert head == ["NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE"]
        running = [row for row in rows if row[:3] == [name, "RUNNING", "TFJOB"]]
        return {row[4]: row[5] for row in running} if len(running) == count else None

    return ns.until(probe, f"arena lists {name} as running")


@pytest.mark.timeout(2 * SLOW_CONTROLLER_SECONDS)
def test_an_arena_job_with_a_role_sequence_runs(ns: NamespaceClient, shell: Shell) -> None:
    roles = ("worker", "chief", "ps", "evaluator", "tensorboard")

    printed = shell(command("000", "arena submit"))
    pods = wait_until_all_run(ns, *(f"tf-distributed-test-{role}-0" for role in roles))
    instances = wait_for_running_instances(ns, shell, "tf-distributed-test", len(roles) - 1)
    selected = ns.kubectl("get", "po", "-l", "tf-job-name=tf-distributed-test", "-o", "name").split()
    events = f"launcher events tf-distributed-test -n {ns.namespace}"
    sequence = shell(f'{events} | grep "the Role Sequence" | tail -n 1')
    shell("arena delete tf-distributed-test")

    assert printed.splitlines() == [
        "framework.launcher.microsoft.com/tf-distributed-test created",
        "service/tf-distributed-test-tensorboard created",
    ]
    assert "the Role Sequence of job tf-distributed-test is: [Worker Chief PS Evaluator]" in sequence
    # TensorBoard is not an instance of the job.
    assert set(instances) == {f"tf-distributed-test-{role}-0" for role in roles if role != "tensorboard"}
    assert selected == [f"pod/{name}" for name in sorted(instances)]
    assert pods["tf-distributed-test-worker-0"]["metadata"]["annotations"]["job-role-sequence"] == (
        "Worker,Chief,PS,Evaluator"
    )
    ns.until(
        lambda: not ns.framework("tf-distributed-test") or None, "it is deleted", SLOW_CONTROLLER_SECONDS
    )


def test_an_arena_job_with_code_from_git_runs(ns: NamespaceClient, shell: Shell) -> None:
    shell(command("001", "arena submit"))
    pods = wait_until_all_run(ns, *(f"tf-dist-git-{task}" for task in ("worker-0", "worker-1", "ps-0")))
    instances = wait_for_running_instances(ns, shell, "tf-dist-git", 3)

    assert [init["image"] for init in pods["tf-dist-git-worker-0"]["spec"]["initContainers"]] == [
        "alpine/git:2.47.2"
    ]
    assert instances == {name: pod["status"]["hostIP"] for name, pod in pods.items()}


def test_a_simpletfjob_template_runs_on_the_nodes_of_the_cluster(
    gpu_cluster: GpuCluster, ns: NamespaceClient, shell: Shell, tmp_path: Path
) -> None:
    template, _ = blocks("002", "yaml")
    (tmp_path / "home/mnist.yaml").write_text(template)

    shell(f"{command('002', 'simpletfjob mnist.yaml -N 3')} --submit -n {ns.namespace}")

    generated = (tmp_path / "home/mnist_tfjob.yaml").read_text()
    chosen = re.findall(r"nodeName: (\S+)", generated)
    pods = wait_until_all_run(ns, "mnist-ps-0", "mnist-worker0-0", "mnist-worker1-0")
    assert (
        sorted(node["metadata"]["name"] for node in gpu_cluster.plane.admin.get("/api/v1/nodes")["items"])
        == chosen
    )
    assert [pods[name]["spec"]["nodeName"] for name in sorted(pods)] == chosen
