"""What stands in deploy/kubernetes, and what kustomize makes of it."""

import subprocess
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.local.server import PATIENCE, PROJECT

DEPLOY = PROJECT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
COMPONENTS = KUBERNETES / "components"
OVERLAYS = KUBERNETES / "overlays"

Object = dict[str, Any]


def version() -> str:
    """The project's."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return str(project["project"]["version"])


def read(path: Path) -> list[Any]:
    """The documents of one file."""
    return list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))


def kustomization(directory: Path) -> Object:
    """What kustomize is told there."""
    (told,) = read(directory / "kustomization.yaml")
    return dict(told)


def base_objects() -> list[Object]:
    """Everything that the base is made of."""
    return [obj for name in kustomization(BASE)["resources"] for obj in read(BASE / name)]


def named(objects: Sequence[Object], kind: str, name: str) -> Object:
    """The one of that name."""
    (found,) = [obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"] == name]
    return found


def built(kubectl: Path, directory: Path) -> list[Object]:
    """What ``kubectl kustomize`` makes of a directory."""
    done = subprocess.run([kubectl, "kustomize", directory], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))


def composed(directory: Path, components: Sequence[str], **more: Any) -> Path:
    """A kustomization of one's own: the base with these components, as the README shows it."""
    directory.mkdir(parents=True, exist_ok=True)
    up = Path(*[".."] * (len(directory.resolve().parts) - 1))
    told = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # kustomize takes no absolute paths.
        "resources": [str(up / BASE.relative_to("/"))],
        "components": [str(up / (COMPONENTS / name).relative_to("/")) for name in components],
        **more,
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(told))
    return directory
