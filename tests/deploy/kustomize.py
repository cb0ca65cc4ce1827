"""Objects that ``kubectl kustomize`` builds."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from deploy.generate.manifests import BASE, COMPONENTS, Object
from tests.eventually import TIMEOUT_SECONDS


def kustomize(kubectl: Path, directory: Path) -> list[Object]:
    """The objects that ``kubectl kustomize`` builds from a directory."""
    done = subprocess.run(
        [kubectl, "kustomize", directory], capture_output=True, text=True, timeout=TIMEOUT_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))


def write_kustomization(directory: Path, components: Sequence[str], **more: Any) -> Path:
    """Writes a kustomization of the base with these components, as in the documentation."""
    directory.mkdir(parents=True, exist_ok=True)
    up = Path(*[".."] * (len(directory.resolve().parts) - 1))
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # kustomize rejects absolute paths.
        "resources": [str(up / BASE.relative_to("/"))],
        "components": [str(up / (COMPONENTS / name).relative_to("/")) for name in components],
        **more,
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory
