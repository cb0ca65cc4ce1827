"""
Validates objects against JSON schemas: a fast check first, and a slow one that explains errors.

The schema of Frameworks is ``schemas/framework.schema.json``, which editors can use as well. Those of the core kinds of
Kubernetes are in ``schemas/kubernetes.schema.json``. Each is read and compiled once, on first use.
"""

from collections.abc import Callable
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import orjson

from launcher.core.errors import FieldError

if TYPE_CHECKING:
    from launcher.core.validation.schema_explainer import SchemaExplainer

Schema = dict[str, Any]


class Validator:
    """One JSON schema, compiled on first use."""

    def __init__(self, schema: Callable[[], Schema]) -> None:
        self._schema = schema

    def errors(self, obj: Any) -> tuple[FieldError, ...]:
        """All errors of *obj*."""
        return () if self.accepts(obj) else self.detailed_errors(obj)

    def accepts(self, obj: Any) -> bool:
        """Whether *obj* is valid."""
        return self._fast.is_valid(obj)

    def detailed_errors(self, obj: Any) -> tuple[FieldError, ...]:
        """As ``errors``, without the fast check."""
        return self._explainer.errors(obj)

    @cached_property
    def _fast(self) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator(self._schema())

    @cached_property
    def _explainer(self) -> "SchemaExplainer":
        # jsonschema is slow to import, and needed only for invalid objects.
        from launcher.core.validation.schema_explainer import SchemaExplainer

        return SchemaExplainer(self._schema())


@cache
def framework_schema() -> Schema:
    """The schema of a Framework; must not be modified."""
    return _read("framework.schema.json")


@cache
def core_schema() -> Schema:
    """The schemas of the core kinds, as definitions; must not be modified."""
    return _read("kubernetes.schema.json")


def _read(file: str) -> Schema:
    schema: Schema = orjson.loads(files("launcher.schemas").joinpath(file).read_bytes())
    return schema


def _status_schema() -> Schema:
    """A schema that covers only the status of a Framework."""
    definition = framework_schema()["$defs"]["FrameworkStatus"]
    return {"properties": {"status": definition}, "$defs": framework_schema()["$defs"]}


_framework, _status = Validator(framework_schema), Validator(_status_schema)


def schema_errors(obj: Any) -> tuple[FieldError, ...]:
    """All schema errors of a Framework."""
    return _framework.errors(obj)


def matches_schema(obj: Any) -> bool:
    """Whether *obj* matches the schema of a Framework."""
    return _framework.accepts(obj)


def detailed_schema_errors(obj: Any) -> tuple[FieldError, ...]:
    """As ``schema_errors``, without the fast check."""
    return _framework.detailed_errors(obj)


def status_errors(obj: Any) -> tuple[FieldError, ...]:
    """All schema errors of the status of a Framework."""
    return _status.errors(obj)


@cache
def core_validator(kind: str) -> Validator:
    """The validator of a core kind, such as ``Service``, without its envelope and metadata."""
    return Validator(lambda: {**core_schema(), "$ref": f"#/$defs/{kind}"})
