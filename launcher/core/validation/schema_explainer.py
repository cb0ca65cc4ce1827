"""Explains why an object does not match a JSON schema; slower than the check whether it does."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from launcher.core.errors import MAX_REPORTED_ERRORS, FieldError
from launcher.core.parsing import field_path
from launcher.core.validation.field_errors import invalid, required, type_invalid, unsupported

#: Booleans of YAML 1.1 that are read as strings here.
_YAML_11_BOOLEANS = {"y": True, "yes": True, "on": True, "n": False, "no": False, "off": False}


class SchemaExplainer:
    """The field errors of objects that do not match *schema*."""

    def __init__(self, schema: dict[str, Any]) -> None:
        validator = extend(Draft202012Validator, {"pattern": _pattern})  # type: ignore[no-untyped-call]  # so in its stubs
        self._validator: Draft202012Validator = validator(schema)

    def errors(self, obj: Any) -> tuple[FieldError, ...]:
        """All errors of *obj*, up to the number that is reported."""
        errors: dict[FieldError, None] = {}
        for error in islice(self._validator.iter_errors(obj), MAX_REPORTED_ERRORS + 1):
            errors.update(dict.fromkeys(_errors(error)))
        return tuple(errors)


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Iterator[ValidationError]:
    # For Python, $ also matches before a newline at the end; for JSON Schema it does not.
    if isinstance(value, str) and not re.search(pattern.replace("$", r"\Z"), value):
        yield ValidationError("does not match")


def _errors(error: ValidationError) -> Iterator[FieldError]:
    """The field errors for one error of the validator."""
    path = list(error.absolute_path)
    value, rule = cast("Any", error.instance), cast("Any", error.validator_value)
    schema = cast("dict[str, Any]", error.schema)
    field = field_path.format_path(path)
    match error.validator:
        case "required":
            yield from (required(field_path.format_path([*path, name])) for name in rule if name not in value)
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
            raise ValueError(f"the schema uses {keyword}, for which there is no message")


def _must_be(rule: str | list[str], value: Any, schema: dict[str, Any]) -> str:
    kinds = [kind for kind in ([rule] if isinstance(rule, str) else rule) if kind != "null"]
    must = schema.get("x-must", f"must be of type {' or '.join(kinds)}")
    if kinds == ["boolean"] and isinstance(value, str) and value.lower() in _YAML_11_BOOLEANS:
        return f"{must}: write {str(_YAML_11_BOOLEANS[value.lower()]).lower()}"
    if kinds == ["string"] and isinstance(value, bool | int | float):
        return f"{must}: put it in quotes"
    return str(must)
