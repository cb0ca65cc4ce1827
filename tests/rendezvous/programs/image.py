"""An image with a shell and a few tools: a search path on which there is nothing else."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

#: What every image with a shell has.
_BASE = ("cat", "chmod", "date", "env", "grep", "mkdir", "mktemp", "mv", "rm", "sed", "sleep", "sort", "true")
#: The shells that programs are run by: this machine's own, and bash. ``make test-node`` runs them by busybox's, too.
SHELLS = ("sh", "bash")
#: What can ask the launcher.
ASKERS = ("curl", "python3", "wget", "busybox wget")
#: Seconds that a program may take: far more than it does, even on a busy machine.
PATIENCE = 60.0


@dataclass(slots=True)
class Image:
    """Where programs are run."""

    shell: Sequence[str]
    path: Path
    directory: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, script: str, *words: str, **variables: str) -> subprocess.Popen[str]:
        """The shell, just started on the script, as ``sh -c`` has it."""
        return subprocess.Popen(
            [*self.shell, "-c", script, *words],
            env={
                "PATH": str(self.path),
                # Nobody answers there: a program that goes that way comes to nothing.
                "http_proxy": "http://127.0.0.1:9",
                "https_proxy": "http://127.0.0.1:9",
                **self.environment,
                **variables,
            },
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """How it ended."""
        with self.start(script, *words, **variables) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def an_image(
    directory: Path, *tools: str, shell: str = "sh", environment: Mapping[str, str] | None = None
) -> Image:
    """An image with these tools; a test that needs one which is not on this machine is left out, and says so."""
    path, work = directory / "bin", directory / "work"
    path.mkdir(parents=True)
    work.mkdir()
    _put(path, "sh", found(shell))
    for tool in _BASE:
        _put(path, tool, found(tool))
    for tool in tools:
        if tool == "python3":
            _put(path, tool, Path(sys.executable).resolve())
        elif tool.startswith("busybox "):
            _put_stand_in(path, tool.removeprefix("busybox "))
        else:
            _put(path, tool, found(tool))
    return Image((str(found(shell)),), path, work, dict(environment or {}))


def found(tool: str) -> Path:
    """Where it is on this machine."""
    place = shutil.which(tool, path=os.environ["PATH"])
    if place is None:
        pytest.skip(f"{tool} is not on this machine")
    return Path(place).resolve()


def _put_stand_in(path: Path, name: str) -> None:
    """Put in the stand-in for that tool of busybox; its interpreter has the tool's name in lists of processes."""
    interpreter = path.parent / f"{name}-python"
    interpreter.symlink_to(Path(sys.executable).resolve())
    program = path / name
    program.write_text(f"#!{interpreter} -I\n{Path(__file__).with_name(f'busybox_{name}.py').read_text()}")
    program.chmod(0o755)


def _put(path: Path, name: str, program: Path) -> None:
    (path / name).symlink_to(program)
