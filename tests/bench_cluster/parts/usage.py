"""What a process has used of the machine, as the kernel counts it."""

import re
from pathlib import Path


def forget_peak(pid: int) -> None:
    """Let the peak of its memory be what it has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int) -> int:
    """The most bytes of memory that it had at one time."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024
