"""
Limits and common parts of the JSON and YAML readers, which read untrusted data.

A number is a 64-bit integer or a finite fraction, a key is a string, and 1.0 is the integer 1, as in Kubernetes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from launcher.core.errors import BadRequest, TooLarge

#: The limit of kube-apiserver for the body of a request.
MAX_BODY_BYTES = 3 * 1024 * 1024
MAX_NESTING_DEPTH = 200
#: Values, with every YAML alias expanded. The largest realistic Framework has fewer.
MAX_VALUES = 200_000

_MAX_SHOWN = 80
_SMALLEST = -(2**63)
_LARGEST = 2**63 - 1


class Media(StrEnum):
    """The media type of a body."""

    JSON = "application/json"
    YAML = "application/yaml"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A plain JSON value, and the fields that occur more than once (the last one applies)."""

    value: Any
    duplicates: tuple[str, ...] = ()


def decode_utf8(data: bytes) -> str:
    """The decoded text. Raises TooLarge, or BadRequest when it is not UTF-8."""
    if len(data) > MAX_BODY_BYTES:
        raise TooLarge(f"the request has {len(data)} bytes; the maximum is {MAX_BODY_BYTES}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise BadRequest(f"line {line}, column {column}: not UTF-8; save the file as UTF-8") from error


def too_many_values() -> BadRequest:
    return BadRequest(f"more than {MAX_VALUES} values; reduce the size of the object")


def too_deep() -> BadRequest:
    return BadRequest(f"nested more than {MAX_NESTING_DEPTH} levels deep")


def abbreviate(text: str) -> str:
    """The text, cut to a length that fits into a message."""
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def stored_number(value: float, text: str) -> int | float:
    """The number as it is stored. Raises BadRequest when it does not fit into 64 bits."""
    if not _SMALLEST <= value <= _LARGEST:  # false for NaN, too
        raise BadRequest(f"{abbreviate(text)} does not fit into 64 bits; quote it if it is text")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
