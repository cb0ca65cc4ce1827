"""The files in a run's directory, from which another shim recovers the run."""

from __future__ import annotations

import json
import os
import time

RECORD = "run.json"
ENDED = "ended.json"
OUTPUTS = ("stdout", "stderr")
#: Locked by the shim of the data directory as long as it runs.
LOCK = "keeper.lock"
#: JSON lines by the run's init, or by bubblewrap: the exit code and its time, also if no shim runs.
END = "end"
#: The first line of that file, written when the program may run.
BEGAN = b'{"began": true}\n'

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


def write(directory: str, name: str, content: Json) -> None:
    """Replaces the file *name* by *content* atomically."""
    new = f"{directory}/.{name}"
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        text = json.dumps(content).encode()
        # On a full disk only a part may be written.
        while text:
            text = text[os.write(file, text) :]
    finally:
        os.close(file)
    os.rename(new, f"{directory}/{name}")


def read(directory: str, name: str) -> Json | None:
    """The content of a file written by ``write``; None if it does not exist or is not a JSON object."""
    try:
        with open(f"{directory}/{name}", "rb") as file:
            content = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def read_end(directory: str, key: str) -> Json | None:
    """The first line of the run's end file that has *key*, or None."""
    try:
        with open(f"{directory}/{END}", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        try:
            content = json.loads(line)
        except ValueError:
            continue
        if isinstance(content, dict) and key in content:
            return content
    return None


def has_started(directory: str, record: Json) -> bool:
    """Whether the program was allowed to run; waits if its init has not decided yet."""
    while read_end(directory, "began") is None:
        if not is_alive(record):
            return read_end(directory, "began") is not None
        time.sleep(0.001)
    return True


def is_alive(record: Json) -> bool:
    """Whether the recorded process is running; another process may have its pid by now."""
    return (
        bool(record)
        and record["boot"] == boot_id()
        and record["born"] is not None
        and record["born"] == start_ticks(record["pid"])
    )


def remove(directory: str) -> None:
    """Deletes the run's directory and its files, if it exists."""
    try:
        for entry in os.scandir(directory):
            os.unlink(entry.path)
        os.rmdir(directory)
    except FileNotFoundError:
        pass


def boot_id() -> str:
    """An id that changes with each boot of the machine."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def start_ticks(pid: int) -> int | None:
    """The start time of the process in the kernel's ticks; None if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The program's name may contain spaces and brackets; the fields after the last bracket do not.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
