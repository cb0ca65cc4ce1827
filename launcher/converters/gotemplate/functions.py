"""Functions of templates: comparison, logic and printing, as in Go."""

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from launcher.converters.gotemplate.nodes import Value
from launcher.core.errors import BadRequest

_VERB = re.compile(r"%(?P<flags>[-0]*)(?P<width>\d*)(?P<verb>.)", re.DOTALL)
#: Widths with this many digits are rejected.
_WIDTH_DIGITS = 5
_NAMES = {str: "string", int: "number", bool: "boolean"}


def print_value(value: Value) -> str:
    """The value as printed."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _equal(first: Value, *others: Value) -> bool:
    if not others:
        raise BadRequest("eq needs two arguments")
    for other in others:
        _comparable("eq", first, other)
    return first in others


def _comparison(name: str, predicate: Callable[[Any, Any], bool]) -> Callable[..., Value]:
    def compare(*values: Value) -> bool:
        if len(values) != 2:
            raise BadRequest(f"{name} needs two arguments, not {len(values)}")
        _comparable(name, *values)
        return predicate(*values)

    return compare


def _comparable(name: str, first: Value, second: Value) -> None:
    if type(first) is not type(second):
        raise BadRequest(
            f"{name} cannot compare {_describe_value(first)} with {_describe_value(second)}; "
            'all variables are strings, so write a number in quotes: "0"'
        )


def _describe_value(value: Value) -> str:
    return f"{json.dumps(value, ensure_ascii=False)} ({_NAMES[type(value)]})"


def _all(first: Value, *others: Value) -> Value:
    return next((value for value in (first, *others) if not value), (first, *others)[-1])


def _any(first: Value, *others: Value) -> Value:
    return next((value for value in (first, *others) if value), (first, *others)[-1])


def _not(value: Value) -> bool:
    return not value


def _length(value: Value) -> int:
    if not isinstance(value, str):
        raise BadRequest(f"len needs a string, not {_describe_value(value)}")
    return len(value.encode())


def _print(*values: Value) -> str:
    """As in Go, a space separates two values only if neither is a string."""
    output = ""
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            output += " "
        output += print_value(value)
    return output


def _print_line(*values: Value) -> str:
    return " ".join(map(print_value, values)) + "\n"


def _printf(format_string: Value, *values: Value) -> str:
    if not isinstance(format_string, str):
        raise BadRequest(f"printf needs a format string, not {_describe_value(format_string)}")
    remaining = list(values)
    output = _VERB.sub(lambda verb: _format_argument(verb, remaining), format_string)
    if remaining:
        raise BadRequest(f"printf {json.dumps(format_string)}: {len(remaining)} more arguments than verbs")
    return output


def _format_argument(verb: re.Match[str], remaining: list[Value]) -> str:
    """Formats the first of the values *remaining*, and removes it."""
    if verb[0] == "%%":
        return "%"
    if not remaining:
        raise BadRequest(f"printf: no argument for {verb[0]}")
    value = remaining.pop(0)
    match verb["verb"], value:
        case ("v", _) | ("s", str()) | ("t", bool()):
            text = print_value(value)
        case "q", str():
            text = json.dumps(value, ensure_ascii=False)
        case "d", int() if not isinstance(value, bool):
            text = str(value)
        case _:
            raise BadRequest(
                f"printf: {verb[0]} does not match {_describe_value(value)}; use %v, %s, %q, %d or %t"
            )
    width = int(verb["width"][:_WIDTH_DIGITS] or 0)
    if len(verb["width"]) >= _WIDTH_DIGITS:
        raise BadRequest(f"printf: the width of {verb[0][:20]} must be below {10 ** (_WIDTH_DIGITS - 1)}")
    if "-" in verb["flags"]:
        return text.ljust(width)
    return text.zfill(width) if "0" in verb["flags"] else text.rjust(width)


#: By name.
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "eq": _equal,
    "ne": _comparison("ne", operator.ne),
    "lt": _comparison("lt", operator.lt),
    "le": _comparison("le", operator.le),
    "gt": _comparison("gt", operator.gt),
    "ge": _comparison("ge", operator.ge),
    "and": _all,
    "or": _any,
    "not": _not,
    "len": _length,
    "print": _print,
    "println": _print_line,
    "printf": _printf,
}


def call(name: str, arguments: list[Value]) -> Value:
    """Calls a function. Raises BadRequest for invalid arguments."""
    try:
        return FUNCTIONS[name](*arguments)
    except TypeError as error:
        raise BadRequest(f"{name} cannot be called with {len(arguments)} arguments") from error
