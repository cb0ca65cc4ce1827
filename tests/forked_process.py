"""Modules run as by ``python -m``, in processes forked from one that has imported the launcher already."""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from tests.eventually import TIMEOUT_SECONDS

#: Starts the process from which the others are forked, once per test worker. The import of the launcher takes ten times
#: as long as the rest of its start.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["launcher.cli.commands.serve", "launcher.wiring.local"])


class ForkedProcess:
    """Like ``subprocess.Popen``, with a session of its own; killed at the end of the block or of the tests."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        errors: Path,
        directory: Path,
        environment: Mapping[str, str],
        output: Path | None = None,
    ) -> None:
        """Errors and output are appended to these files; without one for the output, ``stdout`` reads it."""
        reader, writer = _CONTEXT.Pipe(duplex=False)
        with reader, writer:
            self._process = _CONTEXT.Process(
                target=_run,
                args=(module, arguments, output or writer, errors, directory, dict(environment)),
                daemon=True,
            )
            self._process.start()
            self.stdout: TextIO = os.fdopen(os.dup(reader.fileno()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.wait(TIMEOUT_SECONDS)
        self.stdout.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        """Returns the exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Returns its exit code. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout)
        return code

    def communicate(self, timeout: float) -> tuple[str, None]:
        """Waits for its exit and returns the rest of its output. Raises subprocess.TimeoutExpired."""
        self.wait(timeout)
        return self.stdout.read(), None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(
    module: str,
    arguments: Sequence[str],
    output: Connection | Path,
    errors: Path,
    directory: Path,
    environment: Mapping[str, str],
) -> None:
    os.setsid()
    with output if isinstance(output, Connection) else output.open("ab") as out, errors.open("ab") as err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
