"""What a template can call: comparison, logic and printing, each as Go's templates have it."""

import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from launcher.converters.gotemplate.nodes import Value
from launcher.core.errors import BadRequest

_VERB = re.compile(r"%(?P<flags>[-0]*)(?P<width>\d*)(?P<verb>.)", re.DOTALL)
#: A width with this many digits is more than any text needs.
_WIDTH_DIGITS = 5
_NAMES = {str: "text", int: "a number", bool: "true or false"}


def printed(value: Value) -> str:
    """The value as it stands in the output."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _equal(first: Value, *others: Value) -> bool:
    if not others:
        raise BadRequest("eq needs two values to compare")
    for other in others:
        _comparable("eq", first, other)
    return first in others


def _comparing(name: str, holds: Callable[[Any, Any], bool]) -> Callable[..., Value]:
    def compare(*values: Value) -> bool:
        if len(values) != 2:
            raise BadRequest(f"{name} needs two values to compare, not {len(values)}")
        _comparable(name, *values)
        return holds(*values)

    return compare


def _comparable(name: str, first: Value, second: Value) -> None:
    if type(first) is not type(second):
        raise BadRequest(
            f"{name} cannot compare {_shown(first)} with {_shown(second)}; the template's variables are all text, "
            'so write a number in quotes: "0"'
        )


def _shown(value: Value) -> str:
    return f"{json.dumps(value, ensure_ascii=False)} ({_NAMES[type(value)]})"


def _all(first: Value, *others: Value) -> Value:
    return next((value for value in (first, *others) if not value), (first, *others)[-1])


def _any(first: Value, *others: Value) -> Value:
    return next((value for value in (first, *others) if value), (first, *others)[-1])


def _not(value: Value) -> bool:
    return not value


def _length(value: Value) -> int:
    if not isinstance(value, str):
        raise BadRequest(f"len is of text, not of {_shown(value)}")
    return len(value.encode())


def _print(*values: Value) -> str:
    """A space stands between two values only if neither is text."""
    written = ""
    for at, value in enumerate(values):
        if at and not isinstance(value, str) and not isinstance(values[at - 1], str):
            written += " "
        written += printed(value)
    return written


def _print_line(*values: Value) -> str:
    return " ".join(map(printed, values)) + "\n"


def _print_as(form: Value, *values: Value) -> str:
    if not isinstance(form, str):
        raise BadRequest(f"printf begins with a form in quotes, not with {_shown(form)}")
    left = list(values)
    written = _VERB.sub(lambda found: _filled(found, left), form)
    if left:
        raise BadRequest(f"printf {json.dumps(form)}: there are {len(left)} values more than verbs")
    return written


def _filled(verb: re.Match[str], left: list[Value]) -> str:
    """One verb of a form, with the first of the values that are *left*, which is gone then."""
    if verb[0] == "%%":
        return "%"
    if not left:
        raise BadRequest(f"printf: there is no value for {verb[0]}")
    value = left.pop(0)
    match verb["verb"], value:
        case ("v", _) | ("s", str()) | ("t", bool()):
            text = printed(value)
        case "q", str():
            text = json.dumps(value, ensure_ascii=False)
        case "d", int() if not isinstance(value, bool):
            text = str(value)
        case _:
            raise BadRequest(f"printf: {verb[0]} does not fit {_shown(value)}; use %v, %s, %q, %d or %t")
    width = int(verb["width"][:_WIDTH_DIGITS] or 0)
    if len(verb["width"]) >= _WIDTH_DIGITS:
        raise BadRequest(f"printf: the width of {verb[0][:20]} must be below {10 ** (_WIDTH_DIGITS - 1)}")
    if "-" in verb["flags"]:
        return text.ljust(width)
    return text.zfill(width) if "0" in verb["flags"] else text.rjust(width)


#: By the name that a template calls.
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "eq": _equal,
    "ne": _comparing("ne", operator.ne),
    "lt": _comparing("lt", operator.lt),
    "le": _comparing("le", operator.le),
    "gt": _comparing("gt", operator.gt),
    "ge": _comparing("ge", operator.ge),
    "and": _all,
    "or": _any,
    "not": _not,
    "len": _length,
    "print": _print,
    "println": _print_line,
    "printf": _print_as,
}


def called(name: str, arguments: list[Value]) -> Value:
    """What the function makes of its arguments. Raises BadRequest when it cannot take them."""
    try:
        return FUNCTIONS[name](*arguments)
    except TypeError as error:
        raise BadRequest(f"{name} cannot be called with {len(arguments)} values") from error
