"""Commands on a terminal of 80 columns, as somebody would see them."""

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

PROJECT = Path(__file__).parents[2]
#: Seconds that anything may take: far more than it does, even on a busy machine.
PATIENCE = 60.0


class Terminal:
    """A process whose input and output are a terminal; it is ended with the block."""

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
        self.process.wait(PATIENCE)
        os.close(self._ours)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        """Type this."""
        os.write(self._ours, text.encode())

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def until(self, pattern: str) -> str:
        """Everything seen so far, once *pattern* is among it."""
        ends = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen):
            assert self._more(ends - time.monotonic()), f"{pattern!r} was never seen: {self.seen!r}"
        return self.seen

    def end(self) -> int:
        """The exit code, once the process has ended and all it wrote has been seen."""
        ends = time.monotonic() + PATIENCE
        while self._more(ends - time.monotonic()):
            pass
        return self.process.wait(PATIENCE)

    def _more(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            return False
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # nobody has the other end open any more
            return False
        self.seen += data.decode(errors="replace").replace("\r\n", "\n")
        return bool(data)


class Piped:
    """The launcher as a process whose output goes to files, as in a script; it is ended with the block."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self._out, self._err = directory / "out", directory / "err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                launcher(*arguments), stdout=out, stderr=err, cwd=PROJECT, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    def until(self, text: str) -> None:
        """Wait until it has written that, to either."""
        ends = time.monotonic() + PATIENCE
        while text not in self.out and text not in self.err:
            assert time.monotonic() < ends, f"{text!r} was never written: {self.out!r} {self.err!r}"
            time.sleep(0.02)

    def end(self) -> int:
        """Its exit code, once it has one."""
        return self.process.wait(PATIENCE)


def launcher(*arguments: str) -> list[str]:
    """The command, as it is run here."""
    return [sys.executable, "-m", "launcher", *arguments]
