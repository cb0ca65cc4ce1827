"""
Tokens by which the pods of an attempt are known: one per attempt, of no use for any other.

A token says whose it is, and proves it by a code that only those can make who have the launcher's key. So nothing is
kept of it, every replica can check it without asking anybody, and strangers cost no more than that check.
"""

import asyncio
import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256

from launcher.core.errors import Forbidden

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

    async def bearer(self, token: str, attempt: int) -> str:
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
