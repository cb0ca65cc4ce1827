"""Events that are recorded for users, beside the status."""

from dataclasses import dataclass
from typing import Any

from launcher.core.names import API_VERSION, KIND


@dataclass(frozen=True, slots=True)
class ObjectEvent:
    """The content of a Kubernetes event about one object."""

    reason: str
    message: str
    warning: bool = False


def framework_reference(namespace: str, name: str, uid: str) -> dict[str, Any]:
    """Returns what an event needs of the Framework that it is about."""
    metadata = {"namespace": namespace, "name": name, "uid": uid}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata}
