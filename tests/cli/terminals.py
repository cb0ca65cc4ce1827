"""Commands on a terminal of 80 columns, and with their output in files."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.eventually import TIMEOUT_SECONDS, until
from tests.forked_process import ForkedProcess

PROJECT = Path(__file__).parents[2]


class Terminal:
    """A process whose input and output are a terminal; it is killed at the end of the block."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path = PROJECT,
        columns: int = 80,
        rows: int = 24,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.resize(columns, rows)
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=directory,
            env={**environment, "TERM": "xterm", **(variables or {})},
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(TIMEOUT_SECONDS)
        os.close(self._ours)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Types text."""
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """Send SIGINT."""
        self.process.send_signal(signal.SIGINT)

    def until(self, pattern: str) -> str:
        """Wait until the output matches *pattern*. Returns all output so far."""
        ends = time.monotonic() + TIMEOUT_SECONDS
        while not re.search(pattern, self.seen):
            assert self._more(ends - time.monotonic()), f"{pattern!r} was not printed: {self.seen!r}"
        return self.seen

    def end(self) -> int:
        """Wait until the process exits. Returns its exit code."""
        ends = time.monotonic() + TIMEOUT_SECONDS
        while self._more(ends - time.monotonic()):
            pass
        return self.process.wait(TIMEOUT_SECONDS)

    def _more(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the process has closed the terminal
            return False
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


class Piped:
    """A launcher process whose output goes to files; it is killed at the end of the block."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._out, self._err = directory / "out", directory / "err"
        self.process = ForkedProcess(
            "launcher",
            *arguments,
            output=self._out,
            errors=self._err,
            directory=PROJECT,
            environment=os.environ,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.__exit__(kind, value, trace)

    def interrupt(self) -> None:
        """Send SIGINT."""
        self.process.send_signal(signal.SIGINT)

    @property
    def out(self) -> str:
        return self._out.read_text() if self._out.exists() else ""

    @property
    def err(self) -> str:
        return self._err.read_text() if self._err.exists() else ""

    def until(self, text: str) -> None:
        """Waits until *text* is in the output or in the errors."""
        try:
            until(lambda: text in self.out or text in self.err, f"{text!r} is printed")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.out!r} {self.err!r}") from error

    def end(self) -> int:
        """Wait until the process exits. Returns its exit code."""
        return self.process.wait(TIMEOUT_SECONDS)


def launcher(*arguments: str) -> list[str]:
    """The command line of the launcher."""
    return [sys.executable, "-m", "launcher", *arguments]
