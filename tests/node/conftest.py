"""Unmounts what a test has mounted, even if the test fails."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.node.volumes.mounts import mounts_below


@pytest.fixture(autouse=True)
def _unmount_all(tmp_path: Path) -> Iterator[None]:
    yield
    for mount_point in mounts_below(tmp_path):
        subprocess.run(["umount", "--lazy", mount_point], check=True, timeout=30)
