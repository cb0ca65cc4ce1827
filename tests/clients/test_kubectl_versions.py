"""Basic calls with the kubectl of the chosen version and with those installed on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.isolated_namespace import IsolatedNamespace
from tests.clients.kubectl import Kubectl, installed

FRAMEWORK = "framework.launcher.microsoft.com/mnist"
BUILT = "built"


@pytest.fixture(params=[BUILT, *installed()], ids=lambda program: Path(program).name)
def some_kubectl(
    request: pytest.FixtureRequest, isolated: IsolatedNamespace, programs: Path, tmp_path: Path
) -> Iterator[Kubectl]:
    """One of these versions, with an empty cache."""
    program = programs / "kubectl" if request.param == BUILT else request.param
    home = tmp_path / "home"
    home.mkdir()
    kubectl = Kubectl(program, isolated.server.url, isolated.namespace, home, tmp_path / "cache")
    yield kubectl
    kubectl.end()


def test_a_framework_is_managed_by_any_version_of_kubectl(
    isolated: IsolatedNamespace, some_kubectl: Kubectl
) -> None:
    kubectl = some_kubectl

    assert kubectl("apply", "-f", "-", stdin=isolated.suspended()) == f"{FRAMEWORK} created\n"
    kubectl("wait", "fw/mnist", "--for=condition=Suspended", "--timeout=30s")
    assert kubectl.table("get", "fw")[1][:3] == ["mnist", "AttemptCreationPending", "0/1"]
    assert kubectl("apply", "-f", "-", stdin=isolated.suspended(tasks=2)) == f"{FRAMEWORK} configured\n"
    assert (
        kubectl("apply", "--server-side", "-f", "-", stdin=isolated.suspended(tasks=3))
        == f"{FRAMEWORK} serverside-applied\n"
    )
    kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec": {"executionType": "Start"}}')
    kubectl("wait", "fw/mnist", "--for=condition=Succeeded", "--timeout=60s")
    assert kubectl.table("get", "fw")[1][:3] == ["mnist", "Succeeded", "3/3"]
    assert kubectl("logs", "mnist-worker-0") == ""
    assert "taskNumber" in kubectl("explain", "fw.spec.taskRoles")
    assert kubectl("auth", "can-i", "delete", "fw") == "yes\n"
    assert "FrameworkSucceeded" in kubectl("describe", "fw", "mnist")
    assert 'unknown field "spec.bogus"' in kubectl.error_output(
        "create", "-f", "-", stdin=isolated.suspended("b", bogus=1)
    )
    # Since 1.33 the namespace follows.
    assert kubectl("delete", "fw", "mnist").startswith('framework.launcher.microsoft.com "mnist" deleted')
