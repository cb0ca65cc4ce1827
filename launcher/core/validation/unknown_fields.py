"""Fields of a Framework that are not in the schema: reported with a suggestion, and pruned from the stored object."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from launcher.core.errors import MAX_REPORTED_ERRORS, FieldError
from launcher.core.parsing import field_path
from launcher.core.parsing.field_path import Path
from launcher.core.validation.field_errors import (
    ignored_field,
    suggestion,
    unknown_field,
)
from launcher.core.validation.schema import Schema, framework_schema

_POD_SPEC = ("task", "pod", "spec")
#: Unknown fields of pod specs that occur in Frameworks of other systems, with the name of the system. kubectl requests
#: strict validation and must still be able to submit those Frameworks.
_TOLERATED = {"privileged": "OpenPAI", "ActiveDeadlineSeconds": "FrameworkController"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """The fields of an object, or the shape of the items of a list; None where all fields are allowed."""

    fields: "Mapping[str, _Shape | None] | None" = None
    items: "_Shape | None" = None
    #: Unknown fields are reported but not pruned.
    keeps: bool = False


def unknown_fields(obj: Any) -> tuple[FieldError, ...]:
    """
    The unknown fields, each with a suggestion, up to a limit.

    Values of a wrong type are skipped: they are schema errors.
    """
    return tuple(
        _finding(path, suggestion(str(path[-1]), guess))
        for path, guess in islice(_unknown(obj, _framework_shape(), ()), MAX_REPORTED_ERRORS)
    )


def _finding(path: Path, guess: str | None) -> FieldError:
    field = field_path.format_path(path)
    if path[-4:-1] == _POD_SPEC and (writer := _TOLERATED.get(str(path[-1]))):
        return ignored_field(field, guess, writer)
    return unknown_field(field, guess)


def without_unknown(obj: dict[str, Any]) -> dict[str, Any]:
    """The object without unknown fields; pod templates are not pruned."""
    guess: dict[str, Any] = _pruned(obj, _framework_shape())
    return guess


def _unknown(value: Any, shape: _Shape, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if isinstance(value, dict):
        if shape.fields is None:
            return
        for name, inner in value.items():
            if name not in shape.fields:
                yield (*path, name), shape.fields
            elif (below := shape.fields[name]) is not None:
                yield from _unknown(inner, below, (*path, name))
    elif isinstance(value, list) and shape.items is not None:
        for index, inner in enumerate(value):
            yield from _unknown(inner, shape.items, (*path, index))


def _pruned(value: Any, shape: _Shape | None) -> Any:
    if shape is None or shape.keeps:
        return value
    if isinstance(value, dict) and shape.fields is not None:
        fields = shape.fields
        return {name: _pruned(inner, fields[name]) for name, inner in value.items() if name in fields}
    if isinstance(value, list):
        return [_pruned(inner, shape.items) for inner in value]
    return value


@cache
def _framework_shape() -> _Shape:
    root = framework_schema()
    shape = _shape(root, root["$defs"])
    assert shape is not None
    return shape


def _shape(schema: Schema, definitions: Schema) -> _Shape | None:
    """The shape of values of *schema*; None when all fields are allowed."""
    shared = definitions[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else {}
    fields = {**shared.get("properties", {}), **schema.get("properties", {})}
    items = schema.get("items") or shared.get("items")
    if not fields and not items:
        return None
    return _Shape(
        fields={name: _shape(field, definitions) for name, field in fields.items()} if fields else None,
        items=_shape(items, definitions) if items else None,
        keeps=schema.get("x-kubernetes-preserve-unknown-fields", False),
    )
