"""Persistent volume claims, which are directories of this machine."""

from pathlib import Path

import pytest

from launcher.node.pods.downward_api import DownwardApiContext
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import PreparedVolume, VolumeFailed, VolumeManager
from tests.node.volumes.test_volume_manager import a_pod_with


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_claim_is_mounted_from_its_configured_directory(tmp_path: Path, read_only: bool) -> None:
    data = tmp_path / "data"
    data.mkdir()
    volumes = VolumeManager(tmp_path, Nfs(tmp_path / "nfs", {}), {"nfs-pvc": data})
    pod = a_pod_with({"persistentVolumeClaim": {"claimName": "nfs-pvc", "readOnly": read_only}})

    source = (await volumes.prepare(DownwardApiContext(pod, ""), {}))["v"]
    (data / "precious").touch()
    await volumes.remove(pod)

    assert source == PreparedVolume(data, read_only=read_only)
    assert (data / "precious").exists()


async def test_a_claim_without_a_directory_fails_with_the_flag_to_set(tmp_path: Path) -> None:
    volumes = VolumeManager(tmp_path, Nfs(tmp_path / "nfs", {}), {"gone": tmp_path / "gone"})

    for claim, message in (("nfs-pvc", "--claim nfs-pvc=DIR"), ("gone", "does not exist")):
        pod = a_pod_with({"persistentVolumeClaim": {"claimName": claim}})
        with pytest.raises(VolumeFailed, match=message):
            await volumes.prepare(DownwardApiContext(pod, ""), {})
