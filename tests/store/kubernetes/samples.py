"""Objects that a server which checks them takes."""

from typing import Any

from launcher.store.interface import Object
from tests.core import manifests


def a_framework(name: str = "mnist", **metadata: Any) -> Object:
    """A valid Framework of one role, in the namespace ``default``."""
    obj = manifests.a_framework(name=name)
    return {**obj, "metadata": {**obj["metadata"], "namespace": "default", **metadata}}
