"""A machine within this one: its own processes, network, host name, /run and /var; see inside.py."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.processes import Running
from tests.cluster.versions import PROJECT
from tests.local.server import PATIENCE


class Machine:
    """Runs programs, until it is switched off or the tests end, however suddenly."""

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        shown: Mapping[str, Path] | None = None,
        pretended: Mapping[str, Path] | None = None,
    ) -> None:
        """*directory* is the machine's own, and goes with it; each of *shown* stands at its place in there."""
        directory.mkdir(parents=True, exist_ok=True)
        self.name, self.directory = name, directory
        self.cgroup = f"launcher-test-{os.getpid()}-{secrets.token_hex(4)}"
        words = {
            "name": name,
            "cgroup": self.cgroup,
            "directory": str(directory),
            "shown": {target: str(source) for target, source in (shown or {}).items()},
            "pretended": {target: str(source) for target, source in (pretended or {}).items()},
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.realnodes.inside", json.dumps(words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise OSError(f"{name} does not come up: {self._process.communicate(timeout=PATIENCE)[1]}")
        #: Its first process, as this machine knows it.
        self.pid = _children(self._process.pid)[0]

    def start(self, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None) -> Running:
        """The process in there, just started. Raises OSError when it has ended already."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        settings = [f"{name}={value}" for name, value in (env or {}).items()]
        order = {"argv": ["/usr/bin/env", *settings, *argv], "log": str(log), "directory": "/"}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        inside = int(self._process.stdout.readline())
        for pid in _children(self.pid):
            if _name_inside(pid) == inside:
                return Running(pid, log)
        raise OSError(f"{argv[0]} has ended on {self.name}:\n{log.read_text()}")

    def run(self, *argv: str) -> str:
        """What a program in there prints, once it has done its work."""
        words = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", *argv]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{' '.join(argv)} on {self.name}: {done.stdout}{done.stderr}"
        return done.stdout

    def switch_off(self) -> None:
        """End everything in there without a word of warning, and return when nothing is left of it."""
        self._process.communicate(timeout=PATIENCE)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _name_inside(pid: int) -> int | None:
    """By which id the process is known where it runs."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])
