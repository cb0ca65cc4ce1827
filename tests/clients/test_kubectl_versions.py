"""The same few calls with the oldest and the newest kubectl of this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.kubectl import HOW_TO_GET_IT, Kubectl, installed
from tests.clients.space import Space

FRAMEWORK = "framework.launcher.microsoft.com/mnist"
#: An empty list would be a table without rows; this row says what is missing.
PROGRAMS = installed() or [""]


@pytest.fixture(params=PROGRAMS, ids=lambda program: Path(program).name or "none")
def some_kubectl(request: pytest.FixtureRequest, space: Space, tmp_path: Path) -> Iterator[Kubectl]:
    """One of them, with nothing learnt yet."""
    if not request.param:
        pytest.skip(HOW_TO_GET_IT)
    home = tmp_path / "home"
    home.mkdir()
    kubectl = Kubectl(request.param, space.server.url, space.namespace, home, tmp_path / "cache")
    yield kubectl
    kubectl.end()


def test_a_framework_lives_and_goes_by_any_kubectl(space: Space, some_kubectl: Kubectl) -> None:
    kubectl = some_kubectl

    assert kubectl("apply", "-f", "-", given=space.held()) == f"{FRAMEWORK} created\n"
    kubectl("wait", "fw/mnist", "--for=condition=Suspended", "--timeout=30s")
    assert kubectl.table("get", "fw")[1][:3] == ["mnist", "AttemptCreationPending", "0/1"]
    assert kubectl("apply", "-f", "-", given=space.held(tasks=2)) == f"{FRAMEWORK} configured\n"
    assert (
        kubectl("apply", "--server-side", "-f", "-", given=space.held(tasks=3))
        == f"{FRAMEWORK} serverside-applied\n"
    )
    kubectl("patch", "fw", "mnist", "--type=merge", "-p", '{"spec": {"executionType": "Start"}}')
    kubectl("wait", "fw/mnist", "--for=condition=Succeeded", "--timeout=60s")
    assert kubectl.table("get", "fw")[1][:3] == ["mnist", "Succeeded", "3/3"]
    assert kubectl("logs", "mnist-worker-0") == ""
    assert "taskNumber" in kubectl("explain", "fw.spec.taskRoles")
    assert kubectl("auth", "can-i", "delete", "fw") == "yes\n"
    assert "FrameworkSucceeded" in kubectl("describe", "fw", "mnist")
    assert 'unknown field "spec.bogus"' in kubectl.refused(
        "create", "-f", "-", given=space.held("b", bogus=1)
    )
    assert kubectl("delete", "fw", "mnist") == 'framework.launcher.microsoft.com "mnist" deleted\n'
