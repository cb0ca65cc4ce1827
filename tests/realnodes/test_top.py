"""``launcher top`` and ``kubectl top`` with a real metrics-server, which reads from real kubelets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.cli.main import main
from tests.builders import a_framework, a_role
from tests.cluster.build import Kit, programs_of
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.cluster.versions import chosen
from tests.eventually import until
from tests.kubernetes.conftest import ALL_ON_FRAMEWORKS
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient
from tests.realnodes.bed import RealNodes
from tests.realnodes.metrics_server import GROUP, metrics_server
from tests.realnodes.pods import a_real_pod, node_selector

#: metrics-server needs two samples of a container; the kubelet takes one every ten to fifteen seconds.
MAX_SAMPLE_SECONDS = 120
READ = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": [GROUP], "resources": ["pods"], "verbs": ["get", "list"]},
]


@pytest.fixture(scope="module", autouse=True)
def metrics(bed: RealNodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    program = programs_of(chosen(), Kit.METRICS) / "metrics-server"
    directory = tmp_path_factory.mktemp("metrics") / "server"
    with metrics_server(program, bed.plane, bed.host_address, directory):
        yield


@pytest.fixture
def launcher(account: User, tmp_path: Path) -> Iterator[KubeLauncher]:
    running = KubeLauncher(tmp_path / "launcher", account.kubeconfig)
    yield running
    running.end()


def test_the_use_of_tasks_on_kubelets_is_printed(
    launcher: KubeLauncher,
    cluster: ControlPlane,
    ns: NamespaceClient,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    user = cluster.new_user()
    cluster.grant(user, [*ALL_ON_FRAMEWORKS, *READ], namespace=ns.namespace)
    token = tmp_path / "token"
    token.write_text(user.token)
    token.chmod(0o600)
    roles = (
        a_role(name, 1, pod=a_real_pod("while :; do :; done", nodeSelector=node_selector(f"node-{number}")))
        for number, name in enumerate(("one", "two"), 1)
    )
    ns.submit(a_framework(*roles))
    ns.wait_running("mnist-one-0", "mnist-two-0")
    server = ("--server", launcher.url, "--token-file", str(token), "-n", ns.namespace)

    def used_by_tasks() -> dict[str, tuple[int, int]] | None:
        """The use of both tasks once metrics-server has two samples of each."""
        assert main(["top", *server, "mnist"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
        known = {task: _use(cpu, memory) for task, _, cpu, memory, _ in rows if cpu != "-"}
        return known if len(known) == 2 else None

    tasks = until(used_by_tasks, "the use of both tasks is known", within=MAX_SAMPLE_SECONDS)
    printed = cluster.kubectl("top", "pods", "-n", ns.namespace, "--no-headers", user=user)

    pods = {name: _use(cpu, memory) for name, cpu, memory in map(str.split, printed.splitlines())}
    assert tasks.keys() == {"one-0", "two-0"}
    assert pods.keys() == {"mnist-one-0", "mnist-two-0"}
    # A loop of a shell: much CPU, even on a busy machine, and little memory.
    assert all(cpu > 20 and 0 <= memory < 64 for cpu, memory in (*tasks.values(), *pods.values()))


def _use(cpu: str, memory: str) -> tuple[int, int]:
    """``250m`` and ``12Mi`` as numbers."""
    assert (cpu[-1:], memory[-2:]) == ("m", "Mi"), (cpu, memory)
    return int(cpu[:-1]), int(memory[:-2])
