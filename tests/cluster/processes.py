"""Processes that end with the tests."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.cluster import guard


class RunningProcess:
    """A process that the guard started, held by a descriptor: its id may be reused, a descriptor is not."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self._descriptor: int | None = None
        with suppress(ProcessLookupError):  # it has exited already
            self._descriptor = os.pidfd_open(pid)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has exited."""
        with suppress(ProcessLookupError):
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, number)

    def ended(self, within: float = 0.0) -> bool:
        """Whether it exits within that many seconds, or has exited."""
        if self._descriptor is None:
            return True
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        return bool(waiting.poll(within * 1000))

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def log_tail(self, lines: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Guard:
    """Starts processes that end with the tests, even if those are killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, argv: Sequence[str], *, log: Path, directory: Path) -> RunningProcess:
        """Start a process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"argv": list(argv), "log": str(log), "directory": str(directory)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return RunningProcess(int(self._process.stdout.readline()), log)

    def end(self) -> None:
        """Kill every process that still runs."""
        self._process.communicate(timeout=10)
