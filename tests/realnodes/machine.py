"""A simulated machine with its own processes, network, host name, /run and /var; see machine_init.py."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.cluster.processes import RunningProcess
from tests.cluster.versions import PROJECT
from tests.eventually import TIMEOUT_SECONDS


class NodeMachine:
    """Runs programs until it is switched off or the tests end, even if they are killed."""

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        shown: Mapping[str, Path] | None = None,
        replaced: Mapping[str, Path] | None = None,
    ) -> None:
        """*directory* belongs to the machine and is removed with it; *shown* are mounted in it by path."""
        directory.mkdir(parents=True, exist_ok=True)
        self.name, self.directory = name, directory
        self.cgroup = f"launcher-test-{os.getpid()}-{secrets.token_hex(4)}"
        arguments = {
            "name": name,
            "cgroup": self.cgroup,
            "directory": str(directory),
            "shown": {target: str(source) for target, source in (shown or {}).items()},
            "replaced": {target: str(source) for target, source in (replaced or {}).items()},
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.realnodes.machine_init", json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise OSError(f"{name} does not start: {self._process.communicate(timeout=TIMEOUT_SECONDS)[1]}")
        #: The pid of its first process outside.
        self.pid = _children(self._process.pid)[0]

    def start(
        self, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> RunningProcess:
        """Starts a process in the machine. Raises OSError if it has ended already."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        settings = [f"{name}={value}" for name, value in (env or {}).items()]
        request = {"argv": ["/usr/bin/env", *settings, *argv], "log": str(log), "directory": "/"}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        inside = int(self._process.stdout.readline())
        for pid in _children(self.pid):
            if _name_inside(pid) == inside:
                return RunningProcess(pid, log)
        raise OSError(f"{argv[0]} has ended on {self.name}:\n{log.read_text()}")

    def run(self, *argv: str) -> str:
        """Runs a program in the machine and returns its output."""
        arguments = ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", *argv]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
        assert done.returncode == 0, f"{' '.join(argv)} on {self.name}: {done.stdout}{done.stderr}"
        return done.stdout

    def switch_off(self) -> None:
        """Kills everything in the machine, and waits until nothing is left."""
        self._process.communicate(timeout=TIMEOUT_SECONDS)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _name_inside(pid: int) -> int | None:
    """The pid of the process in its own PID namespace."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    return int(next(line for line in lines if line.startswith("NSpid:")).split()[-1])
