"""
Whether an object has the structure of its kind: a fast yes, or a no that explains itself.

The structure of a Framework is ``schemas/framework.schema.json``, which users can give to their editors. That of the
core kinds of Kubernetes is ``schemas/kubernetes.schema.json``. Both come with the package and never change while the
program runs, so each is read and compiled once, when it is first used.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import jsonschema_rs
import orjson

from launcher.core.errors import FieldError
from launcher.core.parsing import field_path
from launcher.core.validation.field_errors import (
    MAX_REPORTED_ERRORS,
    invalid,
    required,
    type_invalid,
    unsupported,
)

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

Schema = dict[str, Any]

#: What YAML 1.1 read as a boolean, and we read as text.
_ONCE_BOOLEAN = {"y": True, "yes": True, "on": True, "n": False, "no": False, "off": False}


class Validator:
    """One JSON schema, compiled when it is first used."""

    def __init__(self, schema: Callable[[], Schema]) -> None:
        self._schema = schema

    def problems(self, obj: Any) -> tuple[FieldError, ...]:
        """Every rule of the schema that *obj* breaks; empty when it breaks none."""
        return () if self.accepts(obj) else self.explained(obj)

    def accepts(self, obj: Any) -> bool:
        """Whether *obj* breaks no rule of the schema."""
        return self._fast.is_valid(obj)

    def explained(self, obj: Any) -> tuple[FieldError, ...]:
        """As ``problems``, by a validator that is slow and reports why."""
        problems: dict[FieldError, None] = {}
        for error in islice(self._slow.iter_errors(obj), MAX_REPORTED_ERRORS + 1):
            problems.update(dict.fromkeys(_problems(error)))
        return tuple(problems)

    @cached_property
    def _fast(self) -> jsonschema_rs.Draft202012Validator:
        return jsonschema_rs.Draft202012Validator(self._schema())

    @cached_property
    def _slow(self) -> "Draft202012Validator":
        # Slow to import as well, and most programs never have to explain anything.
        from jsonschema import Draft202012Validator
        from jsonschema.validators import extend

        validator: Draft202012Validator = extend(  # type: ignore[no-untyped-call]  # so in its stubs
            Draft202012Validator, {"pattern": _pattern}
        )(self._schema())
        return validator


@cache
def framework_schema() -> Schema:
    """The schema of a Framework; never changed by anybody."""
    return _read("framework.schema.json")


@cache
def core_schema() -> Schema:
    """The schemas of the core kinds, as definitions; never changed by anybody."""
    return _read("kubernetes.schema.json")


def _read(file: str) -> Schema:
    schema: Schema = orjson.loads(files("launcher.schemas").joinpath(file).read_bytes())
    return schema


def _status_schema() -> Schema:
    """The schema of an object of which only the status of a Framework is looked at."""
    definition = framework_schema()["$defs"]["FrameworkStatus"]
    return {"properties": {"status": definition}, "$defs": framework_schema()["$defs"]}


_framework, _status = Validator(framework_schema), Validator(_status_schema)


def schema_errors(obj: Any) -> tuple[FieldError, ...]:
    """Everything about the shape of *obj* that is wrong; empty when nothing is."""
    return _framework.problems(obj)


def has_shape(obj: Any) -> bool:
    """Whether nothing about the shape of *obj* is wrong."""
    return _framework.accepts(obj)


def detailed_schema_errors(obj: Any) -> tuple[FieldError, ...]:
    """The same, by way of a validator that is slow and can say why."""
    return _framework.explained(obj)


def status_problems(obj: Any) -> tuple[FieldError, ...]:
    """Every rule of the schema that the status of *obj*, a Framework, breaks."""
    return _status.problems(obj)


@cache
def core_validator(kind: str) -> Validator:
    """The validator of a core kind, such as ``Service``, without its envelope and metadata."""
    return Validator(lambda: {**core_schema(), "$ref": f"#/$defs/{kind}"})


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator["ValidationError"]:
    from jsonschema import ValidationError

    # For Python, $ also matches before a newline at the end; for JSON Schema it does not.
    if isinstance(value, str) and not re.search(pattern.replace("$", r"\Z"), value):
        yield ValidationError("does not match")


def _problems(error: "ValidationError") -> Iterator[FieldError]:
    """What one finding of the validator means to the user."""
    path = list(error.absolute_path)
    value, rule = cast("Any", error.instance), cast("Any", error.validator_value)
    schema = cast("Schema", error.schema)
    field = field_path.written(path)
    match error.validator:
        case "required":
            yield from (required(field_path.written([*path, name])) for name in rule if name not in value)
        case "type" if value is None:
            yield required(field)
        case "type":
            yield type_invalid(field, value, _must_be(rule, value, schema))
        case "enum":
            yield unsupported(field, value, [word for word in rule if word is not None])
        case "minimum":
            yield invalid(field, value, f"must be at least {rule}")
        case "maximum":
            yield invalid(field, value, f"must be at most {rule}")
        case "pattern":
            yield invalid(field, value, schema["x-must"])
        case keyword:
            raise ValueError(f"the schema uses {keyword}, which nothing here explains")


def _must_be(rule: str | list[str], value: Any, schema: Schema) -> str:
    kinds = [kind for kind in ([rule] if isinstance(rule, str) else rule) if kind != "null"]
    must = schema.get("x-must", f"must be of type {' or '.join(kinds)}")
    if kinds == ["boolean"] and isinstance(value, str) and value.lower() in _ONCE_BOOLEAN:
        return f"{must}: write {str(_ONCE_BOOLEAN[value.lower()]).lower()}"
    if kinds == ["string"] and isinstance(value, bool | int | float):
        return f"{must}: put it in quotes"
    return str(must)
