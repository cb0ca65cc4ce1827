"""Volume claims on a machine where nobody makes volumes."""

from pathlib import Path

import pytest

from launcher.node.pods.downward_api import DownwardApiContext
from launcher.node.volumes.nfs import Nfs
from launcher.node.volumes.volume_manager import PreparedVolume, VolumeFailed, VolumeManager
from tests.node.test_volume_manager import a_pod_with


@pytest.mark.parametrize("read_only", [False, True])
async def test_a_directory_stands_in_for_a_claim(tmp_path: Path, read_only: bool) -> None:
    data = tmp_path / "data"
    data.mkdir()
    room = VolumeManager(tmp_path, Nfs(tmp_path / "nfs", {}), {"nfs-pvc": data})
    pod = a_pod_with({"persistentVolumeClaim": {"claimName": "nfs-pvc", "readOnly": read_only}})

    source = (await room.prepare(DownwardApiContext(pod, ""), {}))["v"]
    (data / "precious").touch()
    await room.remove(pod)

    assert source == PreparedVolume(data, read_only=read_only)
    assert (data / "precious").exists()


async def test_without_one_it_is_told_how_to_name_it(tmp_path: Path) -> None:
    room = VolumeManager(tmp_path, Nfs(tmp_path / "nfs", {}), {"gone": tmp_path / "gone"})

    for claim, way_out in (("nfs-pvc", "--claim nfs-pvc=DIR"), ("gone", "is not a directory")):
        pod = a_pod_with({"persistentVolumeClaim": {"claimName": claim}})
        with pytest.raises(VolumeFailed, match=way_out):
            await room.prepare(DownwardApiContext(pod, ""), {})
