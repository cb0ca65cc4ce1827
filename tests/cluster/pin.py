"""
Pin a Kubernetes version for the test bed: ``python -m tests.cluster.pin 1.35.4`` (needs Go and a network).

Writes ``tools/VERSION/go.mod`` and ``go.sum``, which belong into the repository; ``K8S=VERSION`` then chooses them.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cluster.build import find_go
from tests.cluster.versions import KUBERNETES, KWOK, KWOK_MODULE, KWOK_VERSION, TOOLS, Version

_KUBERNETES_MODULE = "k8s.io/kubernetes"


def pin_kubernetes(version: Version) -> None:
    """Write the module that holds the control plane of *version*."""
    upstream = _module_file(f"{_KUBERNETES_MODULE}@v{version}")
    # Kubernetes replaces its own parts by directories, and a replacement counts in the main module alone: ours names
    # the versions that were published beside that release (1.36.3 goes with 0.36.3).
    parts = sorted(one["Old"]["Path"] for one in upstream["Replace"] if one["New"]["Path"].startswith("./"))
    published = f"v0.{version.minor}.{version.patch}"
    lines = [
        "module launcher.test/kubernetes",
        f"go {upstream['Go']}",
        f"require {_KUBERNETES_MODULE} v{version}",
        *(f"replace {part} => {part} {published}" for part in parts),
        *(f"tool {package}" for package in KUBERNETES.values()),
    ]
    _write(TOOLS / str(version), lines)


def pin_kwok() -> None:
    """Write the module that holds kwok: it wants other versions of the libraries that Kubernetes has."""
    upstream = _module_file(f"{KWOK_MODULE}@v{KWOK_VERSION}")
    lines = [
        "module launcher.test/kwok",
        f"go {upstream['Go']}",
        f"require {KWOK_MODULE} v{KWOK_VERSION}",
        *(f"tool {package}" for package in KWOK.values()),
    ]
    _write(TOOLS / "kwok", lines)


def _module_file(module: str) -> Any:
    """The go.mod of *module*, as JSON."""
    download = json.loads(_go("mod", "download", "-json", module))
    return json.loads(_go("mod", "edit", "-json", download["GoMod"]))


def _write(directory: Path, lines: list[str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "go.mod").write_text("\n".join(lines) + "\n")
    (directory / "go.sum").unlink(missing_ok=True)
    _go("mod", "tidy", cwd=directory)
    _go("mod", "edit", "-fmt", cwd=directory)


def _go(*words: str, cwd: Path = TOOLS) -> str:
    go = find_go() or sys.exit("install Go first")
    return subprocess.run([go, *words], cwd=cwd, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    for word in sys.argv[1:]:
        pin_kubernetes(Version.read(word))
    pin_kwok()
