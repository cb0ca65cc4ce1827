"""AdmissionReviews as kube-apiserver sends them, and the patches in responses."""

from base64 import b64decode
from typing import Any

import orjson

from launcher.store.patch import apply_json_patch

Json = dict[str, Any]

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def a_request(obj: Json | None, old: Json | None = None, **fields: Any) -> Json:
    """Returns the request of a review: a creation, or an update of *old*."""
    name = (obj or old or {}).get("metadata", {}).get("name", "")
    kind = {"group": "launcher.microsoft.com", "version": "v1", "kind": "Framework"}
    resource = {"group": "launcher.microsoft.com", "version": "v1", "resource": "frameworks"}
    options = "CreateOptions" if old is None else "UpdateOptions"
    return {
        "uid": UID,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": name,
        "namespace": "default",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:masters"]},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        "options": {"kind": options, "apiVersion": "meta.k8s.io/v1"},
        **fields,
    }


def a_review(obj: Json | None, old: Json | None = None, **fields: Any) -> Json:
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": a_request(obj, old, **fields),
    }


def options(validation: str, kind: str = "CreateOptions") -> Json:
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", "fieldValidation": validation}


def patch_in(response: Json) -> list[Json]:
    """Returns the JSON patch in a response."""
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    operations: list[Json] = orjson.loads(b64decode(response["patch"]))
    return operations


def applied(obj: Json, response: Json) -> Json:
    """Returns the object with the JSON patch of a response."""
    apply_patch: Json = apply_json_patch(obj, patch_in(response))
    return apply_patch
