"""The CRDs of gang schedulers, from the modules that tools/gangs pins."""

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import yaml

from tests.cluster.build import NoGo, find_go
from tests.cluster.controlplane import ControlPlane
from tests.cluster.versions import TOOLS

_MODULE = TOOLS / "gangs"
#: Where each module has the CRDs that the launcher uses.
_CRDS = {
    "volcano.sh/volcano": ("config/crd/volcano/bases", ("scheduling.volcano.sh_podgroups.yaml",)),
    "sigs.k8s.io/scheduler-plugins": ("config/crd/bases", ("scheduling.x-k8s.io_podgroups.yaml",)),
    "sigs.k8s.io/kueue": (
        "config/components/crd/bases",
        ("kueue.x-k8s.io_localqueues.yaml", "kueue.x-k8s.io_workloads.yaml"),
    ),
}
_DOWNLOAD_SECONDS = 300.0


class NotDownloaded(Exception):
    """A module cannot be downloaded; the message has the reason."""


def crds_of(module: str) -> Sequence[Path]:
    """The CRD files of *module*, downloaded if necessary. Raises NoGo, NotDownloaded."""
    go = find_go()
    if go is None:
        raise NoGo(f"the CRDs of {module} cannot be downloaded: Go is not installed")
    found = re.search(rf"^\s{re.escape(module)} (v\S+)$", (_MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, f"{module} is not pinned in {_MODULE}"
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{module}@{found[1]}"],
        cwd=_MODULE,
        capture_output=True,
        text=True,
        timeout=_DOWNLOAD_SECONDS,
    )
    if done.returncode:
        reason = (json.loads(done.stdout) if done.stdout else {}).get("Error") or done.stderr
        assert "SECURITY ERROR" not in reason, reason
        raise NotDownloaded(f"the CRDs of {module} cannot be downloaded: {reason}")
    directory, names = _CRDS[module]
    return [Path(json.loads(done.stdout)["Dir"]) / directory / name for name in names]


def define(plane: ControlPlane, files: Sequence[Path]) -> None:
    """Apply these CRDs, and return when the API server serves them."""
    options = [f"--filename={file}" for file in files]
    plane.kubectl("apply", "--server-side", *options)
    for file in files:
        spec = yaml.safe_load(file.read_text())["spec"]
        for version in spec["versions"]:
            plane.until_served(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")
