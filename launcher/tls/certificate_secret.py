"""The Secret with the certificate shared by all replicas."""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.core.json_access import as_object
from launcher.tls.certificate_authority import (
    KeyPair,
    certificates_to_pem,
    key_to_pem,
    read_certificates,
    read_pair,
)
from launcher.tls.rotation import CertificateSet, StoredCertificates

Object = dict[str, Any]

_SERVING, _SERVING_KEY, _AUTHORITY, _AUTHORITY_KEY = "tls.crt", "tls.key", "ca.crt", "ca.key"
_LAUNCHER_LABELS = {
    "app.kubernetes.io/name": "framework-launcher",
    "app.kubernetes.io/managed-by": "framework-launcher",
}


@dataclass(frozen=True, slots=True)
class ServingPem:
    """Certificate, key and CA bundle as PEM."""

    certificate: bytes
    key: bytes
    bundle: bytes


def is_managed_by_other(secret: Object) -> bool:
    """Whether another program, such as cert-manager, manages a certificate in the Secret."""
    labels = as_object(secret["metadata"].get("labels"))
    label = "app.kubernetes.io/managed-by"
    return labels.get(label) != _LAUNCHER_LABELS[label] and _SERVING in as_object(secret.get("data"))


def serving_pem(secret: Object) -> ServingPem:
    """Returns the PEM texts in the Secret; missing ones are empty."""
    data = as_object(secret.get("data"))
    return ServingPem(*(_bytes(data, name) for name in (_SERVING, _SERVING_KEY, _AUTHORITY)))


def stored_certificates(secret: Object) -> StoredCertificates:
    """Parses the Secret; invalid parts are reported in ``errors``."""
    data = as_object(secret.get("data"))
    errors: list[str] = []
    authority = _pair(data, _AUTHORITY, _AUTHORITY_KEY, errors)
    serving = _pair(data, _SERVING, _SERVING_KEY, errors)
    try:
        trusted = read_certificates(_bytes(data, _AUTHORITY))
    except ValueError:
        trusted = ()
    return StoredCertificates(authority, trusted, serving, tuple(errors))


def new_secret(namespace: str, name: str, certificates: CertificateSet) -> Object:
    """Returns a new Secret with these certificates."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": namespace, "name": name, "labels": _LAUNCHER_LABELS},
        "type": "kubernetes.io/tls",
        "data": _data(certificates),
    }


def updated_secret(secret: Object, certificates: CertificateSet) -> Object:
    """Returns the Secret with its content replaced."""
    metadata = secret["metadata"]
    labels = {**as_object(metadata.get("labels")), **_LAUNCHER_LABELS}
    return {**secret, "metadata": {**metadata, "labels": labels}, "data": _data(certificates)}


def _data(certificates: CertificateSet) -> dict[str, str]:
    texts = {
        _SERVING: certificates_to_pem([certificates.serving.certificate]),
        _SERVING_KEY: key_to_pem(certificates.serving),
        _AUTHORITY: certificates_to_pem(certificates.trusted),
        _AUTHORITY_KEY: key_to_pem(certificates.authority),
    }
    return {name: b64encode(text).decode() for name, text in texts.items()}


def _pair(data: Mapping[str, object], certificate: str, key: str, errors: list[str]) -> KeyPair | None:
    try:
        return read_pair(_bytes(data, certificate), _bytes(data, key))
    except ValueError as error:
        errors.append(f"{certificate} and {key} cannot be used: {error}")
        return None


def _bytes(data: Mapping[str, object], name: str) -> bytes:
    """Returns the decoded value, empty if it is missing or invalid."""
    try:
        return b64decode(str(data.get(name, "")), validate=True)
    except ValueError:
        return b""
