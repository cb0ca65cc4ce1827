"""What kubectl sends as protobuf and nothing else."""

import base64
from typing import Any

import pytest

from launcher.api import protobuf
from launcher.core.errors import BadRequest
from launcher.store.port import CONFIG_MAPS, NAMESPACES, SECRETS
from tests.api.conftest import Api

CORE = "/api/v1/namespaces/default"


def number(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + number(rest) if rest else bytes([low])


def field(place: int, content: bytes | str | int) -> bytes:
    if isinstance(content, int):
        return number(place << 3) + number(content)
    content = content.encode() if isinstance(content, str) else content
    return number(place << 3 | 2) + number(len(content)) + content


def entry(place: int, key: str, value: bytes | str) -> bytes:
    return field(place, field(1, key) + field(2, value))


def sent(raw: bytes, kind: str) -> bytes:
    about = field(1, "v1") + field(2, kind)
    return b"k8s\x00" + field(1, about) + field(2, raw) + field(3, "") + field(4, "")


METADATA = field(
    1, field(1, "c") + field(3, "default") + field(8, b"") + entry(11, "a", "b") + entry(11, "c", "")
)


def test_a_config_map_is_read() -> None:
    raw = METADATA + entry(2, "k", "x" * 300) + entry(2, "l", "") + entry(3, "bin", b"\xff") + field(4, 1)

    assert protobuf.read(CONFIG_MAPS, sent(raw, "ConfigMap")) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "labels": {"a": "b", "c": ""}},
        "data": {"k": "x" * 300, "l": ""},
        "binaryData": {"bin": base64.b64encode(b"\xff").decode()},
        "immutable": True,
    }


def test_a_secret_is_read() -> None:
    raw = METADATA + entry(2, "k", b"\x00\xff") + field(3, "Opaque")

    secret = protobuf.read(SECRETS, sent(raw, "Secret"))

    assert (secret["type"], secret["data"]) == ("Opaque", {"k": base64.b64encode(b"\x00\xff").decode()})


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"k8s\x00" + b"\x12\x05ab",
        b"k8s\x00" + b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"k8s\x00" + b"\x15\x00\x00\x00\x00",
        b"k8s\x00" + field(2, field(1, field(1, b"\xff"))),
        b"k8s\x00" + field(2, field(1, 5)),
        b"k8s\x00" + field(2, 7),
    ],
    ids=["JSON", "cut off", "an endless number", "another wire type", "no text", "no message", "no object"],
)
def test_what_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequest):
        protobuf.read(NAMESPACES, data)


@pytest.mark.parametrize(
    ("path", "raw", "kind"),
    [
        (f"{CORE}/configmaps", METADATA + entry(2, "k", "v"), "ConfigMap"),
        (f"{CORE}/secrets", METADATA + entry(2, "k", b"v"), "Secret"),
        ("/api/v1/namespaces", field(1, field(1, "team")), "Namespace"),
    ],
)
async def test_it_is_stored_like_anything_else(api: Api, path: str, raw: bytes, kind: str) -> None:
    answer = await api.post(path, sent(raw, kind), protobuf.TYPE)

    assert (answer.status, answer.headers["Content-Type"]) == (201, "application/json")
    stored: dict[str, Any] = answer.json()
    assert (stored["kind"], stored["apiVersion"]) == (kind, "v1")
    assert (await api.get(f"{path}/{stored['metadata']['name']}")).json() == stored
