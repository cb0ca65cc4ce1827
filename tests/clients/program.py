"""Programs that go on beside a test, and what they have said so far."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.local.server import PATIENCE, until

T = TypeVar("T")


class Program:
    """A process that writes lines until it ends or is ended."""

    def __init__(
        self, command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """*output* is the file that keeps what it says; its complaints go beside it."""
        self._output, self._errors = output, output.with_suffix(".errors")
        with output.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=errors, env=environment
            )

    def lines(self) -> list[str]:
        """The lines that are whole by now."""
        return self._output.read_text().rpartition("\n")[0].splitlines()

    def until(self, look: Callable[[list[str]], T | None], what: str, within: float = PATIENCE) -> T:
        """What *look* finds in the lines, as soon as it finds something."""

        def found() -> T | None:
            ended = self.process.poll() is not None
            answer = look(self.lines())
            assert answer is not None or not ended, f"{what}: it has ended: {self.lines()} {self.errors()}"
            return answer

        return until(found, what, within)

    def until_said(self, words: str) -> str:
        """The first line with *words* in it, once there is one."""
        return self.until(
            lambda lines: next((line for line in lines if words in line), None), f"it says {words!r}"
        )

    def errors(self) -> str:
        """What it has complained of so far."""
        return self._errors.read_text()

    def exit_code(self, within: float = PATIENCE) -> int:
        """How it ended, once it has."""
        return self.process.wait(within)

    def pause(self) -> None:
        """Let it stand still, with all its connections open."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """After a pause."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.communicate(timeout=PATIENCE)
