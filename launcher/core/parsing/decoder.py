"""
Bytes into plain JSON values, whoever sent them: anything too big, too deep or too strange is refused.

A number is a 64-bit integer or a finite fraction, a key is a string, and 1.0 is the integer 1, as for Kubernetes.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from launcher.core.errors import BadRequest, TooLarge

#: Kubernetes' own limit for a request's body.
MAX_BODY_BYTES = 3 * 1024 * 1024
MAX_NESTING_DEPTH = 200
#: Values counted as if every YAML alias were written out. An honest Framework of the largest size has fewer.
MOST_VALUES = 200_000

_LONGEST_SHOWN = 80
_SMALLEST = -(2**63)
_LARGEST = 2**63 - 1


class Media(StrEnum):
    """What the bytes are written in."""

    JSON = "application/json"
    YAML = "application/yaml"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A plain JSON value, and the fields that were written more than once (the last one counted)."""

    value: Any
    duplicates: tuple[str, ...] = ()


def decode_utf8(data: bytes) -> str:
    """The text. Raises TooLarge, BadRequest when it is not UTF-8."""
    if len(data) > MAX_BODY_BYTES:
        raise TooLarge(f"the request is {len(data)} bytes long, and {MAX_BODY_BYTES} are the most")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise BadRequest(
            f"line {line}, column {column}: this is not UTF-8; save the file as UTF-8"
        ) from error


def too_many_values() -> BadRequest:
    return BadRequest(f"there are more than {MOST_VALUES} values in it; make it smaller")


def too_deep() -> BadRequest:
    return BadRequest(f"it is nested more than {MAX_NESTING_DEPTH} levels deep; make it flatter")


def short(text: str) -> str:
    """The text as it may stand in a message: its beginning, if it is long."""
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def number(value: float, text: str) -> int | float:
    """The number as it is stored. Raises BadRequest when it does not fit into 64 bits."""
    if not _SMALLEST <= value <= _LARGEST:  # also what no comparison holds for
        raise BadRequest(
            f"{short(text)} is no number that fits into 64 bits; quote it if it is meant as text"
        )
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
