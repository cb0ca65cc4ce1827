"""What bubblewrap tells of a run, and what it leaves to be found out."""

from __future__ import annotations

import os
import re
import time

from launcher.node.shim import container_init, run_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.node.shim.run_records import Json

#: After so many seconds it is not bubblewrap any more that is called so.
_LONG = 2.0


def first_process(directory: str) -> int | None:
    """The first process of the run's namespace, by its number outside; None before there is one."""
    said = run_records.word(directory, "child-pid")
    return int(said["child-pid"]) if said is not None else None


def still_there(directory: str, first: int) -> bool:
    """Whether that is still the first process of the run's namespace, after bubblewrap's other process has gone."""
    said = run_records.word(directory, "pid-namespace")
    try:
        return said is not None and os.readlink(f"/proc/{first}/ns/pid") == f"pid:[{said['pid-namespace']}]"
    except OSError:
        return False


def has_entered(first: int, started: float) -> bool:
    """Whether the program runs: bubblewrap's own name is gone from its process."""
    for pid in container_init.children(first):
        try:
            with open(f"/proc/{pid}/comm", "rb") as file:
                return file.read() != b"bwrap\n" or time.time() - started > _LONG
        except OSError:
            continue
    return False


def reason(said: str) -> Json:
    """Why it could not start the program, from what it *said*."""
    if (failed := re.match(r"execvp (.*): (.*)", said)) is not None:
        name, why = failed[1], failed[2].lower()
        missing = "executable file not found in $PATH" if "/" not in name and "no such" in why else why
        return {"reason": "StartError", "message": f'exec: "{name}": {missing}'}
    if (failed := re.match(r"Can't chdir to (.*): (.*)", said)) is not None:
        return {
            "reason": "CreateContainerError",
            "message": f'chdir to cwd ("{failed[1]}") failed: {failed[2].lower()}',
        }
    return {"reason": "CreateContainerError", "message": f"bubblewrap: {said}"}
