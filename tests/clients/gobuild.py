"""The informer, built from its Go source and cached."""

import os
import subprocess
from hashlib import blake2b
from pathlib import Path

from tests.cluster.build import NoGo, find_go, locked
from tests.cluster.versions import PROJECT

SOURCE = Path(__file__).parent / "informer"
CACHE = PROJECT / "build" / "informer"
#: The time limit of the download and of the build, which take about 15 and 30 seconds on two cores.
BUILD_SECONDS = 300


def informer() -> Path:
    """Returns the program, and builds it if necessary. Raises NoGo."""
    program = CACHE / _digest() / "informer"
    if program.exists():
        return program
    go = find_go()
    if go is None:
        raise NoGo("the informer is not built, and Go is not installed: https://go.dev/doc/install")
    program.parent.mkdir(parents=True, exist_ok=True)
    with locked(program.parent / "lock"):
        if not program.exists():
            _build(go, program)
    return program


def _build(go: str, program: Path) -> None:
    downloaded = _run(go, "mod", "download")
    assert downloaded.returncode == 0, downloaded.stderr
    unfinished = program.with_suffix(f".{os.getpid()}")
    built = _run(go, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", str(unfinished), ".")
    assert built.returncode == 0, built.stderr
    unfinished.rename(program)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CGO_ENABLED": "0"}
    return subprocess.run(
        arguments, cwd=SOURCE, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
    )


def _digest() -> str:
    """Returns a hash of the source."""
    content = b"\0".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go"))
    return blake2b(content, digest_size=8).hexdigest()
