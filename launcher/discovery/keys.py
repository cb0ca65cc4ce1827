"""Where the launcher's key is kept: beside its data, or in a Secret that all replicas share."""

import os
import secrets
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from pathlib import Path

from launcher.core.errors import AlreadyExists, Conflict, NotFound
from launcher.store.port import SECRETS, Object, Store

#: The Secret with the key.
SECRET = "framework-launcher-discovery"  # noqa: S105 - its name, not what is in it
_DATA = "key"
_BYTES = 32


def filed_key(path: Path) -> bytes:
    """The key in that file, which only its owner can read; made if there is none. Raises OSError."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) == _BYTES:
        path.chmod(0o600)
        return key
    key = secrets.token_bytes(_BYTES)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    return key


async def shared_key(store: Store, namespace: str) -> bytes:
    """The key in the Secret, made by whichever replica comes first. Raises LauncherError."""
    try:
        secret = await store.get(SECRETS, namespace, SECRET)
    except NotFound:
        try:
            secret = await store.create(SECRETS, _new_secret(namespace))
        except AlreadyExists:
            secret = await store.get(SECRETS, namespace, SECRET)
    return _key_in(secret)


def _new_secret(namespace: str) -> Object:
    key = b64encode(secrets.token_bytes(_BYTES)).decode()
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": SECRET,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "framework-launcher"},
        },
        "type": "Opaque",
        "data": {_DATA: key},
    }


def _key_in(secret: Object) -> bytes:
    try:
        key = b64decode((secret.get("data") or {}).get(_DATA) or "", validate=True)
    except NotBase64:
        key = b""
    if len(key) < _BYTES:
        raise Conflict(f"the Secret {SECRET} holds no key of {_BYTES} bytes; delete it, and it is made anew")
    return key
