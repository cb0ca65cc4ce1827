"""persistentVolumeClaim volumes: nobody makes volumes on this machine, so a directory stands in for each claim."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launcher.node.volumes.volumefault import CannotMount


def claimed(volume: Mapping[str, Any], stand_ins: Mapping[str, Path]) -> Path:
    """The directory that stands in for the claim. Raises CannotMount."""
    name = volume.get("claimName", "")
    path = stand_ins.get(name)
    if path is None:
        raise CannotMount(
            f"there are no volumes to claim on this machine; start the launcher with --claim {name}=DIR to let a "
            "directory stand in for it"
        )
    if not path.is_dir():
        raise CannotMount(f"{path}, which stands in for the claim {name}, is not a directory")
    return Path(os.path.realpath(path))
