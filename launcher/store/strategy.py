"""
What each verb makes of an object, as the kube-apiserver does it: pure functions, from objects to objects.

``resourceVersion`` is read here, to see whether a caller knew the object as it is, but never written: the store gives
versions. Whether a write changes anything is for the store to see, too.
"""

import hashlib
from typing import Any

import orjson

from launcher.core.errors import BadRequest, Conflict, FieldError, InvalidObject
from launcher.core.timestamps import format_rfc3339, parse_rfc3339
from launcher.core.validation.pod_template import as_list, as_object
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
from launcher.store.object_metadata import OWN_FIELDS, problems_in, shaped

#: What an object's status is before anybody has written one; other kinds begin without.
_FIRST_STATUS: dict[str, Object] = {PODS.kind: {"phase": "Pending"}, NAMESPACES.kind: {"phase": "Active"}}
_DEFAULT_GRACE = 30
#: Longer than anything waits, and short enough for the end to have a date.
_MOST_GRACE = 2**31 - 1
_GENERATED_BASE = 58
#: No vowels, so that no words come out, and nothing that looks like something else.
_GENERATED_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_LENGTH = 5
#: Holds a namespace until the garbage collector has emptied it.
NAMESPACE_FINALIZER = "kubernetes"
_COLLECTORS = {Propagation.FOREGROUND: "foregroundDeletion", Propagation.ORPHAN: "orphan"}


def normalized(kind: ResourceKind, obj: Object) -> Object:
    """A copy that is this kind's, its metadata shaped. Raises BadRequest, or InvalidObject when it is another's."""
    if not isinstance(obj, dict):
        raise BadRequest(f"a {kind.kind} must be an object")
    if obj.get("apiVersion") != kind.api_version:
        raise BadRequest(f"apiVersion must be {kind.api_version!r}, not {obj.get('apiVersion')!r}")
    if "kind" not in obj:
        raise BadRequest(f"kind is missing: it must be {kind.kind!r}")
    if obj["kind"] != kind.kind:
        raise InvalidObject((FieldError("kind", f'Invalid value: "{obj["kind"]}": must be {kind.kind}'),))
    metadata = shaped(obj.get("metadata", {}))
    if kind != FRAMEWORKS:
        metadata.pop("managedFields", None)  # nobody owns fields of other kinds
    if kind.namespaced and "namespace" not in metadata:
        raise BadRequest("metadata.namespace is missing")
    if not kind.namespaced and "namespace" in metadata:
        raise BadRequest(f"metadata.namespace must not be set: a {kind.kind} has none")
    return {**obj, "metadata": metadata}


def addressed(kind: ResourceKind, obj: Object) -> Object:
    """As ``accepted``, of an object that must be there already. Raises BadRequest when it has no name."""
    obj = normalized(kind, obj)
    if "name" not in obj["metadata"]:
        raise BadRequest("metadata.name is missing")
    return obj


def created(kind: ResourceKind, obj: Object, *, uid: str, now: float) -> Object:
    """The new object. A generated name follows from *uid*: another uid, another name."""
    obj = normalized(kind, obj)
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        raise BadRequest("metadata.resourceVersion must not be set on an object to be created")
    for field in OWN_FIELDS:
        if field in metadata:
            del metadata[field]
    if "name" not in metadata and "generateName" in metadata:
        metadata["name"] = metadata["generateName"][:_GENERATED_BASE] + _suffix(uid)
    _refuse_if_any(problems_in(kind, metadata))
    metadata["uid"] = uid
    metadata["creationTimestamp"] = timestamp(now)
    metadata["generation"] = 1
    if kind == NAMESPACES:
        metadata["finalizers"] = [*metadata.get("finalizers", []), NAMESPACE_FINALIZER]
    # A node comes with its status: its own agent creates it.
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


def updated(kind: ResourceKind, stored: Object, obj: Object) -> Object:
    """All but the status replaced by the accepted *obj*. Raises Conflict unless that is the stored one, changed."""
    _check_unchanged(kind, stored, obj["metadata"])
    return _replaced(kind, stored, obj)


def patched(kind: ResourceKind, stored: Object, obj: Object) -> Object:
    """All but the status replaced by the accepted *obj*, which a patch has made of the stored one."""
    _check_identity(stored, obj["metadata"])
    _check_version(kind, stored, obj["metadata"])
    if obj["metadata"].get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
        raise InvalidObject((_immutable("metadata.uid", obj["metadata"]["uid"]),))
    return _replaced(kind, stored, obj)


def with_scheduled_condition(kind: ResourceKind, stored: Object, obj: Object, now: float) -> Object:
    """*obj*, which takes the place of *stored*; a pod that has just been given its node says so in its status."""
    if kind != PODS or not _node_of(obj) or _node_of(stored):
        return obj
    status = as_object(obj.get("status"))
    others = [
        one for one in as_list(status.get("conditions")) if as_object(one).get("type") != "PodScheduled"
    ]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": timestamp(now)}
    return {**obj, "status": {**status, "conditions": [*others, scheduled]}}


def _node_of(pod: Object) -> str | None:
    node: str | None = as_object(pod.get("spec")).get("nodeName")
    return node


def status_updated(kind: ResourceKind, stored: Object, obj: Object) -> Any:
    """The accepted *obj*'s status, None for none. Raises Conflict unless that is the stored one, changed."""
    _check_unchanged(kind, stored, obj["metadata"])
    return obj.get("status")


def status_patched(kind: ResourceKind, stored: Object, obj: Object) -> Any:
    """The status of the accepted *obj*, which a patch has made of the stored one; None for none."""
    metadata = obj["metadata"]
    _check_identity(stored, metadata)
    _check_version(kind, stored, metadata)
    return obj.get("status")


def _check_unchanged(kind: ResourceKind, stored: Object, metadata: Object) -> None:
    if metadata.get("resourceVersion", "0") == "0":
        message = (
            "Invalid value: 0: must be specified for an update: read the object, change that and send it whole,"
            " or send only the change as a patch"
        )
        raise InvalidObject((FieldError("metadata.resourceVersion", message),))
    _check_version(kind, stored, metadata)
    if metadata.get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
        raise Conflict(
            f"{_called(kind, stored)}: it has another uid, so it is another object of the same name"
        )


def _check_version(kind: ResourceKind, stored: Object, metadata: Object) -> None:
    version = metadata.get("resourceVersion", "0")
    if not version.isascii() or not version.isdigit():
        raise BadRequest(f"metadata.resourceVersion must be a number, not {version!r}")
    if version not in ("0", stored["metadata"]["resourceVersion"]):
        raise Conflict(
            f"{_called(kind, stored)}: the object has been modified since it was read; read it again, then change that"
        )


def _check_identity(stored: Object, metadata: Object) -> None:
    for field in ("name", "namespace"):
        if metadata.get(field) != stored["metadata"].get(field):
            raise BadRequest(f"metadata.{field} cannot be changed")


def _called(kind: ResourceKind, stored: Object) -> str:
    return f'Operation cannot be fulfilled on {kind.resource} "{stored["metadata"]["name"]}"'


def _immutable(field: str, value: object) -> FieldError:
    return FieldError(field, f'Invalid value: "{value}": field is immutable')


def _replaced(kind: ResourceKind, stored: Object, obj: Object) -> Object:
    """*obj* in the place of *stored*, with what only the store decides kept."""
    old, new = stored["metadata"], obj["metadata"]
    problems = [
        _immutable(f"metadata.{field}", new[field])
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds")
        if field in new and new[field] != old.get(field)
    ]
    if "deletionTimestamp" in old:
        late = [name for name in new.get("finalizers", []) if name not in old.get("finalizers", [])]
        problems += [
            FieldError(
                "metadata.finalizers",
                f'Forbidden: no new finalizer can be added while the object is being deleted: "{name}"',
                "FieldValueForbidden",
            )
            for name in late
        ]
    if found := problems_in(kind, new):
        # What is stored already may break rules that are newer, and must still be changed and deleted.
        known = problems_in(kind, old)
        problems += [problem for problem in found if problem not in known]
    _refuse_if_any(problems)
    for field in OWN_FIELDS:
        new.pop(field, None)
        if field in old:
            new[field] = old[field]
    if "generateName" in old:
        new.setdefault("generateName", old["generateName"])
    obj.pop("status", None)
    if "status" in stored:
        obj["status"] = stored["status"]
    if _wish(obj) != _wish(stored):
        new["generation"] = old["generation"] + 1
    return obj


def _refuse_if_any(problems: list[FieldError]) -> None:
    if problems:
        raise InvalidObject(tuple(problems))


def _wish(obj: Object) -> bytes:
    """All but metadata and status, in one spelling: Python itself takes 1 and true for equal."""
    return encoded({key: value for key, value in obj.items() if key not in ("metadata", "status")})


def encoded(value: Any) -> bytes:
    """JSON in its one spelling: equal bytes are equal values. Raises BadRequest when it is none."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise BadRequest(f"this cannot be written as JSON: {error}") from None


def deleted(kind: ResourceKind, stored: Object, how: DeleteOptions, now: float) -> Object | None:
    """The object as it waits for its finalizers or its grace; None when nothing holds it."""
    old = stored["metadata"]
    _check_preconditions(kind, stored, how)
    finalizers = _finalizers_of_deletion(old.get("finalizers", []), how.propagation)
    ends, grace = _end(kind, stored, how.grace, now)
    if not finalizers and grace == 0:
        return None
    new = {key: value for key, value in old.items() if key != "finalizers"}
    if finalizers:
        new["finalizers"] = finalizers
    new |= {"deletionTimestamp": ends, "deletionGracePeriodSeconds": grace}
    if "deletionTimestamp" not in old:
        new["generation"] = old["generation"] + 1
    if kind == NAMESPACES:
        return {
            **stored,
            "metadata": new,
            "status": {**as_object(stored.get("status")), "phase": "Terminating"},
        }
    return {**stored, "metadata": new}


def is_being_deleted(obj: Object) -> bool:
    """Whether the object was deleted, and waits for its finalizers or its grace."""
    return "deletionTimestamp" in obj["metadata"]


def can_be_removed(obj: Object) -> bool:
    """Whether nothing holds this object back any more: it was deleted, and its finalizers and its grace are gone."""
    metadata = obj["metadata"]
    return (
        is_being_deleted(obj)
        and not metadata.get("finalizers")
        and metadata["deletionGracePeriodSeconds"] == 0
    )


def _check_preconditions(kind: ResourceKind, stored: Object, how: DeleteOptions) -> None:
    metadata = stored["metadata"]
    for what, wanted, found in (
        ("uid", how.uid, metadata["uid"]),
        ("resourceVersion", how.version, int(metadata["resourceVersion"])),
    ):
        if wanted is not None and wanted != found:
            raise Conflict(f"{_called(kind, stored)}: its {what} is {found}, and was expected to be {wanted}")


def _finalizers_of_deletion(finalizers: list[str], propagation: Propagation | None) -> list[str]:
    if propagation is None:
        return finalizers
    kept = [name for name in finalizers if name not in _COLLECTORS.values()]
    return [*kept, _COLLECTORS[propagation]] if propagation in _COLLECTORS else kept


def _end(kind: ResourceKind, stored: Object, grace: int | None, now: float) -> tuple[str, int]:
    """When a deleted object ends, and the grace that this is after its deletion."""
    old = stored["metadata"]
    if grace is not None and grace < 0:
        grace = 1  # as Kubernetes reads it
    if "deletionTimestamp" not in old:
        chosen = _first_grace(kind, stored, grace)
        return timestamp(now + chosen), chosen
    given: int = old["deletionGracePeriodSeconds"]
    if grace is None or grace >= given:  # a grace can only be shortened
        return old["deletionTimestamp"], given
    began = parse_rfc3339(old["deletionTimestamp"]) - given
    return timestamp(began + grace), grace


def _first_grace(kind: ResourceKind, stored: Object, grace: int | None) -> int:
    if kind != PODS:
        return 0
    spec = as_object(stored.get("spec"))
    # Nobody runs it, so nobody needs time to stop it.
    if not spec.get("nodeName") or as_object(stored.get("status")).get("phase") in ("Succeeded", "Failed"):
        return 0
    if grace is None:
        grace = spec.get("terminationGracePeriodSeconds")
    if not isinstance(grace, int):
        return _DEFAULT_GRACE
    return min(grace, _MOST_GRACE) if grace >= 0 else 1  # as Kubernetes reads it


def timestamp(now: float) -> str:
    """Seconds since 1970 as Kubernetes writes a time: whole seconds, UTC."""
    return format_rfc3339(int(now))
