"""Normalization and validation of object metadata."""

from collections.abc import Callable, Iterator
from typing import Any

from launcher.core.errors import BadRequest, FieldError
from launcher.core.validation.names import label_key_error, label_value_error, name_error, namespace_error
from launcher.store.interface import Object, ResourceKind

MAX_ANNOTATIONS_BYTES = 256 * 1024
#: Fields that only the store sets.
SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
)


def normalize_metadata(metadata: Any) -> Object:
    """Returns the metadata without empty fields and duplicate owners. Raises BadRequest on a wrong type."""
    if not isinstance(metadata, dict):
        raise BadRequest("metadata must be an object")
    result = {}
    for field, value in metadata.items():
        parse = _PARSERS.get(field)
        if parse is not None and value is not None:
            value = parse(field, value) or None
        if value is not None:
            result[field] = value
    return result


def fields_with_wrong_type(metadata: Object) -> list[str]:
    """Returns the names of fields with a wrong type."""
    return [field for field, value in metadata.items() if not _has_right_type(field, value)]


def _has_right_type(field: str, value: Any) -> bool:
    parse = _PARSERS.get(field)
    try:
        if parse is not None and value:
            parse(field, value)
    except BadRequest:
        return False
    return True


def _drop(_field: str, _value: Any) -> None:
    return None


def _string(field: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadRequest(f"metadata.{field} must be a string")
    return value


def _strings_by_name(field: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise BadRequest(f"metadata.{field} must be an object whose values are strings")
    return value


def _strings(field: str, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BadRequest(f"metadata.{field} must be a list of strings")
    return value


def _entries(field: str, value: Any) -> list[Object]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BadRequest(f"metadata.{field} must be a list of objects")
    return value


def _owners(field: str, value: Any) -> list[Object]:
    owners = _entries(field, value)
    return list({tuple(sorted(map(repr, owner.items()))): owner for owner in owners}.values())


_PARSERS: dict[str, Callable[[str, Any], Any]] = {
    "name": _string,
    "generateName": _string,
    "namespace": _string,
    "uid": _string,
    "resourceVersion": _string,
    "deletionTimestamp": _string,
    "labels": _strings_by_name,
    "annotations": _strings_by_name,
    "finalizers": _strings,
    "ownerReferences": _owners,
    "managedFields": _entries,
    # Not stored.
    "selfLink": _drop,
}


def metadata_errors(kind: ResourceKind, metadata: Object) -> list[FieldError]:
    """Returns all validation errors of normalized metadata."""
    problems = list(_name_problems(kind, metadata.get("name", ""), metadata.get("namespace", "")))
    for key, value in metadata.get("labels", {}).items():
        if error := label_key_error(key) or label_value_error(value):
            problems.append(FieldError("metadata.labels", f'Invalid value: "{key}={value}": {error}'))
    if "annotations" in metadata:
        problems += _annotation_problems(metadata["annotations"])
    if "finalizers" in metadata:
        problems += _finalizer_problems(metadata["finalizers"])
    if "ownerReferences" in metadata:
        problems += _owner_problems(metadata["ownerReferences"])
    return problems


def _name_problems(kind: ResourceKind, name: str, namespace: str) -> Iterator[FieldError]:
    if not name:
        yield FieldError(
            "metadata.name", "Required value: name or generateName is required", "FieldValueRequired"
        )
    elif error := name_error(name):
        yield FieldError("metadata.name", f'Invalid value: "{name}": {error}')
    if kind.namespaced and (error := namespace_error(namespace)):
        yield FieldError("metadata.namespace", f'Invalid value: "{namespace}": {error}')


def _annotation_problems(annotations: dict[str, str]) -> Iterator[FieldError]:
    for key in annotations:
        # As in Kubernetes, annotation keys are validated in lower case.
        if error := label_key_error(key.lower()):
            yield FieldError("metadata.annotations", f'Invalid value: "{key}": {error}')
    if sum(_size(key) + _size(value) for key, value in annotations.items()) > MAX_ANNOTATIONS_BYTES:
        message = f"Too long: may not be more than {MAX_ANNOTATIONS_BYTES} bytes"
        yield FieldError("metadata.annotations", message, "FieldValueTooLong")


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _finalizer_problems(finalizers: list[str]) -> Iterator[FieldError]:
    for index, finalizer in enumerate(finalizers):
        if error := label_key_error(finalizer):
            yield FieldError(f"metadata.finalizers[{index}]", f'Invalid value: "{finalizer}": {error}')
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        message = "Invalid value: orphan and foregroundDeletion cannot both be set"
        yield FieldError("metadata.finalizers", message)


def _owner_problems(owners: list[Object]) -> Iterator[FieldError]:
    for index, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not isinstance(owner.get(field), str) or not owner[field]:
                yield FieldError(
                    f"metadata.ownerReferences[{index}].{field}", "Required value", "FieldValueRequired"
                )
        for field in ("controller", "blockOwnerDeletion"):
            if not isinstance(owner.get(field), bool | None):
                field_path = f"metadata.ownerReferences[{index}].{field}"
                yield FieldError(
                    field_path, "Invalid value: must be of type boolean", "FieldValueTypeInvalid"
                )
    if sum(owner.get("controller") is True for owner in owners) > 1:
        message = "Invalid value: only one reference may have controller set to true"
        yield FieldError("metadata.ownerReferences", message)
