"""
Run a command with directories mounted: ``python -m tests.local.with_mounts DIR=TARGET … -- COMMAND …``.

Each DIR is mounted at TARGET for the command and its children, in their own mount namespace.
"""

import ctypes
import os
import sys
import tempfile
from pathlib import Path

from launcher.node.container_runtime import Mount
from launcher.node.sandbox.filesystem import Machine
from launcher.node.sandbox.mount_steps import to_wire
from launcher.node.sandbox.planner import plan
from launcher.node.shim import linux, mounts


def main(words: list[str]) -> None:
    """Replaces this process by the command."""
    divide = words.index("--")
    requested = [
        Mount(Path(source), target) for source, _, target in (word.partition("=") for word in words[:divide])
    ]
    steps = [to_wire(step) for step in plan(Machine(), requested)]
    # The processes are those of the machine, so its own /proc shows them.
    steps = [["bind", "/proc", "/proc", False, False] if step[0] == "proc" else step for step in steps]
    user, group, directory = os.getuid(), os.getgid(), os.getcwd()
    root = user == 0
    if ctypes.CDLL(None).unshare(linux.NEW_MOUNTS | (0 if root else linux.NEW_USERS)):
        sys.exit("this machine allows no mount namespaces")
    if not root:
        linux.map_to_itself(user, group)
    stage, scratch = tempfile.mkdtemp(), tempfile.mkdtemp()
    mounts.build(steps, stage, scratch)
    os.chdir(directory)
    command = words[divide + 1 :]
    os.execvp(command[0], command)


main(sys.argv[1:])
