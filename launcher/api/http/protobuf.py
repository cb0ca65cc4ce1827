"""
Config maps, secrets, services and namespaces as protobuf.

``kubectl create configmap`` and similar commands send only protobuf. Only the fields that these commands set are
decoded; responses are JSON, which they accept.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.core.errors import BadRequest
from launcher.core.protobuf_wire import LENGTH_DELIMITED, VARINT, wire_fields
from launcher.store.interface import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICES, Object, ResourceKind

_MAGIC = b"k8s\x00"
#: The field of the envelope that contains the object.
_RAW = 2

#: Returns the JSON value of a field, from its content and its value so far.
_Read = Callable[[Any, Any], Any]
_Shape = Mapping[int, tuple[str, _Read]]


def is_supported(kind: ResourceKind) -> bool:
    """Whether objects of that kind can be decoded."""
    return kind in _SHAPES


def decode_protobuf(kind: ResourceKind, data: bytes) -> Object:
    """Returns the object. Raises BadRequest."""
    if not data.startswith(_MAGIC):
        raise BadRequest("the body is not Kubernetes protobuf")
    try:
        raw = next((content for number, content in _fields(data[len(_MAGIC) :]) if number == _RAW), b"")
        if isinstance(raw, int):
            raise ValueError("no object found")
        obj = _message(_SHAPES[kind], raw)
    except (ValueError, IndexError, TypeError, AttributeError) as error:
        raise BadRequest(f"cannot decode the protobuf body: {error}") from error
    return {"apiVersion": kind.api_version, "kind": kind.kind, **obj}


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yields the number and content of each field. Objects have no numbers of fixed width."""
    for number, wire_type, content in wire_fields(data):
        if wire_type not in (VARINT, LENGTH_DELIMITED):
            raise ValueError(f"unsupported wire type {wire_type}")
        yield number, content


def _message(shape: _Shape, data: bytes) -> Object:
    obj: Object = {}
    for number, content in _fields(data):
        if number in shape:
            name, value = shape[number]
            obj[name] = value(content, obj.get(name))
    return {name: value for name, value in obj.items() if value not in ("", None)}


def _text(content: bytes, _: Any) -> str:
    return content.decode()


def _flag(content: int, _: Any) -> bool:
    return bool(content)


def _number(content: int, _: Any) -> int | None:
    # Negative numbers are encoded with 64 bits; zero is the same as unset.
    return (content - (1 << 64) if content >> 63 & 1 else content) or None


def _texts(content: bytes, previous: list[str] | None) -> list[str]:
    return [*(previous or ()), content.decode()]


def _text_entry(content: bytes, previous: dict[str, str] | None) -> dict[str, str]:
    key, value = _entry(content)
    return {**(previous or {}), key: value.decode()}


def _base64_entry(content: bytes, previous: dict[str, str] | None) -> dict[str, str]:
    key, value = _entry(content)
    return {**(previous or {}), key: base64.b64encode(value).decode()}


def _entry(content: bytes) -> tuple[str, bytes]:
    parts = dict(_fields(content))
    key, value = parts.get(1, b""), parts.get(2, b"")
    if isinstance(key, int) or isinstance(value, int):
        raise TypeError("a map entry is not text")
    return key.decode(), value


def _metadata(content: bytes, _: Any) -> Object:
    return _message(_METADATA, content)


def _service_spec(content: bytes, _: Any) -> Object:
    return _message(_SERVICE_SPEC, content)


def _service_port(content: bytes, previous: list[Object] | None) -> list[Object]:
    return [*(previous or ()), _message(_SERVICE_PORT, content)]


def _number_or_text(content: bytes, _: Any) -> int | str | None:
    fields = dict(_fields(content))
    if fields.get(1, 0) == 0:
        return _number(fields.get(2, 0), None)  # type: ignore[arg-type]  # text raises TypeError
    return _text(fields.get(3, b""), None)  # type: ignore[arg-type]  # a number raises AttributeError


_METADATA: _Shape = {
    1: ("name", _text),
    2: ("generateName", _text),
    3: ("namespace", _text),
    5: ("uid", _text),
    6: ("resourceVersion", _text),
    11: ("labels", _text_entry),
    12: ("annotations", _text_entry),
    14: ("finalizers", _texts),
}
_SERVICE_SPEC: _Shape = {
    1: ("ports", _service_port),
    2: ("selector", _text_entry),
    3: ("clusterIP", _text),
    4: ("type", _text),
    7: ("sessionAffinity", _text),
    10: ("externalName", _text),
}
_SERVICE_PORT: _Shape = {
    1: ("name", _text),
    2: ("protocol", _text),
    3: ("port", _number),
    4: ("targetPort", _number_or_text),
    5: ("nodePort", _number),
    6: ("appProtocol", _text),
}
_SHAPES: Mapping[ResourceKind, _Shape] = {
    CONFIG_MAPS: {
        1: ("metadata", _metadata),
        2: ("data", _text_entry),
        3: ("binaryData", _base64_entry),
        4: ("immutable", _flag),
    },
    SECRETS: {
        1: ("metadata", _metadata),
        2: ("data", _base64_entry),
        3: ("type", _text),
        4: ("stringData", _text_entry),
        5: ("immutable", _flag),
    },
    SERVICES: {1: ("metadata", _metadata), 2: ("spec", _service_spec)},
    NAMESPACES: {1: ("metadata", _metadata)},
}
