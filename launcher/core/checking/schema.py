"""
Whether an object has the shape of a Framework: a fast yes, or a no that explains itself.

The shape is ``schemas/framework.schema.json``, which users can give to their editors. It comes with the package and
never changes while the program runs, so it is read and compiled once, when first asked for.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import jsonschema_rs
import orjson

from launcher.core.checking import fieldpath
from launcher.core.checking.problems import MOST, invalid, required, unsupported, wrong_kind
from launcher.core.errors import Problem

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

Schema = dict[str, Any]

#: What YAML 1.1 read as a boolean, and we read as text.
_ONCE_BOOLEAN = {"y": True, "yes": True, "on": True, "n": False, "no": False, "off": False}


@cache
def framework_schema() -> Schema:
    """The schema itself; never changed by anybody."""
    text = files("launcher.schemas").joinpath("framework.schema.json").read_bytes()
    schema: Schema = orjson.loads(text)
    return schema


def shape_problems(obj: Any) -> tuple[Problem, ...]:
    """Everything about the shape of *obj* that is wrong; empty when nothing is."""
    return () if has_shape(obj) else explained(obj)


def has_shape(obj: Any) -> bool:
    """Whether nothing about the shape of *obj* is wrong."""
    return _fast().is_valid(obj)


def explained(obj: Any) -> tuple[Problem, ...]:
    """The same, by way of a validator that is slow and can say why."""
    problems: dict[Problem, None] = {}
    for error in islice(_slow().iter_errors(obj), MOST + 1):
        problems.update(dict.fromkeys(_problems(error)))
    return tuple(problems)


@cache
def _fast() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(framework_schema())


@cache
def _slow() -> "Draft202012Validator":
    # Slow to import as well, and most programs never have to explain anything.
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    validator: Draft202012Validator = extend(  # type: ignore[no-untyped-call]  # so in its stubs
        Draft202012Validator, {"pattern": _pattern}
    )(framework_schema())
    return validator


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator["ValidationError"]:
    from jsonschema import ValidationError

    # For Python, $ also matches before a newline at the end; for JSON Schema it does not.
    if isinstance(value, str) and not re.search(pattern.replace("$", r"\Z"), value):
        yield ValidationError("does not match")


def _problems(error: "ValidationError") -> Iterator[Problem]:
    """What one finding of the validator means to the user."""
    path = list(error.absolute_path)
    value, rule = cast("Any", error.instance), cast("Any", error.validator_value)
    schema = cast("Schema", error.schema)
    field = fieldpath.written(path)
    match error.validator:
        case "required":
            yield from (required(fieldpath.written([*path, name])) for name in rule if name not in value)
        case "type" if value is None:
            yield required(field)
        case "type":
            yield wrong_kind(field, value, _must_be(rule, value, schema))
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
