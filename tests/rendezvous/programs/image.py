"""A fake image with a shell and a few tools: a search path that contains nothing else. Its clock skips all sleeps."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.eventually import TIMEOUT_SECONDS

#: The tools of every image with a shell.
_BASE = ("cat", "chmod", "env", "grep", "mkdir", "mktemp", "mv", "rm", "sed", "sort", "true")
#: The shells of this machine that run the programs. ``make test-node`` runs them with that of busybox, too.
SHELLS = ("sh", "bash")
#: The tools that send requests to the launcher.
HTTP_CLIENTS = ("curl", "python3", "wget", "busybox wget")
#: `sleep SECONDS` returns soon, and from then on `date +%s` prints a time that is later by so many seconds.
_SLEEP = """#!{sh}
read -r skipped <{file}
echo $((skipped + $1)) >{file}
exec {sleep} 0.01
"""
_DATE = """#!{sh}
[ "$*" = +%s ] || exit 1
read -r skipped <{file}
echo $(($({date} +%s) + skipped))
"""


@dataclass(frozen=True, slots=True)
class ProgramImage:
    """A shell, its search path and its working directory."""

    shell: Path
    path: Path
    directory: Path

    def start(self, script: str, *args: str, **variables: str) -> subprocess.Popen[str]:
        """Starts the shell with ``-c``."""
        return subprocess.Popen(
            [self.shell, "-c", script, *args],
            env={
                "PATH": str(self.path),
                # Nothing listens there: programs must not use a proxy.
                "http_proxy": "http://127.0.0.1:9",
                "https_proxy": "http://127.0.0.1:9",
                **variables,
            },
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, script: str, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs the shell with ``-c``."""
        with self.start(script, *args, **variables) as process:
            try:
                stdout, stderr = process.communicate(timeout=TIMEOUT_SECONDS)
            finally:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def an_image(directory: Path, *tools: str, shell: str = "sh") -> ProgramImage:
    """An image with these tools. Skips the test, with a message, if this machine does not have one of them."""
    path, work_dir = directory / "bin", directory / "work"
    path.mkdir(parents=True)
    work_dir.mkdir()
    (path / "sh").symlink_to(_find(shell))
    _install_clock(path, directory / "skipped-seconds")
    for tool in (*_BASE, *tools):
        if tool == "python3":
            (path / tool).symlink_to(Path(sys.executable).resolve())
        elif tool.startswith("busybox "):
            _install_fake(path, tool.removeprefix("busybox "))
        else:
            (path / tool).symlink_to(_find(tool))
    return ProgramImage(_find(shell), path, work_dir)


def _find(tool: str) -> Path:
    """The path of a tool of this machine."""
    path = shutil.which(tool, path=os.environ["PATH"])
    if path is None:
        pytest.skip(f"{tool} is not on this machine")
    return Path(path).resolve()


def _install_clock(path: Path, file: Path) -> None:
    file.write_text("0\n")
    tools = {tool: _find(tool) for tool in ("sh", "sleep", "date")}
    for name, text in {"sleep": _SLEEP, "date": _DATE}.items():
        (path / name).write_text(text.format(file=file, **tools))
        (path / name).chmod(0o755)


def _install_fake(path: Path, name: str) -> None:
    """Install the fake of a tool of busybox. Its interpreter has the name of the tool in lists of processes."""
    interpreter = path.parent / f"{name}-python"
    interpreter.symlink_to(Path(sys.executable).resolve())
    program = path / name
    program.write_text(f"#!{interpreter} -I\n{Path(__file__).with_name(f'busybox_{name}.py').read_text()}")
    program.chmod(0o755)
