"""``docs/fields.md``: every field of a Framework's spec and status, from the JSON schema."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from docs.generate.markdown import code, page, sentence, table
from launcher.core.validation.schema import framework_schema

Schema = dict[str, Any]

#: Fields that validation requires, although the schema accepts stored objects of older versions without them.
REQUIRED_BY_VALIDATION = frozenset(
    {"spec.taskRoles", "spec.taskRoles[].taskNumber", "spec.taskRoles[].task.pod"}
)

_INTRODUCTION = """\
Every field of a Framework, as `schemas/framework.schema.json` defines it. Editors that support JSON
Schema check a file against that schema while you type. `task.pod` is a Kubernetes PodTemplateSpec:
the Kubernetes documentation describes its fields, and [local mode](local-mode.md) lists which of
them have no effect on one machine. [Writing a Framework](writing-a-framework.md) explains the
fields by purpose."""
_STATUS = """\
The launcher writes the status; users only read it. [Reading a status](reading-a-status.md) explains
it."""
_INT32 = 2**31 - 1


def fields_page() -> str:
    """The field reference."""
    schema = framework_schema()
    spec = _Sections(schema, ("field", "type", "default", "description"))
    status = _Sections(schema, ("field", "type", "description"))
    return page(
        "Field reference",
        "the JSON schema of a Framework",
        _INTRODUCTION,
        *spec.of("spec", schema["properties"]["spec"]),
        "## status",
        _STATUS,
        *status.of("status", schema["$defs"]["FrameworkStatus"])[1:],
    )


class _Sections:
    """A table for an object, and one for each list of objects in it; objects in objects have dotted names."""

    def __init__(self, root: Schema, columns: tuple[str, ...]) -> None:
        self._root, self._columns = root, columns
        #: Schema and path of the items of each list that has a table.
        self._lists: list[tuple[Schema, str]] = []

    def of(self, path: str, schema: Schema) -> list[str]:
        """Headings and tables of the object at *path*, and of the lists in it."""
        first = len(self._lists)
        parts = [f"## {path}", table(self._columns, self._rows(path, "", schema))]
        for items, below in self._lists[first:]:
            parts += self.of(below, items)
        return parts

    def _rows(self, path: str, prefix: str, schema: Schema) -> Iterator[tuple[str, ...]]:
        required = self._resolved(schema).get("required", ())
        for name, found in self._resolved(schema).get("properties", {}).items():
            field, here = self._resolved(found), f"{path}.{prefix}{name}"
            yield self._row(here, f"{prefix}{name}", field, required=name in required)
            if not here.endswith(".task.pod") and _base_type(field) == "object":
                yield from self._rows(path, f"{prefix}{name}.", field)

    def _row(self, path: str, name: str, field: Schema, *, required: bool) -> tuple[str, ...]:
        default = code(str(field["default"]).replace("False", "false")) if "default" in field else ""
        if required or path in REQUIRED_BY_VALIDATION:
            default = "required"
        cells = {
            "field": code(name),
            "type": self._type(path, field),
            "default": default,
            "description": _description(field, bounds="default" in self._columns),
        }
        return tuple(cells[column] for column in self._columns)

    def _type(self, path: str, field: Schema) -> str:
        if values := [value for value in field.get("enum", ()) if value is not None]:
            return ", ".join(code(str(value)) for value in values)
        base = _base_type(field)
        if base == "array":
            return self._list_type(f"{path}[]", self._resolved(field["items"]))
        if base == "object" and "additionalProperties" in field and not field.get("properties"):
            return "map"
        return base

    def _list_type(self, path: str, items: Schema) -> str:
        if not items.get("properties"):
            return f"list of {self._type(path, items)}"
        known = next((where for schema, where in self._lists if schema == items), None)
        if known is None:
            self._lists.append((items, path))
        return f"[list of objects](#{re.sub(r'[^a-z]', '', (known or path).lower())})"

    def _resolved(self, schema: Schema) -> Schema:
        """The schema with what it refers to; its own members override those of the reference."""
        if "$ref" not in schema:
            return schema
        referred = self._root["$defs"][schema["$ref"].rpartition("/")[2]]
        return {**self._resolved(referred), **{key: value for key, value in schema.items() if key != "$ref"}}


def _base_type(field: Schema) -> str:
    kind = field.get("type", "any")
    kinds = [each for each in (kind if isinstance(kind, list) else [kind]) if each != "null"]
    return " or ".join(kinds)


def _description(field: Schema, *, bounds: bool) -> str:
    text = sentence(field.get("description", ""))
    least, most = field.get("minimum"), field.get("maximum")
    if bounds and least is not None and least >= -_INT32:
        text += f" From {least} to {most}." if most is not None and most < _INT32 else f" At least {least}."
    if "examples" in field:
        text += f" Examples: {', '.join(code(_yaml(each)) for each in field['examples'])}."
    return text.strip()


def _yaml(value: Any) -> str:
    if isinstance(value, str):
        return value
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False).strip()
