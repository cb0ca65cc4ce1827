"""The policy of host path prefixes applies to the resolved path at the time of the mount."""

import os
from pathlib import Path
from typing import Any

import pytest

from launcher.node.container_runtime import Mount, StartFailed
from launcher.node.pods.downward_api import DownwardApiContext
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import PreparedVolume, VolumeFailed, VolumeManager, volume_mounts
from tests.builders import a_framework, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve, serve
from tests.local.server import FRAMEWORKS
from tests.node.harness import a_pod
from tests.node.runtimes import ISOLATION_MODES, a_runtime, log_text, run_to_end, shell, use_isolation

__all__ = ["serve"]


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """The allowed directory, next to two that are not."""
    for name in ("shared", "sharedevil", "secret"):
        (tmp_path / name).mkdir()
    (tmp_path / "secret" / "file").write_text("secret\n")
    return tmp_path / "shared"


async def prepared(shared: Path, path: str, kind: str = "") -> PreparedVolume:
    """The volume of that host path, where only *shared* is allowed."""
    data = shared.parent / "data"
    volumes = VolumeManager(data, Nfs(data / "nfs", {}), host_paths=lambda: [str(shared)])
    pod = a_pod("p", volumes=[{"name": "v", "hostPath": {"path": path, "type": kind}}])
    pod["metadata"]["uid"] = "11111111-2222-4333-8444-555555555555"
    return (await volumes.prepare(DownwardApiContext(pod, "127.0.0.2", {}), {}))["v"]


@pytest.mark.parametrize("kind", ["", "Directory", "DirectoryOrCreate"])
@pytest.mark.parametrize(
    "path", ["link", "chain", "link/below", "up", "../sharedevil", "../shared/../secret"]
)
async def test_a_host_path_outside_the_prefixes_is_refused(shared: Path, path: str, kind: str) -> None:
    (shared / "link").symlink_to(shared.parent / "secret")
    (shared / "chain").symlink_to("link")
    (shared / "up").symlink_to("../secret")

    with pytest.raises(VolumeFailed, match=r"outside the allowed host paths|must be absolute"):
        await prepared(shared, f"{shared}/{path}" if "evil" not in path else f"{shared}evil", kind)

    assert os.listdir(shared.parent / "secret") == ["file"]


@pytest.mark.parametrize(
    ("kind", "name"), [("", "new/deep"), ("DirectoryOrCreate", "new"), ("FileOrCreate", "new")]
)
async def test_nothing_is_created_through_a_link_out_of_the_prefix(
    shared: Path, kind: str, name: str
) -> None:
    (shared / "dangling").symlink_to(shared.parent / "secret" / "new")
    (shared / "link").symlink_to(shared.parent / "secret")

    for path in (shared / "dangling", shared / "link" / name):
        with pytest.raises(VolumeFailed, match="outside the allowed host paths"):
            await prepared(shared, str(path), kind)

    assert os.listdir(shared.parent / "secret") == ["file"]


async def test_a_link_within_the_prefix_is_followed(shared: Path) -> None:
    (shared / "v2").mkdir()
    (shared / "current").symlink_to("v2")

    assert (await prepared(shared, str(shared / "current"))).path == shared / "v2"
    assert (await prepared(shared, str(shared))).path == shared


async def test_a_sub_path_of_a_host_path_cannot_lead_out(shared: Path) -> None:
    (shared / "link").symlink_to(shared.parent / "secret")
    container = {"volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "link"}]}

    with pytest.raises(Exception, match="leads out of the volume"):
        list(volume_mounts(container, {"v": await prepared(shared, str(shared))}, {}))


@pytest.mark.parametrize("isolation", [mode for mode in ISOLATION_MODES if mode != "bwrap"])
@pytest.mark.parametrize("part", ["", "below"])
async def test_a_link_that_appears_after_the_check_is_not_mounted(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: str, part: str
) -> None:
    use_isolation(isolation, tmp_path, monkeypatch)
    (shared / "d" / part).mkdir(parents=True)
    (tmp_path / "secret" / part).mkdir(exist_ok=True)
    source = (await prepared(shared, str(shared / "d" / part))).path
    (shared / "d").rename(shared / "gone")
    (shared / "d").symlink_to(tmp_path / "secret")

    async with a_runtime(tmp_path / "data") as runtime:
        config = shell(tmp_path / "data", "ls -a /v", mounts=[Mount(source, "/v")])
        with pytest.raises(StartFailed, match="symbolic links"):
            await runtime.start_container(config)


async def test_an_allowed_host_path_is_mounted(shared: Path, tmp_path: Path) -> None:
    (shared / "file").write_text("shared\n")
    source = (await prepared(shared, str(shared))).path

    async with a_runtime(tmp_path / "data") as runtime:
        assert (
            await run_to_end(runtime, shell(tmp_path / "data", "cat /v/file", mounts=[Mount(source, "/v")]))
            == 0
        )

    assert log_text(tmp_path / "data") == "shared\n"


def test_the_policy_is_applied_to_the_target_of_a_link(serve: Serve, shared: Path, tmp_path: Path) -> None:
    (shared / "e").symlink_to("/etc")
    config = tmp_path / "config.yaml"
    config.write_text(f"policy: {{host-path-prefixes: [{shared}]}}\n")
    server = serve(f"--config={config}")
    pod = a_pod_template(volumes=[{"name": "v", "hostPath": {"path": f"{shared}/e"}}])

    response = server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=pod)))
    assert response["kind"] == "Framework", response

    def failed_mount() -> Any:
        events = server.get("/api/v1/namespaces/default/events")["items"]
        return next((event["message"] for event in events if event["reason"] == "FailedMount"), None)

    assert "leads to /etc, which is outside the allowed" in until(failed_mount, "an event about the mount")
