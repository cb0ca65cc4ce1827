"""The wire format of protobuf messages, as far as fields without a schema can be decoded."""

from collections.abc import Iterator
from typing import Final, NamedTuple

#: Wire types.
VARINT: Final = 0
LENGTH_DELIMITED: Final = 2
#: The bytes of a number of fixed width, by wire type.
_FIXED_BYTES: Final = {1: 8, 5: 4}
_MAX_UINT64: Final = 2**64 - 1


class WireField(NamedTuple):
    """One field; its content is a number if the wire type is ``VARINT``."""

    number: int
    wire_type: int
    content: int | bytes


def wire_fields(data: bytes) -> Iterator[WireField]:
    """Yields each field of the message. Raises ValueError and IndexError."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == VARINT:
            value, at = _varint(data, at)
            yield WireField(number, wire_type, value)
            continue
        if wire_type == LENGTH_DELIMITED:
            length, at = _varint(data, at)
        elif wire_type in _FIXED_BYTES:
            length = _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"unsupported wire type {wire_type}")
        if at + length > len(data):
            raise ValueError("unexpected end of data")
        yield WireField(number, wire_type, data[at : at + length])
        at += length


def encoded_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MAX_UINT64, at
        shift += 7
        if shift > 63:
            raise ValueError("number exceeds 64 bits")
