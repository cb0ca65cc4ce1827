"""What is written down of each run, so that nothing depends on the memory of one process."""

from __future__ import annotations

import json
import os

RECORD = "run.json"
ENDED = "ended.json"
OUTPUTS = ("stdout", "stderr")
#: Locked by the keeper of the data directory as long as it is there.
LOCK = "keeper.lock"
#: Written by the container's own init: exit code and time, also when no keeper is there to see them.
LAST_WORD = "end"
#: The first line of that file, as soon as the program is allowed to run.
BEGAN = b'{"began": true}\n'

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]


def write(directory: str, name: str, content: Json) -> None:
    """The file *name* holds *content*, whole, or it is as it was."""
    new = f"{directory}/.{name}"
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        text = json.dumps(content).encode()
        # A full disk may take a part only.
        while text:
            text = text[os.write(file, text) :]
    finally:
        os.close(file)
    os.rename(new, f"{directory}/{name}")


def read(directory: str, name: str) -> Json | None:
    """What ``write`` wrote; None when there is no such file, or nothing that can be read in it."""
    try:
        with open(f"{directory}/{name}", "rb") as file:
            content = json.loads(file.read())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def word(directory: str, about: str) -> Json | None:
    """What the run's own init, or bubblewrap, has said *about* something; None when they said nothing."""
    try:
        with open(f"{directory}/{LAST_WORD}", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if isinstance(said, dict) and about in said:
            return said
    return None


def remove(directory: str) -> None:
    """No file of the run is left, and no directory; nothing happens when there is none."""
    try:
        for entry in os.scandir(directory):
            os.unlink(entry.path)
        os.rmdir(directory)
    except FileNotFoundError:
        pass


def boot() -> str:
    """Which start of the machine this is."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def born(pid: int) -> int | None:
    """When the process was started, in the kernel's ticks; None when it is over."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name of the program may hold spaces and brackets; what follows the last bracket does not.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
