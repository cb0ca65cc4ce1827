"""No name in a pod spec leads out of the place where it belongs, and none leaves a Framework that never ends."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.core.manifests import Json, a_framework, a_pod, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PATIENCE, PODS, PROJECT

NAMES = ["../../../../victim", "Main", "my_main", "a/b", "a" * 300, ""]
SOURCES: list[Json] = [{"emptyDir": {}}, {"configMap": {"name": "c"}}, {"secret": {"secretName": "s"}}]


def volume_pods(name: str) -> list[Json]:
    return [a_pod(volumes=[{"name": name, **source}]) for source in SOURCES]


def container_pods(name: str) -> list[Json]:
    container = {"name": name, "image": "busybox", "command": ["true"]}
    return [a_pod(containers=[container]), a_pod(initContainers=[container])]


def test_a_volume_or_container_name_that_is_no_dns_label_is_rejected(serve: Serve) -> None:
    server = serve()
    victim = server.data / "victim"
    victim.mkdir(mode=0o700)
    (victim / "kept").write_text("x")

    for name in NAMES:
        for pod in (*volume_pods(name), *container_pods(name)):
            told = server.post(FRAMEWORKS, a_framework(a_role(pod=pod), name="f"))
            bare = server.post(
                PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod["spec"]}
            )
            assert (told["code"], bare["code"]) == (422, 422), name
            assert told["details"]["causes"][0]["field"].endswith("].name")

    assert [entry.name for entry in victim.iterdir()] == ["kept"]


@pytest.mark.parametrize("name", NAMES)
def test_launcher_validate_reports_such_a_name_offline_with_its_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / "f.json"
    (pod, _) = container_pods(name)
    file.write_bytes(orjson.dumps(a_framework(a_role(pod=pod)), option=orjson.OPT_INDENT_2))

    done = subprocess.run(
        [sys.executable, "-m", "launcher", "validate", str(file)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        cwd=PROJECT,
    )

    line = 1 + file.read_text()[: file.read_text().index('"command"')].count("\n") - 2
    assert done.returncode == 2
    assert f"{file}:{line}:" in done.stderr
    assert "spec.taskRoles[0].task.pod.spec.containers[0].name" in done.stderr
