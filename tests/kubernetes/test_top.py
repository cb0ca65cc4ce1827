"""``launcher top`` on a cluster without metrics-server, through the API proxy."""

from pathlib import Path

import pytest

from launcher.cli.main import main
from tests.builders import a_framework, a_role
from tests.cluster.controlplane import ControlPlane
from tests.cluster.users import User
from tests.kubernetes.launcher import KubeLauncher
from tests.kubernetes.namespace_client import NamespaceClient, a_task_pod

METRICS = {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["list"]}


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        pytest.param([METRICS], "its admin can install metrics-server", id="no metrics"),
        pytest.param([], "you may not list pods.metrics.k8s.io", id="no permission"),
    ],
)
def test_tasks_are_listed_without_metrics_and_the_reason_is_printed(
    shared_launcher: KubeLauncher,
    cluster: ControlPlane,
    ns: NamespaceClient,
    user: User,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rules: list[dict[str, list[str]]],
    text: str,
) -> None:
    if rules:
        cluster.grant(user, rules, namespace=ns.namespace)
    token = tmp_path / "token"
    token.write_text(user.token)
    token.chmod(0o600)
    ns.submit(a_framework(a_role(tasks=2, pod=a_task_pod())))
    ns.wait_running("mnist-worker-0", "mnist-worker-1")
    server = ("--server", shared_launcher.url, "--token-file", str(token), "-n", ns.namespace)

    code = main(["top", *server, "mnist"])

    out, err = capsys.readouterr()
    assert (code, text in err) == (0, True)
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [(row[0], *row[2:]) for row in rows] == [("worker-0", "-", "-", "0"), ("worker-1", "-", "-", "0")]
