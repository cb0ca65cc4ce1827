"""Processes that never outlive the tests."""

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


class Running:
    """A process of the guard's: known by a descriptor, which never means another one, as an id may later."""

    def __init__(self, pid: int, log: Path) -> None:
        self.pid = pid
        self.log = log
        self._descriptor: int | None = None
        with suppress(ProcessLookupError):  # it has ended already
            self._descriptor = os.pidfd_open(pid)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        with suppress(ProcessLookupError):
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, number)

    def ended(self, within: float = 0.0) -> bool:
        """Whether it has ended, or does so within that many seconds."""
        if self._descriptor is None:
            return True
        waiting = select.poll()
        waiting.register(self._descriptor, select.POLLIN)
        return bool(waiting.poll(within * 1000))

    def forget(self) -> None:
        """Give the descriptor back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def last_words(self, lines: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


class Guard:
    """Starts processes, and sees to it that they end with the tests, even when those are killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start(self, argv: Sequence[str], *, log: Path, directory: Path) -> Running:
        """The process, just started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"argv": list(argv), "log": str(log), "directory": str(directory)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Running(int(self._process.stdout.readline()), log)

    def end(self) -> None:
        """End every process that is still there, without a word of warning."""
        self._process.communicate(timeout=10)
