"""kubectl, the real program, as somebody types it in one namespace."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from tests.clients.program import Program
from tests.local.server import PATIENCE

HOW_TO_GET_IT = "kubectl is not installed; https://kubernetes.io/docs/tasks/tools/ says how to get it"


def installed() -> list[str]:
    """The kubectl that a user of this machine gets, if any, then the oldest and the newest one beside it."""
    first = shutil.which("kubectl")
    if first is None:
        return []
    beside = sorted(Path(first).resolve().parent.glob("kubectl.1.*"))
    return [first, *map(str, dict.fromkeys([*beside[:1], *beside[-1:]]))]


class Kubectl:
    """kubectl with one server and one namespace."""

    def __init__(self, program: str, url: str, namespace: str, directory: Path, cache: Path) -> None:
        """*directory* is empty and stands for the user's home; *cache* is what calls may share."""
        self._command = [program, f"--server={url}", f"--namespace={namespace}", f"--cache-dir={cache}"]
        self._directory = directory
        self._started: list[Program] = []

    def __call__(self, *words: str, given: Any = None, **environment: str) -> str:
        """What it prints. *given* is its standard input: text, or an object that becomes JSON."""
        done = self.run(*words, given=given, **environment)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def refused(self, *words: str, given: Any = None) -> str:
        """Its complaint, when it must not succeed."""
        done = self.run(*words, given=given)
        assert done.returncode == 1, (
            f"kubectl {' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}"
        )
        return done.stderr

    def run(self, *words: str, given: Any = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """The call, however it ends."""
        text = given if isinstance(given, str) else orjson.dumps(given).decode()
        return subprocess.run(
            [*self._command, *words],
            input="" if given is None else text,
            capture_output=True,
            text=True,
            timeout=PATIENCE * 2,
            env=self._environment(environment),
        )

    def follow(self, *words: str) -> Program:
        """A call that goes on by itself."""
        output = self._directory / f"output{len(self._started)}"
        self._started.append(Program([*self._command, *words], output, self._environment({})))
        return self._started[-1]

    def end(self) -> None:
        """End every call that goes on."""
        for program in self._started:
            program.end()

    def table(self, *words: str) -> list[list[str]]:
        """The rows that it prints, the headings first, cell by cell."""
        return cells(self(*words))

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        # Neither this user's clusters nor this user's ways of editing and comparing.
        home = str(self._directory)
        ours = {"HOME": home, "TMPDIR": home, "KUBECONFIG": "/dev/null", "PATH": os.environ["PATH"]}
        return {**ours, **more}


def cells(table: str) -> list[list[str]]:
    """The rows of a printed table; columns stand three blanks or more apart, unless a cell is empty."""
    return [_row(line) for line in table.splitlines()]


def _row(line: str) -> list[str]:
    return re.split(r"\s{2,}", line.strip())


def fits(table: str, columns: int = 80) -> bool:
    """Whether no line of *table* is longer than a usual terminal."""
    return all(len(line) <= columns for line in table.splitlines())
