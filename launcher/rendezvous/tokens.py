"""
Tokens by which the pods of an attempt are known: one per attempt, of no use for any other.

A token says whose it is, and proves it by a code that only those can make who have the launcher's key. So nothing is
kept of it, every replica can check it without asking anybody, and strangers cost no more than that check.
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

#: Fetches the launcher's key. Raises LauncherError while it cannot be had.
Key = Callable[[], Awaitable[bytes]]

_TOKEN = re.compile(r"([0-9]{1,10})\.([0-9a-zA-Z-]{1,64})\.([0-9a-zA-Z_-]{43})")
_WRONG = "this token was not made by this launcher: a pod finds its own in LAUNCHER_TOKEN"


class Tokens:
    """Makes and reads tokens; the key is fetched when it is first needed."""

    def __init__(self, key: Key) -> None:
        self._fetch = key
        self._key: bytes | None = None
        self._fetching = asyncio.Lock()

    async def token(self, uid: str, attempt: int) -> str:
        """The token of that attempt of the Framework with that *uid*. Raises LauncherError while there is no key."""
        return f"{attempt}.{uid}.{_code(await self._known(), uid, attempt)}"

    async def verify_token(self, token: str, attempt: int) -> str:
        """The uid of the Framework whose *attempt* the token is for. Raises Forbidden if it is for nothing of that."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            raise Forbidden(_WRONG)
        said, uid = int(found[1]), found[2]
        if not hmac.compare_digest(found[3], _code(await self._known(), uid, said)):
            raise Forbidden(_WRONG)
        if said != attempt:
            raise Forbidden(f"this token is for attempt {said}, not for attempt {attempt}")
        return uid

    async def _known(self) -> bytes:
        if self._key is None:
            async with self._fetching:
                self._key = self._key or await self._fetch()
        return self._key


def _code(key: bytes, uid: str, attempt: int) -> str:
    digest = hmac.digest(key, f"rendezvous/{attempt}/{uid}".encode(), sha256)
    return urlsafe_b64encode(digest).rstrip(b"=").decode()


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
