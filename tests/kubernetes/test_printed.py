"""What the documents of the other systems print, as it is printed, accepted through the front door and started."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.controlplane import ControlPlane
from tests.core.manifests import Json
from tests.kubernetes.account import launcher_account
from tests.kubernetes.conftest import define_frameworks
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.world import NOW_AND_THEN, World
from tests.local.printed import Shell, blocks, command

_GPUS = {"nvidia.com/gpu": "4"}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster whose nodes have GPUs, and the address of a launcher for it."""

    plane: ControlPlane
    url: str


@pytest.fixture(scope="module")
def site(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("site")
    with ControlPlane(directory / "plane", programs, nodes=3) as plane:
        define_frameworks(plane)
        for node in plane.admin.get("/api/v1/nodes")["items"]:
            has = {"status": {"capacity": _GPUS, "allocatable": _GPUS}}
            plane.admin.patch(f"/api/v1/nodes/{node['metadata']['name']}/status", has)
        launcher = KubeLauncher(directory / "launcher", launcher_account(plane).kubeconfig)
        try:
            yield Site(plane, launcher.url)
        finally:
            launcher.end()


@pytest.fixture
def world(site: Site) -> World:
    """An empty namespace."""
    return World(site.plane, site.plane.new_namespace())


@pytest.fixture
def shell(site: Site, world: World, tmp_path: Path) -> Shell:
    """A user's shell, at home in that namespace."""
    token = tmp_path / "token"
    token.write_text(site.plane.admin_token)
    token.chmod(0o600)
    made = Shell(tmp_path / "home", {"LAUNCHER_SERVER": site.url, "LAUNCHER_TOKEN_FILE": str(token)})
    (tmp_path / "home/.arena").mkdir()
    (tmp_path / "home/.arena/config").write_text(f"namespace = {world.namespace}\n")
    return made


def all_run(world: World, *names: str) -> dict[str, Json]:
    """The pods of these names, once all of them run."""

    def look() -> dict[str, Json] | None:
        pods = world.pods()
        running = {name for name, pod in pods.items() if pod["status"]["phase"] == "Running"}
        return pods if running >= set(names) else None

    return world.until(look, f"{', '.join(names)} run")


def told(world: World, shell: Shell, name: str, count: int) -> dict[str, str]:
    """The node of each instance, once arena tells that so many of them run: in the columns of its documents."""

    def look() -> dict[str, str] | None:
        head, *rows = (line.split() for line in shell(f"arena get {name}").splitlines() if line.strip())
        assert head == ["NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE"]
        running = [row for row in rows if row[:3] == [name, "RUNNING", "TFJOB"]]
        return {row[4]: row[5] for row in running} if len(running) == count else None

    return world.until(look, f"arena tells that {name} runs")


@pytest.mark.timeout(2 * NOW_AND_THEN)
def test_arenas_job_with_a_role_sequence(world: World, shell: Shell) -> None:
    roles = ("worker", "chief", "ps", "evaluator", "tensorboard")

    printed = shell(command("000", "arena submit"))
    pods = all_run(world, *(f"tf-distributed-test-{role}-0" for role in roles))
    instances = told(world, shell, "tf-distributed-test", len(roles) - 1)
    selected = world.kubectl("get", "po", "-l", "tf-job-name=tf-distributed-test", "-o", "name").split()
    events = f"launcher events tf-distributed-test -n {world.namespace}"
    sequence = shell(f'{events} | grep "the Role Sequence" | tail -n 1')
    shell("arena delete tf-distributed-test")

    assert printed.splitlines() == [
        "framework.launcher.microsoft.com/tf-distributed-test created",
        "service/tf-distributed-test-tensorboard created",
    ]
    assert "the Role Sequence of job tf-distributed-test is: [Worker Chief PS Evaluator]" in sequence
    # TensorBoard is beside the job, not one of its instances.
    assert set(instances) == {f"tf-distributed-test-{role}-0" for role in roles if role != "tensorboard"}
    assert selected == [f"pod/{name}" for name in sorted(instances)]
    assert pods["tf-distributed-test-worker-0"]["metadata"]["annotations"]["job-role-sequence"] == (
        "Worker,Chief,PS,Evaluator"
    )
    world.until(lambda: not world.framework("tf-distributed-test") or None, "it is deleted", NOW_AND_THEN)


def test_arenas_job_whose_code_is_fetched_with_git(world: World, shell: Shell) -> None:
    shell(command("001", "arena submit"))
    pods = all_run(world, *(f"tf-dist-git-{task}" for task in ("worker-0", "worker-1", "ps-0")))
    instances = told(world, shell, "tf-dist-git", 3)

    assert [init["image"] for init in pods["tf-dist-git-worker-0"]["spec"]["initContainers"]] == [
        "alpine/git:2.47.2"
    ]
    assert instances == {name: pod["status"]["hostIP"] for name, pod in pods.items()}


def test_simpletfjobs_template_on_the_nodes_of_the_cluster(
    site: Site, world: World, shell: Shell, tmp_path: Path
) -> None:
    template, _ = blocks("002", "yaml")
    (tmp_path / "home/mnist.yaml").write_text(template)

    shell(f"{command('002', 'simpletfjob mnist.yaml -N 3')} --submit -n {world.namespace}")

    made = (tmp_path / "home/mnist_tfjob.yaml").read_text()
    chosen = re.findall(r"nodeName: (\S+)", made)
    pods = all_run(world, "mnist-ps-0", "mnist-worker0-0", "mnist-worker1-0")
    assert (
        sorted(node["metadata"]["name"] for node in site.plane.admin.get("/api/v1/nodes")["items"]) == chosen
    )
    assert [pods[name]["spec"]["nodeName"] for name in sorted(pods)] == chosen
