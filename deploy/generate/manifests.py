"""Reading the manifests of deploy/kubernetes."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

PROJECT = Path(__file__).parents[2]
DEPLOY = PROJECT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
BASE = KUBERNETES / "base"
COMPONENTS = KUBERNETES / "components"
OVERLAYS = KUBERNETES / "overlays"

Object = dict[str, Any]


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    return str(project["project"]["version"])


def read(path: Path) -> list[Any]:
    """The documents of one file."""
    return list(yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader))


def kustomization(directory: Path) -> Object:
    """The kustomization of a directory."""
    (found,) = read(directory / "kustomization.yaml")
    return dict(found)


def base_objects() -> list[Object]:
    """The objects of the base."""
    return [obj for name in kustomization(BASE)["resources"] for obj in read(BASE / name)]


def named(objects: Sequence[Object], kind: str, name: str) -> Object:
    """The object of that kind and name."""
    (found,) = [obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"] == name]
    return found
