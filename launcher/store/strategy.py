"""
The effect of each verb on an object, as in kube-apiserver. Pure functions.

``resourceVersion`` is compared here but never set: the store assigns versions. The store also detects writes without
changes.
"""

import hashlib
from typing import Any

import orjson

from launcher.core.errors import BadRequest, Conflict, FieldError, InvalidObject
from launcher.core.json_access import as_list, as_object
from launcher.core.pods.observed_pod import has_terminated, is_deleted, node_name
from launcher.core.timestamps import format_rfc3339, parse_rfc3339
from launcher.store.interface import (
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    DeleteOptions,
    Object,
    Propagation,
    ResourceKind,
)
from launcher.store.object_metadata import SERVER_FIELDS, metadata_errors, normalize_metadata

#: Initial status; other kinds have none.
_FIRST_STATUS: dict[str, Object] = {PODS.kind: {"phase": "Pending"}, NAMESPACES.kind: {"phase": "Active"}}
_DEFAULT_GRACE_SECONDS = 30
#: Longer than any real grace period, and small enough for the result to be a valid date.
_MAX_GRACE_SECONDS = 2**31 - 1
_GENERATED_BASE = 58
#: No vowels, to avoid words, and no characters that are easily confused.
_GENERATED_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_LENGTH = 5
#: Removed by the namespace controller when the namespace is empty.
NAMESPACE_FINALIZER = "kubernetes"
_PROPAGATION_FINALIZERS = {Propagation.FOREGROUND: "foregroundDeletion", Propagation.ORPHAN: "orphan"}


def normalize(kind: ResourceKind, obj: Object) -> Object:
    """Returns a copy with normalized metadata. Raises BadRequest, or InvalidObject if it is of another kind."""
    if not isinstance(obj, dict):
        raise BadRequest(f"a {kind.kind} must be an object")
    if obj.get("apiVersion") != kind.api_version:
        raise BadRequest(f"apiVersion must be {kind.api_version!r}, not {obj.get('apiVersion')!r}")
    if "kind" not in obj:
        raise BadRequest(f"kind is missing; must be {kind.kind!r}")
    if obj["kind"] != kind.kind:
        raise InvalidObject((FieldError("kind", f'Invalid value: "{obj["kind"]}": must be {kind.kind}'),))
    metadata = normalize_metadata(obj.get("metadata", {}))
    if kind != FRAMEWORKS:
        metadata.pop("managedFields", None)  # fields of other kinds have no managers
    if kind.namespaced and "namespace" not in metadata:
        raise BadRequest("metadata.namespace is missing")
    if not kind.namespaced and "namespace" in metadata:
        raise BadRequest(f"metadata.namespace must not be set: a {kind.kind} has none")
    return {**obj, "metadata": metadata}


def normalize_existing(kind: ResourceKind, obj: Object) -> Object:
    """Like ``normalize``, for an object that must exist. Raises BadRequest if it has no name."""
    obj = normalize(kind, obj)
    if "name" not in obj["metadata"]:
        raise BadRequest("metadata.name is missing")
    return obj


def prepare_create(kind: ResourceKind, obj: Object, *, uid: str, now: float) -> Object:
    """Returns the new object. A generated name depends on *uid*."""
    obj = normalize(kind, obj)
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        raise BadRequest("metadata.resourceVersion must not be set on an object to be created")
    for field in SERVER_FIELDS:
        if field in metadata:
            del metadata[field]
    if "name" not in metadata and "generateName" in metadata:
        metadata["name"] = metadata["generateName"][:_GENERATED_BASE] + _suffix(uid)
    _raise_if_any(metadata_errors(kind, metadata))
    metadata["uid"] = uid
    metadata["creationTimestamp"] = timestamp(now)
    metadata["generation"] = 1
    if kind == NAMESPACES:
        metadata["finalizers"] = [*metadata.get("finalizers", []), NAMESPACE_FINALIZER]
    # A node is created with its status, by its agent.
    if kind.kind != NODES.kind:
        obj.pop("status", None)
        if first := _FIRST_STATUS.get(kind.kind):
            obj["status"] = dict(first)
    return obj


def _suffix(uid: str) -> str:
    number = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8])
    letters = ""
    for _ in range(_GENERATED_LENGTH):
        number, rest = divmod(number, len(_GENERATED_LETTERS))
        letters += _GENERATED_LETTERS[rest]
    return letters


def prepare_update(kind: ResourceKind, stored: Object, obj: Object) -> Object:
    """Replaces all but the status. Raises Conflict if *obj* is not based on the stored version."""
    _check_unchanged(kind, stored, obj["metadata"])
    return _replace(kind, stored, obj)


def prepare_patch(kind: ResourceKind, stored: Object, obj: Object) -> Object:
    """Replaces all but the status by the result of a patch."""
    _check_identity(stored, obj["metadata"])
    _check_version(kind, stored, obj["metadata"])
    if obj["metadata"].get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
        raise InvalidObject((_immutable("metadata.uid", obj["metadata"]["uid"]),))
    return _replace(kind, stored, obj)


def with_scheduled_condition(kind: ResourceKind, stored: Object, obj: Object, now: float) -> Object:
    """Returns *obj*; a pod that has just been bound gets its PodScheduled condition."""
    if kind != PODS or not node_name(obj) or node_name(stored):
        return obj
    status = as_object(obj.get("status"))
    others = [
        condition
        for condition in as_list(status.get("conditions"))
        if as_object(condition).get("type") != "PodScheduled"
    ]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(now)}
    return {**obj, "status": {**status, "conditions": [*others, scheduled]}}


def prepare_status_update(kind: ResourceKind, stored: Object, obj: Object) -> Any:
    """Returns the new status or None. Raises Conflict if *obj* is not based on the stored version."""
    _check_unchanged(kind, stored, obj["metadata"])
    return obj.get("status")


def prepare_status_patch(kind: ResourceKind, stored: Object, obj: Object) -> Any:
    """Returns the status after a patch, or None."""
    metadata = obj["metadata"]
    _check_identity(stored, metadata)
    _check_version(kind, stored, metadata)
    return obj.get("status")


def _check_unchanged(kind: ResourceKind, stored: Object, metadata: Object) -> None:
    if metadata.get("resourceVersion", "0") == "0":
        message = (
            "Invalid value: 0: must be specified for an update: read the object and send it with your changes,"
            " or send a patch"
        )
        raise InvalidObject((FieldError("metadata.resourceVersion", message),))
    _check_version(kind, stored, metadata)
    if metadata.get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
        raise Conflict(
            f"{_operation_failed(kind, stored)}: its uid differs: it is another object of the same name"
        )


def _check_version(kind: ResourceKind, stored: Object, metadata: Object) -> None:
    version = metadata.get("resourceVersion", "0")
    if not version.isascii() or not version.isdigit():
        raise BadRequest(f"metadata.resourceVersion must be a number, not {version!r}")
    if version not in ("0", stored["metadata"]["resourceVersion"]):
        raise Conflict(
            f"{_operation_failed(kind, stored)}: the object has been modified; "
            "please apply your changes to the latest version and try again"
        )


def _check_identity(stored: Object, metadata: Object) -> None:
    for field in ("name", "namespace"):
        if metadata.get(field) != stored["metadata"].get(field):
            raise BadRequest(f"metadata.{field} cannot be changed")


def _operation_failed(kind: ResourceKind, stored: Object) -> str:
    return f'Operation cannot be fulfilled on {kind.resource} "{stored["metadata"]["name"]}"'


def _immutable(field: str, value: object) -> FieldError:
    return FieldError(field, f'Invalid value: "{value}": field is immutable')


def _replace(kind: ResourceKind, stored: Object, obj: Object) -> Object:
    """Replaces *stored* by *obj* but keeps the fields that only the store sets."""
    old, new = stored["metadata"], obj["metadata"]
    errors = [
        _immutable(f"metadata.{field}", new[field])
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if field in new and new[field] != old.get(field)
    ]
    if "deletionTimestamp" in old:
        added = [name for name in new.get("finalizers", []) if name not in old.get("finalizers", [])]
        errors += [
            FieldError(
                "metadata.finalizers",
                f'Forbidden: no new finalizer can be added while the object is being deleted: "{name}"',
                "FieldValueForbidden",
            )
            for name in added
        ]
    if found := metadata_errors(kind, new):
        # A stored object may violate newer rules; it must still be possible to change and delete it.
        existing = metadata_errors(kind, old)
        errors += [error for error in found if error not in existing]
    _raise_if_any(errors)
    for field in SERVER_FIELDS:
        new.pop(field, None)
        if field in old:
            new[field] = old[field]
    if "generateName" in old:
        new.setdefault("generateName", old["generateName"])
    obj.pop("status", None)
    if "status" in stored:
        obj["status"] = stored["status"]
    if _desired_state(obj) != _desired_state(stored):
        new["generation"] = old["generation"] + 1
    return obj


def _raise_if_any(errors: list[FieldError]) -> None:
    if errors:
        raise InvalidObject(tuple(errors))


def _desired_state(obj: Object) -> bytes:
    """Returns all but metadata and status as canonical JSON: in Python, 1 equals true."""
    return canonical_json({key: value for key, value in obj.items() if key not in ("metadata", "status")})


def canonical_json(value: Any) -> bytes:
    """Returns canonical JSON: equal bytes mean equal values. Raises BadRequest if it is not JSON."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise BadRequest(f"not valid JSON: {error}") from None


def prepare_delete(kind: ResourceKind, stored: Object, options: DeleteOptions, now: float) -> Object | None:
    """Returns the object while it waits for finalizers or grace, or None if it can be removed now."""
    old = stored["metadata"]
    _check_preconditions(kind, stored, options)
    finalizers = _finalizers_of_deletion(old.get("finalizers", []), options.propagation)
    deletion_timestamp, grace = _deletion_time(kind, stored, options.grace, now)
    if not finalizers and grace == 0:
        return None
    new = {key: value for key, value in old.items() if key != "finalizers"}
    if finalizers:
        new["finalizers"] = finalizers
    new |= {"deletionTimestamp": deletion_timestamp, "deletionGracePeriodSeconds": grace}
    if "deletionTimestamp" not in old:
        new["generation"] = old["generation"] + 1
    if kind == NAMESPACES:
        return {
            **stored,
            "metadata": new,
            "status": {**as_object(stored.get("status")), "phase": "Terminating"},
        }
    return {**stored, "metadata": new}


def can_be_removed(obj: Object) -> bool:
    """Whether the object was deleted and neither finalizers nor grace remain."""
    metadata = obj["metadata"]
    return is_deleted(obj) and not metadata.get("finalizers") and metadata["deletionGracePeriodSeconds"] == 0


def _check_preconditions(kind: ResourceKind, stored: Object, options: DeleteOptions) -> None:
    metadata = stored["metadata"]
    for field, expected, found in (
        ("uid", options.uid, metadata["uid"]),
        ("resourceVersion", options.version, int(metadata["resourceVersion"])),
    ):
        if expected is not None and expected != found:
            raise Conflict(
                f"{_operation_failed(kind, stored)}: its {field} is {found}, and was expected to be {expected}"
            )


def _finalizers_of_deletion(finalizers: list[str], propagation: Propagation | None) -> list[str]:
    if propagation is None:
        return finalizers
    remaining = [name for name in finalizers if name not in _PROPAGATION_FINALIZERS.values()]
    return (
        [*remaining, _PROPAGATION_FINALIZERS[propagation]]
        if propagation in _PROPAGATION_FINALIZERS
        else remaining
    )


def _deletion_time(kind: ResourceKind, stored: Object, grace: int | None, now: float) -> tuple[str, int]:
    """Returns the deletion timestamp and the grace period in effect."""
    old = stored["metadata"]
    if grace is not None and grace < 0:
        grace = 1  # as in Kubernetes
    if not is_deleted(stored):
        initial = _initial_grace(kind, stored, grace)
        return timestamp(now + initial), initial
    current: int = old["deletionGracePeriodSeconds"]
    if grace is None or grace >= current:  # the grace period can only be shortened
        return old["deletionTimestamp"], current
    deleted_at = parse_rfc3339(old["deletionTimestamp"]) - current
    return timestamp(deleted_at + grace), grace


def _initial_grace(kind: ResourceKind, stored: Object, grace: int | None) -> int:
    if kind != PODS:
        return 0
    spec = as_object(stored.get("spec"))
    # The pod does not run, so it needs no time to stop.
    if not node_name(stored) or has_terminated(stored):
        return 0
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds")
    if not isinstance(grace, int):
        return _DEFAULT_GRACE_SECONDS
    return min(grace, _MAX_GRACE_SECONDS) if grace >= 0 else 1  # as in Kubernetes


def timestamp(now: float) -> str:
    """Formats seconds since 1970 in whole seconds, UTC."""
    return format_rfc3339(int(now))
