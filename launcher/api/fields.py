"""Which fields lists and watches can be selected by."""

from collections.abc import Iterator
from dataclasses import replace

from launcher.core.errors import BadRequest
from launcher.store.port import EVENTS, FRAMEWORKS, NAMESPACES, PODS, SECRETS, Kind
from launcher.store.selectors import FieldRequirement, Where, parse

_COMMON = frozenset({"metadata.name", "metadata.namespace"})
_ABOUT = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE = {
    FRAMEWORKS.kind: _COMMON | {"spec.executionType", "status.state"},
    PODS.kind: _COMMON
    | {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    },
    EVENTS.kind: _COMMON
    | {f"involvedObject.{field}" for field in _ABOUT}
    | {"reason", "reportingComponent", "source", "type"},
    NAMESPACES.kind: _COMMON | {"status.phase"},
    SECRETS.kind: _COMMON | {"type"},
}
#: Fields whose selector has a shorter name than the field.
_PATHS = {(EVENTS.kind, "source"): "source.component"}


def where_of(kind: Kind, labels: str, fields: str) -> Where:
    """The selectors that these texts write. Raises BadRequest, also for a field that cannot be selected by."""
    where = parse(labels, fields)
    return replace(where, fields=tuple(_known(kind, where.fields))) if where.fields else where


def _known(kind: Kind, requirements: tuple[FieldRequirement, ...]) -> Iterator[FieldRequirement]:
    selectable = _SELECTABLE.get(kind.kind, _COMMON)
    for requirement in requirements:
        if requirement.path not in selectable:
            raise BadRequest(
                f"field label not supported: {requirement.path[:80]}; {kind.plural} can be selected by "
                f"{', '.join(sorted(selectable))}"
            )
        yield replace(requirement, path=_PATHS.get((kind.kind, requirement.path), requirement.path))
