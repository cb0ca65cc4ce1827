"""
Reads commands and templates from the documents of other systems.

The documents are read from a directory next to the project; without them, their tests are skipped.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.core.manifests import SEEDS
from tests.eventually import TIMEOUT_SECONDS

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(document: str, language: str | None = None) -> list[str]:
    """The code blocks of the documents whose name begins with *document*, optionally of one *language*."""
    texts = [path.read_text() for path in sorted(SEEDS.glob(f"{document}_*.txt"))]
    if not texts:
        pytest.skip(f"the document is not there: {SEEDS} has no {document}_*.txt")
    found = [piece for text in texts for piece in _FENCED.findall(text)]
    return [piece for name, piece in found if language in (None, name)]


def command(document: str, beginning: str) -> str:
    """The command that begins with *beginning*, with its continuation lines and without the prompt."""
    for block in blocks(document):
        lines = iter(block.splitlines())
        for line in lines:
            typed = re.sub(r"^[$#] ", "", line)
            if not typed.startswith(beginning):
                continue
            found = [typed]
            while found[-1].endswith("\\"):
                found.append(next(lines))
            return "\n".join(found)
    raise AssertionError(f"{document} prints no command that begins with {beginning!r}")


class Shell:
    """A user's shell in which the launcher is also installed under its other names."""

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        programs = home / "bin"
        programs.mkdir(parents=True)
        for name in ("arena", "simpletfjob", "launcher"):
            (programs / name).symlink_to(Path(sys.executable).parent / "launcher")
        self._home = home
        self._variables = {
            "HOME": str(home),
            "PATH": f"{programs}:{os.environ['PATH']}",
            "KUBECONFIG": "/dev/null",
            **variables,
        }

    def __call__(self, text: str) -> str:
        """Runs *text* and returns its output."""
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self._home,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS * 2,
        )
        assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}"
        return done.stdout
