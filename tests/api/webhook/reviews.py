"""AdmissionReviews as a kube-apiserver sends them, and what its answers come to."""

from base64 import b64decode
from typing import Any

import orjson

from launcher.store.patch import operated

Json = dict[str, Any]

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def a_request(obj: Json | None, old: Json | None = None, **fields: Any) -> Json:
    """What is asked: a creation, or a change of *old*."""
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
    """The operations that an answer asks for."""
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    operations: list[Json] = orjson.loads(b64decode(response["patch"]))
    return operations


def applied(obj: Json, response: Json) -> Json:
    """The object after what an answer asks for."""
    patched: Json = operated(obj, patch_in(response))
    return patched
