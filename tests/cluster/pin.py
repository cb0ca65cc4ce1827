"""
Pin a Kubernetes version for the test bed: ``python -m tests.cluster.pin 1.35.4`` (needs Go and a network).

Writes ``go.mod`` and ``go.sum`` below ``tools/VERSION``, which are committed; ``K8S=VERSION`` then selects them.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.cluster.build import find_go
from tests.cluster.versions import (
    HELM,
    HELM_MODULE,
    HELM_VERSION,
    KUBERNETES,
    KWOK,
    KWOK_MODULE,
    KWOK_VERSION,
    METRICS_SERVER,
    METRICS_SERVER_MODULE,
    METRICS_SERVER_VERSION,
    NODE,
    TOOLS,
    Version,
)

_KUBERNETES_MODULE = "k8s.io/kubernetes"


def pin_kubernetes(version: Version) -> None:
    """Write the Go modules of the control plane and the node programs of *version*."""
    upstream = _module_file(f"{_KUBERNETES_MODULE}@v{version}")
    # Kubernetes replaces its staging modules by directories, and replacements apply in the main module only: this one
    # uses the versions that were published for the release (0.36.3 for 1.36.3).
    parts = sorted(one["Old"]["Path"] for one in upstream["Replace"] if one["New"]["Path"].startswith("./"))
    published = f"v0.{version.minor}.{version.patch}"
    lines = [
        f"go {upstream['Go']}",
        f"require {_KUBERNETES_MODULE} v{version}",
        *(f"replace {part} => {part} {published}" for part in parts),
    ]
    release = TOOLS / str(version)
    for name, directory, programs in (("kubernetes", release, KUBERNETES), ("node", release / "node", NODE)):
        tools = [f"tool {package}" for package in programs.values()]
        _write(directory, [f"module launcher.test/{name}", *lines, *tools])


def pin_kwok() -> None:
    """Write the Go module of kwok, which requires other versions of the libraries of Kubernetes."""
    _pin("kwok", KWOK_MODULE, KWOK_VERSION, KWOK)


def pin_helm() -> None:
    """Write the Go module of Helm, which requires other versions of those libraries, too."""
    _pin("helm", HELM_MODULE, HELM_VERSION, HELM)


def pin_metrics_server() -> None:
    """Write the Go module of metrics-server."""
    _pin("metrics-server", METRICS_SERVER_MODULE, METRICS_SERVER_VERSION, METRICS_SERVER)


def _pin(name: str, module: str, version: str, programs: Mapping[str, str]) -> None:
    upstream = _module_file(f"{module}@v{version}")
    lines = [
        f"module launcher.test/{name}",
        f"go {upstream['Go']}",
        f"require {module} v{version}",
        *(f"tool {package}" for package in programs.values()),
    ]
    _write(TOOLS / name, lines)


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


def _go(*arguments: str, cwd: Path = TOOLS) -> str:
    go = find_go() or sys.exit("install Go first")
    return subprocess.run([go, *arguments], cwd=cwd, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        pin_kubernetes(Version.read(argument))
    pin_kwok()
    pin_helm()
    pin_metrics_server()
