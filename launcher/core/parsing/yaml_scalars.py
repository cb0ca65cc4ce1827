"""
YAML scalars as plain JSON values.

* true, false, null and ``~`` are booleans and null. yes, no, on and off are strings, unlike in YAML 1.1: in a pod they
  are mostly values of variables and labels. Where a boolean is required, the validation error names it.
* Numbers are those of JSON, such as 1e3, plus hexadecimal and octal: 0644 is a file mode, as for kubectl.
* Dates, times such as 12:30 and versions are strings.
"""

import re
from typing import Any, Final

from yaml.events import ScalarEvent

from launcher.core.errors import BadRequest
from launcher.core.parsing.decoder import abbreviate, stored_number

_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
#: First characters of scalars that may not be strings.
_NOT_TEXT: Final = frozenset("~nNtTfF+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_BASED = re.compile(r"([-+]?)0(?:x([0-9a-fA-F]+)|o?([0-7]+))")
_FRACTION = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_ENDLESS = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
#: A number with more digits exceeds 64 bits in every base.
_MAX_DIGITS = 30

_TAG = "tag:yaml.org,2002:"
#: Tags of quoted scalars, and of those tagged as strings.
_TEXT: Final = (None, "!", _TAG + "str")
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    _TAG + "null": (type(None),),
    _TAG + "bool": (bool,),
    _TAG + "int": (int,),
    _TAG + "float": (int, float),
}


def scalar_value(event: ScalarEvent) -> Any:
    """The value of the scalar. Raises BadRequest when JSON has no such value."""
    if event.implicit[0] and event.tag is None:
        return plain_scalar(event.value)
    if event.tag in _TEXT:
        return event.value
    kinds = _KINDS.get(event.tag)
    value = plain_scalar(event.value)
    if kinds is None or type(value) not in kinds:
        tag = abbreviate(event.tag)
        raise BadRequest(
            f"the tag {tag} does not match the value; remove it, or quote the value if it is text"
        )
    return value


def plain_scalar(word: str) -> Any:
    """The value of an unquoted scalar. Raises BadRequest for a number that JSON or 64 bits cannot represent."""
    if word and word[0] not in _NOT_TEXT:
        return word
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return stored_number(_whole(word, 10), word)
    if based := _BASED.fullmatch(word):
        sign, hexadecimal, octal = based.groups()
        return stored_number(_whole(sign + (hexadecimal or octal), 16 if hexadecimal else 8), word)
    if _FRACTION.fullmatch(word):
        return stored_number(float(word), word)
    if _ENDLESS.fullmatch(word):
        raise BadRequest(f"{word} is not a JSON number; quote it if it is text")
    return word


def _whole(digits: str, base: int) -> float:
    return int(digits, base) if len(digits) <= _MAX_DIGITS else float("inf")
