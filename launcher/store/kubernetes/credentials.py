"""Who the launcher is to a cluster: what goes into the header Authorization, kept fresh."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launcher.core.errors import Unavailable

log = logging.getLogger(__name__)

#: Something new is asked for so many seconds before the old runs out.
_AHEAD = 60.0
#: And not more often than this, however short-lived it is.
_PAUSE = 10.0


class Credentials(Protocol):
    """The value of the header, now and after it was refused."""

    async def header(self) -> str | None:
        """What to send now; None for nothing. Raises Unavailable when it cannot be had."""

    async def renewed(self, refused: str | None) -> bool:
        """Whether there is, or could be had, something else than what was *refused*."""


class FixedHeader:
    """The same for ever, or nothing (a client certificate speaks for itself)."""

    def __init__(self, header: str | None = None) -> None:
        self._header = header

    async def header(self) -> str | None:
        return self._header

    async def renewed(self, refused: str | None) -> bool:
        return self._header != refused


class TokenFile:
    """A token in a file that somebody else replaces from time to time, as kubelet does."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._header: str | None = None

    async def header(self) -> str | None:
        try:
            self._look()
        except OSError as error:
            # While the file is being replaced, the old token is still good.
            if self._header is None:
                raise Unavailable(f"{self._path}: the token cannot be read: {error.strerror}") from error
        if self._header is None:
            raise Unavailable(f"{self._path}: there is no token in it")
        return self._header

    async def renewed(self, refused: str | None) -> bool:
        self._seen = None
        return await self.header() != refused

    def _look(self) -> None:
        found = os.stat(self._path)
        seen = (found.st_mtime_ns, found.st_ino, found.st_size)
        if seen != self._seen:
            token = self._path.read_text().strip()
            if token:
                self._header, self._seen = f"Bearer {token}", seen


@dataclass(frozen=True, slots=True)
class Issued:
    """What a plugin has given out, good until *expires* (seconds since 1970), or until it is refused."""

    header: str | None
    expires: float | None = None


class Plugin:
    """Whatever a program of the user's gives out, asked again before it runs out or when it is refused."""

    def __init__(self, issue: Callable[[], Awaitable[Issued]], clock: Callable[[], float]) -> None:
        """*issue* runs the program; *clock* gives seconds since 1970."""
        self._issue, self._clock = issue, clock
        self._issued: Issued | None = None
        self._asked = 0.0
        # One question at a time: the program may ask a person.
        self._asking = asyncio.Lock()

    async def header(self) -> str | None:
        if self._due():
            async with self._asking:
                if self._due():
                    await self._ask()
        assert self._issued is not None
        return self._issued.header

    async def renewed(self, refused: str | None) -> bool:
        async with self._asking:
            if self._issued is not None and self._issued.header != refused:
                return True
            if self._clock() < self._asked + _PAUSE:
                return False
            await self._ask()
        # A plugin may also have given a new client certificate, which no header shows.
        return True

    def _due(self) -> bool:
        if self._issued is None:
            return True
        expires, now = self._issued.expires, self._clock()
        return expires is not None and now >= expires - _AHEAD and now >= self._asked + _PAUSE

    async def _ask(self) -> None:
        self._asked = self._clock()
        try:
            self._issued = await self._issue()
        except Unavailable as error:
            if self._issued is None:
                raise
            # Until it is really refused, what there is may do.
            log.warning("credentials not renewed", extra={"why": str(error)})
