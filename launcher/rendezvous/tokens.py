"""
Tokens that identify the pods of one attempt of a Framework.

A token contains the uid and the attempt, and a signature with the launcher's key. So tokens are not stored, every
replica can verify them without a request, and an invalid token costs no more than the verification.
"""

import asyncio
import hmac
import os
import re
import secrets
from base64 import b64decode, b64encode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path

from launcher.core.errors import AlreadyExists, Conflict, Forbidden, NotFound
from launcher.store.interface import SECRETS, Object, Store

#: Returns the signing key. Raises LauncherError while it is not available.
KeyProvider = Callable[[], Awaitable[bytes]]

#: The Secret that holds the key.
SECRET_NAME = "framework-launcher-discovery"  # noqa: S105 - its name, not its content
_SECRET_FIELD = "key"  # noqa: S105 - its name, not its content
_KEY_BYTES = 32
_TOKEN = re.compile(r"([0-9]{1,10})\.([0-9a-zA-Z-]{1,64})\.([0-9a-zA-Z_-]{43})")
_INVALID = "the token was not issued by this launcher; use LAUNCHER_TOKEN of the pod"


class Tokens:
    """Creates and verifies tokens. The key is fetched when it is first needed."""

    def __init__(self, key_provider: KeyProvider) -> None:
        self._key_provider = key_provider
        self._key: bytes | None = None
        self._lock = asyncio.Lock()

    async def create_token(self, uid: str, attempt: int) -> str:
        """Returns the token of an attempt of the Framework with that *uid*. Raises LauncherError without a key."""
        return f"{attempt}.{uid}.{_signature(await self._get_key(), uid, attempt)}"

    async def verify_token(self, token: str, attempt: int) -> str:
        """Returns the uid of the Framework. Raises Forbidden if the token is invalid or of another attempt."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            raise Forbidden(_INVALID)
        token_attempt, uid = int(match[1]), match[2]
        if not hmac.compare_digest(match[3], _signature(await self._get_key(), uid, token_attempt)):
            raise Forbidden(_INVALID)
        if token_attempt != attempt:
            raise Forbidden(f"the token is valid for attempt {token_attempt}, not for attempt {attempt}")
        return uid

    async def _get_key(self) -> bytes:
        if self._key is None:
            async with self._lock:
                self._key = self._key or await self._key_provider()
        return self._key


def _signature(key: bytes, uid: str, attempt: int) -> str:
    digest = hmac.digest(key, f"rendezvous/{attempt}/{uid}".encode(), sha256)
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


def key_from_file(path: Path) -> bytes:
    """Returns the key in a file that only its owner can read; created if it does not exist. Raises OSError."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        key = b""
    if len(key) == _KEY_BYTES:
        path.chmod(0o600)
        return key
    key = secrets.token_bytes(_KEY_BYTES)
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    return key


async def key_from_secret(store: Store, namespace: str) -> bytes:
    """Returns the key in the Secret, which the first replica creates. Raises LauncherError."""
    try:
        secret = await store.get(SECRETS, namespace, SECRET_NAME)
    except NotFound:
        try:
            secret = await store.create(SECRETS, _new_secret(namespace))
        except AlreadyExists:
            secret = await store.get(SECRETS, namespace, SECRET_NAME)
    return _decoded_key(secret)


def _new_secret(namespace: str) -> Object:
    key = b64encode(secrets.token_bytes(_KEY_BYTES)).decode()
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {
            "name": SECRET_NAME,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "framework-launcher"},
        },
        "type": "Opaque",
        "data": {_SECRET_FIELD: key},
    }


def _decoded_key(secret: Object) -> bytes:
    try:
        key = b64decode((secret.get("data") or {}).get(_SECRET_FIELD) or "", validate=True)
    except NotBase64:
        key = b""
    if len(key) < _KEY_BYTES:
        raise Conflict(
            f"Secret {SECRET_NAME} has no key of {_KEY_BYTES} bytes; delete it to create a new one"
        )
    return key
