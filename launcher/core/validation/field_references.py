"""References to fields of a pod and to resources of its containers, for its variables and its files."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from launcher.core.errors import FieldError
from launcher.core.validation.field_errors import forbidden, invalid, required
from launcher.core.validation.names import label_key_fault
from launcher.core.validation.placeholders import Fill
from launcher.core.validation.pod_template import as_object, text
from launcher.core.validation.resources import amount_problems

_NAMES: Final = ("metadata.name", "metadata.namespace", "metadata.uid")
#: What a variable can refer to.
VARIABLE_FIELDS: Final = (
    *_NAMES,
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
#: What a file can refer to.
POD_FIELDS: Final = (*_NAMES, "metadata.labels", "metadata.annotations")
_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def reference_problems(
    owner: Mapping[str, Any], field: str, fields: tuple[str, ...], fill: Fill
) -> Iterator[FieldError]:
    """Each rule that ``fieldRef`` and ``resourceFieldRef`` of *owner* break; *fields* can be referred to."""
    path = as_object(owner.get("fieldRef")).get("fieldPath")
    if isinstance(path, str) and (fault := _path_fault(fill(path), fields)):
        yield invalid(f"{field}.fieldRef.fieldPath", path, fault)
    if owner.get("fieldRef") is not None and owner.get("resourceFieldRef") is not None:
        yield forbidden(f"{field}.resourceFieldRef", "there is a fieldRef already")
    reference = as_object(owner.get("resourceFieldRef"))
    resource = reference.get("resource")
    if isinstance(resource, str) and not _is_resource(fill(resource)):
        must = "must be limits.NAME or requests.NAME, such as limits.cpu or requests.memory"
        yield invalid(f"{field}.resourceFieldRef.resource", resource, must)
    yield from amount_problems(reference.get("divisor"), f"{field}.resourceFieldRef.divisor", fill)


def source_problems(source: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    """Each rule that the number of references in ``valueFrom`` breaks."""
    given = [name for name in source if name in _SOURCES and source[name] is not None]
    if not given and not source:
        yield required(field, f"one of {', '.join(_SOURCES)}")
    elif len(given) > 1:
        yield forbidden(f"{field}.{given[1]}", f"there is a {given[0]} already")


_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def _path_fault(path: str, fields: tuple[str, ...]) -> str | None:
    if found := _SUBSCRIPT.fullmatch(path):
        key = text(found[2])
        return label_key_fault(key if found[1] == "labels" else key.lower())
    if path in fields:
        return None
    return f"must be one of {', '.join(fields)}, metadata.labels['KEY'] and metadata.annotations['KEY']"


def _is_resource(name: str) -> bool:
    kind, dot, resource = name.partition(".")
    return kind in ("limits", "requests") and bool(dot) and bool(resource)
