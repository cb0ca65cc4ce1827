"""Client processes that run during a test, and their output."""

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.eventually import TIMEOUT_SECONDS, until

T = TypeVar("T")


class ClientProcess:
    """A process that writes lines until it exits or is killed."""

    def __init__(
        self, command: Sequence[str], output: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """*output* is the file of its standard output; standard error is written to a file next to it."""
        self._output, self._errors = output, output.with_suffix(".errors")
        with output.open("wb") as out, self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=errors, env=environment
            )

    def lines(self) -> list[str]:
        """The complete lines so far."""
        return self._output.read_text().rpartition("\n")[0].splitlines()

    def until(self, probe: Callable[[list[str]], T | None], what: str, within: float = TIMEOUT_SECONDS) -> T:
        """Returns the first result of *probe* on the output lines that is not None."""

        def probe_output() -> T | None:
            ended = self.process.poll() is not None
            response = probe(self.lines())
            assert response is not None or not ended, f"{what}: it has ended: {self.lines()} {self.errors()}"
            return response

        return until(probe_output, what, within)

    def wait_for_line(self, text: str) -> str:
        """Returns the first line that contains *text*."""
        return self.until(
            lambda lines: next((line for line in lines if text in line), None),
            f"the output contains {text!r}",
        )

    def errors(self) -> str:
        """Its standard error so far."""
        return self._errors.read_text()

    def exit_code(self, within: float = TIMEOUT_SECONDS) -> int:
        """Waits until it has exited, and returns the exit code."""
        return self.process.wait(within)

    def pause(self) -> None:
        """Stops the process without closing its connections."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continues the process after a pause."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """Kills the process."""
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT_SECONDS)
