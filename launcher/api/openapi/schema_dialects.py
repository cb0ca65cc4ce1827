"""
JSON Schema in other words: OpenAPI 3.0 and Swagger 2.0 each speak a dialect of it.

What a dialect cannot say is left out, since the server checks it anyway.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

Schema = dict[str, Any]

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1
#: Keywords that mean the same in every dialect.
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
    """The two are told apart by where their references lead."""

    SWAGGER_2 = "#/definitions/"
    OPENAPI_3 = "#/components/schemas/"

    def translated(self, source: Mapping[str, Any]) -> Schema:
        """The schema in this dialect. The last part of a reference in *source* is the name of a definition."""
        schema = {key: source[key] for key in _COPIED if key in source}
        kinds = [kind for kind in _listed(source.get("type", "object")) if kind != "null"]
        if "$ref" in source:
            return schema | self.reference(source["$ref"].rpartition("/")[2], alone=not schema)
        if len(kinds) > 1:
            # Which of them it is cannot be said along with their bounds.
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
        """A reference to the definition of that name, to stand *alone* or beside other keywords."""
        reference = {"$ref": self.value + name}
        # In OpenAPI 3.0 what stands beside a reference counts for nothing.
        return reference if alone or self is Dialect.SWAGGER_2 else {"allOf": [reference]}

    def mixed(self) -> dict[str, Schema]:
        """The definitions of values of more than one type; Swagger, which knows no such thing, takes them for text."""
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
    """The size of an integer, and its bounds where they are narrower than that."""
    least, most = source.get("minimum", -_INT64 - 1), source.get("maximum", _INT64)
    size = _INT32 if most <= _INT32 else _INT64
    schema: Schema = {"format": "int32" if size == _INT32 else "int64"}
    if least > -size - 1:
        schema["minimum"] = least
    if most < size:
        schema["maximum"] = most
    return schema
