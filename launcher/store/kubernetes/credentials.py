"""The launcher's credentials for a cluster: the Authorization header."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launcher.core.errors import Unavailable

log = logging.getLogger(__name__)

#: Credentials are refreshed this long before they expire,
_REFRESH_AHEAD_SECONDS = 60.0
#: and not more often than this, however short-lived they are.
_MIN_INTERVAL_SECONDS = 10.0


class Credentials(Protocol):
    """Source of the Authorization header."""

    async def header(self) -> str | None:
        """Returns the header to send, or None. Raises Unavailable."""

    async def refresh(self, rejected: str | None) -> bool:
        """Returns whether there are now credentials other than the *rejected* header."""


class FixedHeader:
    """A fixed header, or none if a client certificate is used."""

    def __init__(self, header: str | None = None) -> None:
        self._header = header

    async def header(self) -> str | None:
        return self._header

    async def refresh(self, rejected: str | None) -> bool:
        return self._header != rejected


class TokenFile:
    """A token in a file that is replaced from time to time, for example by kubelet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file_identity: tuple[int, int, int] | None = None
        self._header: str | None = None

    async def header(self) -> str | None:
        try:
            self._read_if_changed()
        except OSError as error:
            # While the file is being replaced, the previous token is still valid.
            if self._header is None:
                raise Unavailable(f"{self._path}: the token cannot be read: {error.strerror}") from error
        if self._header is None:
            raise Unavailable(f"{self._path}: the file has no token")
        return self._header

    async def refresh(self, rejected: str | None) -> bool:
        self._file_identity = None
        return await self.header() != rejected

    def _read_if_changed(self) -> None:
        status = os.stat(self._path)
        identity = (status.st_mtime_ns, status.st_ino, status.st_size)
        if identity != self._file_identity:
            token = self._path.read_text().strip()
            if token:
                self._header, self._file_identity = f"Bearer {token}", identity


@dataclass(frozen=True, slots=True)
class IssuedCredentials:
    """Credentials issued by a plugin, valid until *expires* (seconds since 1970) or until rejected."""

    header: str | None
    expires: float | None = None


class CredentialPlugin:
    """Credentials of a plugin, which runs again before they expire or when they are rejected."""

    def __init__(self, issue: Callable[[], Awaitable[IssuedCredentials]], clock: Callable[[], float]) -> None:
        """*issue* runs the plugin; *clock* returns seconds since 1970."""
        self._issue, self._clock = issue, clock
        self._issued: IssuedCredentials | None = None
        self._issued_at = 0.0
        # One run at a time: the plugin may prompt the user.
        self._lock = asyncio.Lock()

    async def header(self) -> str | None:
        if self._is_due():
            async with self._lock:
                if self._is_due():
                    await self._refresh()
        assert self._issued is not None
        return self._issued.header

    async def refresh(self, rejected: str | None) -> bool:
        async with self._lock:
            if self._issued is not None and self._issued.header != rejected:
                return True
            if self._clock() < self._issued_at + _MIN_INTERVAL_SECONDS:
                return False
            await self._refresh()
        # The plugin may have issued a new client certificate, which does not change the header.
        return True

    def _is_due(self) -> bool:
        if self._issued is None:
            return True
        expires, now = self._issued.expires, self._clock()
        return (
            expires is not None
            and now >= expires - _REFRESH_AHEAD_SECONDS
            and now >= self._issued_at + _MIN_INTERVAL_SECONDS
        )

    async def _refresh(self) -> None:
        self._issued_at = self._clock()
        try:
            self._issued = await self._issue()
        except Unavailable as error:
            if self._issued is None:
                raise
            # The current credentials may still be accepted.
            log.warning("credentials not refreshed", extra={"error": str(error)})
