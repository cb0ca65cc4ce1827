"""
Translation of JSON Schema to OpenAPI 3.0 and Swagger 2.0.

Keywords that a dialect does not have are omitted; the server validates them in any case.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

Schema = dict[str, Any]

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
#: Keywords with the same meaning in every dialect.
_COPIED = (
    "description",
    "default",
    "pattern",
    "required",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-preserve-unknown-fields",
)


class Dialect(Enum):
    """A dialect, with the prefix of its references."""

    SWAGGER_2 = "#/definitions/"
    OPENAPI_3 = "#/components/schemas/"

    def translated(self, source: Mapping[str, Any]) -> Schema:
        """Returns the schema in this dialect. The last part of a reference in *source* is the name of a definition."""
        schema = {key: source[key] for key in _COPIED if key in source}
        kinds = [kind for kind in _listed(source.get("type", "object")) if kind != "null"]
        if "$ref" in source:
            return schema | self.reference(source["$ref"].rpartition("/")[2], alone=not schema)
        if len(kinds) > 1:
            # A dialect has no type unions, so a definition replaces the type and its bounds.
            text = {"description": schema["description"]} if "description" in schema else {}
            return text | self.reference(QUANTITY if "number" in kinds else INT_OR_STRING, alone=not text)
        return schema | self._typed(source, kinds[0])

    def _typed(self, source: Mapping[str, Any], kind: str) -> Schema:
        schema: Schema = {"type": kind}
        if self is Dialect.OPENAPI_3 and "null" in _listed(source.get("type", "object")):
            schema["nullable"] = True
        if "enum" in source:
            schema["enum"] = [value for value in source["enum"] if value is not None]
        if "examples" in source:
            schema["example"] = source["examples"][0]
        if "properties" in source:
            schema["properties"] = {
                name: self.translated(value) for name, value in source["properties"].items()
            }
        for inner in ("items", "additionalProperties"):
            if inner in source:
                schema[inner] = self.translated(source[inner])
        return schema | (_bounds(source) if kind == "integer" else {})

    def reference(self, name: str, *, alone: bool = True) -> Schema:
        """Returns a reference to a definition, *alone* or next to other keywords."""
        reference = {"$ref": self.value + name}
        # In OpenAPI 3.0 keywords next to a reference are ignored.
        return reference if alone or self is Dialect.SWAGGER_2 else {"allOf": [reference]}

    def mixed(self) -> dict[str, Schema]:
        """Returns the definitions of values with several types, which are text in Swagger."""
        return {
            QUANTITY: self._either("string", "number"),
            INT_OR_STRING: {**self._either("integer", "string"), "format": "int-or-string"},
        }

    def _either(self, *kinds: str) -> Schema:
        if self is Dialect.SWAGGER_2:
            return {"type": "string"}
        return {"oneOf": [{"type": kind} for kind in kinds]}


def _listed(kinds: str | list[str]) -> list[str]:
    return [kinds] if isinstance(kinds, str) else kinds


def _bounds(source: Mapping[str, Any]) -> Schema:
    """Returns the format of an integer, and its bounds if they are narrower."""
    minimum, maximum = source.get("minimum", -_INT64 - 1), source.get("maximum", _INT64)
    size = _INT32 if maximum <= _INT32 else _INT64
    schema: Schema = {"format": "int32" if size == _INT32 else "int64"}
    if minimum > -size - 1:
        schema["minimum"] = minimum
    if maximum < size:
        schema["maximum"] = maximum
    return schema
