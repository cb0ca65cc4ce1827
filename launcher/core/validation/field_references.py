"""Validates references to fields of a pod and to resources of its containers (downward API)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.json_access import as_object, text
from launcher.core.validation.field_errors import forbidden, invalid, required
from launcher.core.validation.names import label_key_error
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.resources import amount_errors

_NAMES: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
#: Fields that an environment variable can refer to.
VARIABLE_FIELDS: Final = (
    *_NAMES,
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
#: Fields that a file can refer to.
POD_FIELDS: Final = (*_NAMES, "metadata.labels", "metadata.annotations")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def reference_errors(
    owner: Mapping[str, Any], field: str, fields: tuple[str, ...], fill: Fill
) -> Iterator[FieldError]:
    """Errors of ``fieldRef`` and ``resourceFieldRef`` of *owner*; *fields* are supported."""
    path = as_object(owner.get("fieldRef")).get("fieldPath")
    if isinstance(path, str) and (error := _path_error(fill(path), fields)):
        yield invalid(f"{field}.fieldRef.fieldPath", path, error)
    if owner.get("fieldRef") is not None and owner.get("resourceFieldRef") is not None:
        yield forbidden(f"{field}.resourceFieldRef", "may not be specified together with fieldRef")
    reference = as_object(owner.get("resourceFieldRef"))
    resource = reference.get("resource")
    if isinstance(resource, str) and not _is_resource(fill(resource)):
        must = "must be limits.NAME or requests.NAME, such as limits.cpu or requests.memory"
        yield invalid(f"{field}.resourceFieldRef.resource", resource, must)
    yield from amount_errors(reference.get("divisor"), f"{field}.resourceFieldRef.divisor", fill)


def source_errors(source: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    """Errors of the number of references in ``valueFrom``."""
    names = [name for name in source if name in _SOURCES and source[name] is not None]
    if not names and not source:
        yield required(field, f"must be one of {', '.join(_SOURCES)}")
    elif len(names) > 1:
        yield forbidden(f"{field}.{names[1]}", f"may not be specified together with {names[0]}")


_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _path_error(path: str, fields: tuple[str, ...]) -> str | None:
    if match := _SUBSCRIPT.fullmatch(path):
        key = text(match[2])
        return label_key_error(key if match[1] == "labels" else key.lower())
    if path in fields:
        return None
    return f"must be one of {', '.join(fields)}, metadata.labels['KEY'] and metadata.annotations['KEY']"


def _is_resource(name: str) -> bool:
    kind, dot, resource = name.partition(".")
    return kind in ("limits", "requests") and bool(dot) and bool(resource)
