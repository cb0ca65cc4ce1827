"""``--runtime docker`` with the Podman of a normal user, who also runs the launcher."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from launcher.cli.main import main
from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.engine.archives import BUSYBOX, archive, busybox
from tests.engine.conftest import ServeWith
from tests.engine.engines import EngineProcess
from tests.engine.fixtures import Engines
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, ended
from tests.pod_networks import a_normal_user, why_not_rootless

pytestmark = pytest.mark.engine


@pytest.fixture
def user() -> Iterator[Sequence[str]]:
    """The command prefix of the programs of a normal user."""
    if reason := why_not_rootless():
        pytest.skip(f"a normal user cannot run containers: {reason}")
    with a_normal_user() as prefix:
        yield prefix


@pytest.fixture
def podman(engines: Engines, user: Sequence[str]) -> Iterator[EngineProcess]:
    """The Podman of that user."""
    del engines  # what they need is installed
    engine = EngineProcess("podman", under=user)
    try:
        engine.load(archive(busybox()))
        yield engine
    finally:
        engine.close()


def test_containers_run_by_the_podman_of_a_normal_user(
    podman: EngineProcess,
    user: Sequence[str],
    serve_with: ServeWith,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    mounts = [{"name": "work", "mountPath": "/work"}]
    volumes = [{"name": "work", "hostPath": {"path": str(tmp_path)}}]
    script = "echo started; until test -e /work/end; do sleep 0.1; done; echo on stderr >&2; exit 3"
    container = a_container("sh", "-c", script, image=BUSYBOX, volumeMounts=mounts)
    server = serve_with(podman, under=user)
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod_template(container, volumes=volumes))))
    server.runs("mnist-worker-0")

    assert main(["exec", "mnist", "worker/0", "--", "sh", "-c", "echo $FC_TASK_INDEX; exit 7"]) == 7
    assert capfdbinary.readouterr().out == b"0\n"

    (tmp_path / "end").touch()
    assert ended(server.completed("mnist")) == "Failed"
    state = server.get(f"{PODS}/mnist-worker-0")["status"]["containerStatuses"][0]["state"]
    assert state["terminated"]["exitCode"] == 3
    assert server.log("mnist-worker-0") == "started\non stderr\n"

    server.delete(f"{FRAMEWORKS}/mnist")
    until(lambda: not podman.containers(), "the container is removed")
