"""The informer, built from its Go source once and kept for the next time."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import pytest

from tests.local.server import PROJECT

SOURCE = Path(__file__).parent / "informer"
KEPT = PROJECT / "build" / "informer"
#: Seconds that the download and the build may take, each: some 15 and 30 on two cores.
LIMIT = 300


def informer() -> Path:
    """The program. Where it can be neither found nor built, the test is left out and says why."""
    program = KEPT / _digest() / "informer"
    if program.exists():
        return program
    if shutil.which("go") is None:
        pytest.skip("Go is not installed; https://go.dev/doc/install says how to get it")
    program.parent.mkdir(parents=True, exist_ok=True)
    with _alone(program.parent / "lock"):
        if not program.exists():
            _build(program)
    return program


def _build(program: Path) -> None:
    if (fetched := _go("mod", "download")).returncode:
        pytest.skip(f"the informer's modules cannot be fetched: {fetched.stderr.strip()}")
    unfinished = program.with_suffix(f".{os.getpid()}")
    built = _go("build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(unfinished), ".")
    assert built.returncode == 0, built.stderr
    unfinished.rename(program)


def _go(*words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    return subprocess.run(
        ["go", *words], cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=LIMIT
    )


def _digest() -> str:
    """Tells one state of the source from another."""
    content = b"\0".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    return blake2b(content, digest_size=8).hexdigest()


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Inside, no other worker builds."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
