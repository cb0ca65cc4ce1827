"""Owner references of objects."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def controller_reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    """A reference to the controlling owner. Foreground deletion of the owner waits for the object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference to the controlling owner; empty if there is none."""
    return next((ref for ref in metadata.get("ownerReferences") or () if ref.get("controller")), {})


def controller_uid(obj: Mapping[str, Any]) -> str:
    """The uid of the controlling owner of *obj*; empty if there is none."""
    uid: str = controller_of(obj["metadata"]).get("uid", "")
    return uid
