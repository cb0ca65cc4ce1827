"""Invalid names in a pod spec are rejected, so that none becomes a path and no Framework waits forever."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.builders import Json, a_framework, a_pod_template, a_role
from tests.eventually import TIMEOUT_SECONDS
from tests.launcher_process import PROJECT
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS

NAMES = ["../../../../victim", "Main", "my_main", "a/b", "a" * 300, ""]
SOURCES: list[Json] = [{"emptyDir": {}}, {"configMap": {"name": "c"}}, {"secret": {"secretName": "s"}}]


def volume_pods(name: str) -> list[Json]:
    return [a_pod_template(volumes=[{"name": name, **source}]) for source in SOURCES]


def container_pods(name: str) -> list[Json]:
    container = {"name": name, "image": "busybox", "command": ["true"]}
    return [a_pod_template(containers=[container]), a_pod_template(initContainers=[container])]


def test_a_volume_or_container_name_that_is_not_a_dns_label_is_rejected(serve: Serve) -> None:
    server = serve()
    victim = server.data / "victim"
    victim.mkdir(mode=0o700)
    (victim / "kept").write_text("x")

    for name in NAMES:
        for pod in (*volume_pods(name), *container_pods(name)):
            response = server.post(FRAMEWORKS, a_framework(a_role(pod=pod), name="f"))
            pod_response = server.post(
                PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod["spec"]}
            )
            assert (response["code"], pod_response["code"]) == (422, 422), name
            assert response["details"]["causes"][0]["field"].endswith("].name")

    assert [entry.name for entry in victim.iterdir()] == ["kept"]


@pytest.mark.parametrize("name", NAMES)
def test_launcher_validate_reports_an_invalid_name_with_its_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / "f.json"
    (pod, _) = container_pods(name)
    file.write_bytes(orjson.dumps(a_framework(a_role(pod=pod)), option=orjson.OPT_INDENT_2))

    done = subprocess.run(
        [sys.executable, "-m", "launcher", "validate", str(file)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        cwd=PROJECT,
    )

    line = 1 + file.read_text()[: file.read_text().index('"command"')].count("\n") - 2
    assert done.returncode == 2
    assert f"{file}:{line}:" in done.stderr
    assert "spec.taskRoles[0].task.pod.spec.containers[0].name" in done.stderr
