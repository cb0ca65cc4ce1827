"""The image of sandbox containers."""

import io
import platform
import subprocess
import tarfile
from pathlib import Path

import pytest

from launcher.node.runtime.pause_image import has_pause_program, pause_image
from tests.eventually import until


@pytest.mark.skipif(not has_pause_program(), reason=f"there is no program for {platform.machine()}")
def test_the_program_of_the_image_waits_until_it_is_killed(tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(pause_image())) as tar:
        tar.extractall(tmp_path, filter="data")

    process = subprocess.Popen([tmp_path / "pause"])
    try:
        until(lambda: _state(process.pid) == "S" or None, "it sleeps")
    finally:
        process.kill()

    assert process.wait(30) == -9


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_there_is_a_program_for_each_common_processor(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)

    assert has_pause_program()
    assert b"\x7fELF" in pause_image()
