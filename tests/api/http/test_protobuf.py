"""What kubectl sends as protobuf and nothing else."""

import base64
from typing import Any

import pytest

from launcher.api.http import protobuf
from launcher.api.http.request_types import PROTOBUF
from launcher.core.errors import BadRequest
from launcher.store.interface import CONFIG_MAPS, SECRETS, SERVICES
from tests.api.conftest import Api

CORE = "/api/v1/namespaces/default"


def number(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + number(rest) if rest else bytes([low])


def field(number_of_field: int, content: bytes | str | int) -> bytes:
    if isinstance(content, int):
        return number(number_of_field << 3) + number(content)
    content = content.encode() if isinstance(content, str) else content
    return number(number_of_field << 3 | 2) + number(len(content)) + content


def entry(number_of_field: int, key: str, value: bytes | str) -> bytes:
    return field(number_of_field, field(1, key) + field(2, value))


def sent(raw: bytes, kind: str) -> bytes:
    about = field(1, "v1") + field(2, kind)
    return b"k8s\x00" + field(1, about) + field(2, raw) + field(3, "") + field(4, "")


METADATA = field(
    1, field(1, "c") + field(3, "default") + field(8, b"") + entry(11, "a", "b") + entry(11, "c", "")
)


def test_a_config_map_is_decoded() -> None:
    raw = METADATA + entry(2, "k", "x" * 300) + entry(2, "l", "") + entry(3, "bin", b"\xff") + field(4, 1)

    assert protobuf.decode_protobuf(CONFIG_MAPS, sent(raw, "ConfigMap")) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": "default", "labels": {"a": "b", "c": ""}},
        "data": {"k": "x" * 300, "l": ""},
        "binaryData": {"bin": base64.b64encode(b"\xff").decode()},
        "immutable": True,
    }


def test_a_secret_is_decoded() -> None:
    raw = METADATA + entry(2, "k", b"\x00\xff") + field(3, "Opaque")

    secret = protobuf.decode_protobuf(SECRETS, sent(raw, "Secret"))

    assert (secret["type"], secret["data"]) == ("Opaque", {"k": base64.b64encode(b"\x00\xff").decode()})


def test_a_service_is_decoded() -> None:
    numbered = field(1, "80-8080") + field(2, "TCP") + field(3, 80) + field(4, field(1, 0) + field(2, 8080))
    ports = field(1, numbered + field(5, 0)) + field(
        1, field(3, 443) + field(4, field(1, 1) + field(3, "https"))
    )
    raw = (
        METADATA
        + field(2, ports + entry(2, "app", "web") + field(3, "") + field(4, "ClusterIP"))
        + field(3, b"")
    )

    assert protobuf.decode_protobuf(SERVICES, sent(raw, "Service"))["spec"] == {
        "ports": [
            {"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080},
            {"port": 443, "targetPort": "https"},
        ],
        "selector": {"app": "web"},
        "type": "ClusterIP",
    }


def test_a_negative_number_is_decoded() -> None:
    raw = METADATA + field(2, field(1, field(3, 2**64 - 5)))

    assert protobuf.decode_protobuf(SERVICES, sent(raw, "Service"))["spec"] == {"ports": [{"port": -5}]}


async def test_protobuf_of_other_kinds_is_rejected_with_a_hint(api: Api) -> None:
    reported = (await api.post(f"{CORE}/pods", sent(METADATA, "Pod"), PROTOBUF)).failure(
        415, "UnsupportedMediaType"
    )

    assert "--dry-run=client -o yaml" in reported["message"]
    assert "kubectl create -f -" in reported["message"]


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
        b"k8s\x00" + field(2, field(2, field(1, field(3, "80")))),
        b"k8s\x00" + field(2, field(2, field(1, field(4, field(2, "80"))))),
    ],
    ids=[
        "JSON",
        "cut off",
        "an endless number",
        "another wire type",
        "no text",
        "no message",
        "no object",
        "no number",
        "neither number nor text",
    ],
)
def test_malformed_protobuf_is_rejected(data: bytes) -> None:
    with pytest.raises(BadRequest):
        protobuf.decode_protobuf(SERVICES, data)


@pytest.mark.parametrize(
    ("path", "raw", "kind"),
    [
        (f"{CORE}/configmaps", METADATA + entry(2, "k", "v"), "ConfigMap"),
        (f"{CORE}/secrets", METADATA + entry(2, "k", b"v"), "Secret"),
        (f"{CORE}/services", METADATA + field(2, field(1, field(3, 80)) + field(4, "ClusterIP")), "Service"),
        ("/api/v1/namespaces", field(1, field(1, "team")), "Namespace"),
    ],
)
async def test_an_object_in_protobuf_is_stored(api: Api, path: str, raw: bytes, kind: str) -> None:
    response = await api.post(path, sent(raw, kind), PROTOBUF)

    assert (response.status, response.headers["Content-Type"]) == (201, "application/json")
    stored: dict[str, Any] = response.json()
    assert (stored["kind"], stored["apiVersion"]) == (kind, "v1")
    assert (await api.get(f"{path}/{stored['metadata']['name']}")).json() == stored
