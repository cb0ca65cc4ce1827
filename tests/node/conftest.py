"""Whatever a test mounts is gone after it, also when the test fails."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _nothing_stays_mounted(tmp_path: Path) -> Iterator[None]:
    yield
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in reversed(places):
        if place.startswith(f"{tmp_path}/"):
            subprocess.run(["umount", "--lazy", place], check=True, timeout=30)
