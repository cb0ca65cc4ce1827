"""Who an object belongs to: the reference to its owner, written and read."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def controller_reference(api_version: str, kind: str, name: str, uid: str) -> Json:
    """A reference to the owner that decides over an object; deleted in the foreground, it goes after the object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def controller_of(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The reference to the owner that decides over an object; empty if it has none."""
    return next((ref for ref in metadata.get("ownerReferences") or () if ref.get("controller")), {})
