"""The kinds of those who place gangs, as their own projects define them: from the modules that tools/gangs pins."""

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
#: Where each module keeps the definitions that the launcher meets.
_CRDS = {
    "volcano.sh/volcano": ("config/crd/volcano/bases", ("scheduling.volcano.sh_podgroups.yaml",)),
    "sigs.k8s.io/scheduler-plugins": ("config/crd/bases", ("scheduling.x-k8s.io_podgroups.yaml",)),
    "sigs.k8s.io/kueue": (
        "config/components/crd/bases",
        ("kueue.x-k8s.io_localqueues.yaml", "kueue.x-k8s.io_workloads.yaml"),
    ),
}
#: Seconds that a module may take to come over the network, once.
_DOWNLOAD = 300.0


class NotDownloaded(Exception):
    """A module cannot be had here; the message says why."""


def crds_of(module: str) -> Sequence[Path]:
    """The files that define the kinds of *module*, downloaded unless they have been. Raises NoGo, NotDownloaded."""
    go = find_go()
    if go is None:
        raise NoGo(f"left out what needs the kinds of {module}: there is no Go to download it with")
    found = re.search(rf"^\s{re.escape(module)} (v\S+)$", (_MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, f"{module} is not pinned in {_MODULE}"
    done = subprocess.run(
        [go, "mod", "download", "-json", f"{module}@{found[1]}"],
        cwd=_MODULE,
        capture_output=True,
        text=True,
        timeout=_DOWNLOAD,
    )
    if done.returncode:
        why = (json.loads(done.stdout) if done.stdout else {}).get("Error") or done.stderr
        assert "SECURITY ERROR" not in why, why
        raise NotDownloaded(f"left out what needs the kinds of {module}: {why}")
    directory, names = _CRDS[module]
    return [Path(json.loads(done.stdout)["Dir"]) / directory / name for name in names]


def define(plane: ControlPlane, files: Sequence[Path]) -> None:
    """Apply these definitions, and return when the API server serves their kinds."""
    words = [f"--filename={file}" for file in files]
    plane.kubectl("apply", "--server-side", *words)
    for file in files:
        spec = yaml.safe_load(file.read_text())["spec"]
        for version in spec["versions"]:
            plane.until_served(f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}")
