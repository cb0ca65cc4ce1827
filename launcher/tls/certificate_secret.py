"""The Secret in which all replicas share one certificate."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.validation.pod_template import as_object
from launcher.tls.certificate_authority import (
    Pair,
    read_certificates,
    read_pair,
    written_certificates,
    written_key,
)
from launcher.tls.rotation import CertificateSet, StoredCertificates

Object = dict[str, Any]

_SERVING, _SERVING_KEY, _AUTHORITY, _AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"
_MINE = {
    "app.kubernetes.io/name": "framework-launcher",
    "app.kubernetes.io/managed-by": "framework-launcher",
}


@dataclass(frozen=True, slots=True)
class ServingPem:
    """What a server loads, and what its clients have to trust: PEM, all of it."""

    certificate: bytes
    key: bytes
    bundle: bytes


def is_foreign(secret: Object) -> bool:
    """Whether somebody else, such as cert-manager, keeps a certificate there."""
    labels = as_object(secret["metadata"].get("labels"))
    mark = "app.kubernetes.io/managed-by"
    return labels.get(mark) != _MINE[mark] and _SERVING in as_object(secret.get("data"))


def shown_in(secret: Object) -> ServingPem:
    """What a server would show by *secret*; what is missing is empty."""
    data = as_object(secret.get("data"))
    return ServingPem(*(_bytes(data, name) for name in (_SERVING, _SERVING_KEY, _AUTHORITY)))


def found_in(secret: Object) -> StoredCertificates:
    """What can be used of *secret*, and what is wrong with the rest."""
    data = as_object(secret.get("data"))
    faults: list[str] = []
    authority = _pair(data, _AUTHORITY, _AUTHORITY_KEY, faults)
    serving = _pair(data, _SERVING, _SERVING_KEY, faults)
    try:
        trusted = read_certificates(_bytes(data, _AUTHORITY))
    except ValueError:
        trusted = ()
    return StoredCertificates(authority, trusted, serving, tuple(faults))


def new_secret(namespace: str, name: str, ring: CertificateSet) -> Object:
    """A Secret that holds *ring*."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": name, "labels": _MINE},
        "type": "kubernetes.io/tls",
        "data": _data(ring),
    }


def changed_secret(secret: Object, ring: CertificateSet) -> Object:
    """*secret* with *ring* in the place of what it held."""
    metadata = secret["metadata"]
    labels = {**as_object(metadata.get("labels")), **_MINE}
    return {**secret, "metadata": {**metadata, "labels": labels}, "data": _data(ring)}


def _data(ring: CertificateSet) -> dict[str, str]:
    texts = {
        _SERVING: written_certificates([ring.serving.certificate]),
        _SERVING_KEY: written_key(ring.serving),
        _AUTHORITY: written_certificates(ring.trusted),
        _AUTHORITY_KEY: written_key(ring.authority),
    }
    return {name: b64encode(text).decode() for name, text in texts.items()}


def _pair(data: Mapping[str, object], certificate: str, key: str, faults: list[str]) -> Pair | None:
    try:
        return read_pair(_bytes(data, certificate), _bytes(data, key))
    except ValueError as error:
        faults.append(f"{certificate} and {key} cannot be used: {error}")
        return None


def _bytes(data: Mapping[str, object], name: str) -> bytes:
    """What is kept under that name, empty if it cannot be read."""
    try:
        return b64decode(str(data.get(name, "")), validate=True)
    except ValueError:
        return b""
