"""kubectl in one namespace."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tests.clients.program import ClientProcess
from tests.eventually import TIMEOUT_SECONDS


def installed() -> list[str]:
    """The installed kubectl, if any, and the oldest and newest supported ones."""
    first = shutil.which("kubectl")
    if first is None:
        return []
    others = sorted(Path(first).resolve().parent.glob("kubectl.1.*"))
    return [first, *map(str, dict.fromkeys([*others[:1], *others[-1:]]))]


class Kubectl:
    """kubectl with one server and one namespace."""

    def __init__(self, program: str | Path, url: str, namespace: str, directory: Path, cache: Path) -> None:
        """*directory* is the empty home of the user; *cache* may be shared."""
        self._command = [str(program), f"--server={url}", f"--namespace={namespace}", f"--cache-dir={cache}"]
        self._directory = directory
        self._started: list[ClientProcess] = []

    def __call__(self, *arguments: str, stdin: Any = None, **environment: str) -> str:
        """Returns the output. *stdin* is text, or an object that is sent as JSON."""
        done = self.run(*arguments, stdin=stdin, **environment)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def error_output(self, *arguments: str, stdin: Any = None) -> str:
        """Runs a command that must fail, and returns its standard error."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 1, (
            f"kubectl {' '.join(arguments)}: {done.returncode} {done.stdout}{done.stderr}"
        )
        return done.stderr

    def run(self, *arguments: str, stdin: Any = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Runs a command with any result."""
        text = stdin if isinstance(stdin, str) else orjson.dumps(stdin).decode()
        return subprocess.run(
            [*self._command, *arguments],
            input="" if stdin is None else text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS * 2,
            env=self._environment(environment),
        )

    def command_line(self, *arguments: str) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment of a command."""
        return [*self._command, *arguments], self._environment({})

    def follow(self, *arguments: str) -> ClientProcess:
        """Starts a command that keeps running."""
        output = self._directory / f"output{len(self._started)}"
        self._started.append(ClientProcess([*self._command, *arguments], output, self._environment({})))
        return self._started[-1]

    def forward(self, target: str, port: int, *options: str) -> tuple[ClientProcess, int]:
        """Starts ``kubectl port-forward``. Returns it and its own port."""
        process = self.follow("port-forward", "--address", "127.0.0.1", *options, target, f":{port}")
        line = process.wait_for_line("Forwarding from 127.0.0.1:")
        return process, int(line.split()[2].rpartition(":")[2])

    def end(self) -> None:
        """Ends all running commands."""
        for program in self._started:
            program.end()

    def wait_succeeded(self, framework: str = "mnist") -> None:
        """Waits until the Framework has succeeded."""
        self("wait", f"fw/{framework}", "--for=condition=Succeeded", "--timeout=60s")

    def table(self, *arguments: str) -> list[list[str]]:
        """The cells of the printed table, the header row first."""
        return cells(self(*arguments))

    def _environment(self, additional: Mapping[str, str]) -> dict[str, str]:
        # Without the user's kubeconfig, editor and diff program.
        home = str(self._directory)
        environment = {"HOME": home, "TMPDIR": home, "KUBECONFIG": "/dev/null", "PATH": os.environ["PATH"]}
        return {**environment, **additional}


def cells(table: str) -> list[list[str]]:
    """Returns the rows of a table; columns are separated by three blanks or more, unless a cell is empty."""
    return [_row(line) for line in table.splitlines()]


def _row(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def fits_terminal(table: str, columns: int = 80) -> bool:
    """Whether no line of *table* is longer than a usual terminal."""
    return all(len(line) <= columns for line in table.splitlines())
