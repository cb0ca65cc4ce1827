"""
An upgrade finds the data of the release before it.

``recorded/data-930ffc2.tar.gz`` is the data directory of that commit, stopped: two completed Frameworks with their
logs, one of them failed after a retry, one that is held, a completed TFJob, a ConfigMap and a Secret.
"""

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended

RECORDED = Path(__file__).parent / "recorded" / "data-930ffc2.tar.gz"


@pytest.fixture
def upgraded(serve: Serve, tmp_path: Path) -> Server:
    """A launcher on the recorded data."""
    directory = tmp_path / "upgraded"
    data = directory / "data"
    data.mkdir(parents=True)
    with tarfile.open(RECORDED) as archive:
        archive.extractall(data, filter="data")
    return serve("--node", "recorded", at=directory)


def test_objects_status_and_logs_of_the_previous_release_are_available(upgraded: Server) -> None:
    frameworks = {each["metadata"]["name"]: each for each in upgraded.get(FRAMEWORKS)["items"]}

    assert sorted(frameworks) == ["failing", "held", "hello", "job"]
    assert {name: ended(frameworks[name]) for name in ("failing", "hello", "job")} == {
        "failing": "Failed",
        "hello": "Succeeded",
        "job": "Succeeded",
    }
    assert upgraded.log("hello-greeter-0") == "hello from greeter 0 of hello\n"
    assert upgraded.log("failing-worker-1") == "attempt\n"
    assert upgraded.get("/api/v1/namespaces/default/configmaps/settings")["data"] == {"k": "v"}
    assert upgraded.get("/api/v1/namespaces/default/secrets/credentials")["data"] == {"k": "dg=="}
    job = upgraded.get("/apis/kubeflow.org/v1/namespaces/default/tfjobs/job")
    assert [each["type"] for each in job["status"]["conditions"] if each["status"] == "True"][
        -1
    ] == "Succeeded"


def test_a_framework_created_on_hold_by_the_previous_release_can_be_started(upgraded: Server) -> None:
    patch = ("-X", "PATCH", "-H", "Content-Type: application/merge-patch+json")

    upgraded.curl(f"{FRAMEWORKS}/held", *patch, "--data", '{"spec": {"executionType": "Start"}}')

    assert ended(upgraded.completed("held")) == "Succeeded"
    assert "held-greeter-0" in {each["metadata"]["name"] for each in upgraded.get(PODS)["items"]}


def test_the_store_of_the_previous_release_can_be_checked(upgraded: Server) -> None:
    upgraded.stop()

    command = [sys.executable, "-m", "launcher", "store", "check", "--data", str(upgraded.data)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60)

    assert checked.returncode == 0, checked.stderr
