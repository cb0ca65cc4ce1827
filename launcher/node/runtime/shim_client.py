"""A launcher's side of the keeper: finds it, or starts it, and speaks to it."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

import launcher
from launcher.core.errors import Unavailable
from launcher.node.shim.main import SOCKET

Json = dict[str, Any]

#: Seconds that a keeper has for its first word.
_HELLO = 20.0
#: Only what the keeper needs is imported: nothing of site-packages, and of ours nothing outside its folder.
_PROGRAM = (
    "import sys; sys.path.append({root!r}); from launcher.node.shim.main import main; main(*sys.argv[1:])"
)


async def start_shim(data: Path, options: Json) -> None:
    """A keeper listens for this data directory, if there was none before. Raises Unavailable."""
    root = str(Path(launcher.__file__).parent.parent)
    program = _PROGRAM.format(root=root)
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-S", "-X", "utf8", "-c", program, str(data), json.dumps(options)),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # A Ctrl-C in the launcher's terminal must not reach it.
        start_new_session=True,
    )
    _, said = await started.communicate()
    if started.returncode != 0:
        why = said.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unavailable(f"the keeper of {data} cannot be started: {why}")


class ShimConnection(asyncio.Protocol):
    """One connection to the keeper. Answers come by number; what nobody asked for goes to *heard*."""

    def __init__(self, heard: Callable[[Json], None]) -> None:
        self._heard = heard
        self._transport: asyncio.Transport | None = None
        self._coming = b""
        self._asked: dict[int, asyncio.Future[Json]] = {}
        self._number = 0
        loop = asyncio.get_running_loop()
        #: Set when the connection is over.
        self.over = asyncio.Event()
        #: What the keeper says first.
        self.hello: asyncio.Future[Json] = loop.create_future()

    @classmethod
    async def connect(cls, data: Path, heard: Callable[[Json], None]) -> "ShimConnection":
        """A connection to the keeper of *data*, after its hello. Raises OSError when there is none, Unavailable."""
        folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.setblocking(False)
            # A short name, since the path of a socket has little room. Such a connect does not wait.
            connected.connect(f"/proc/self/fd/{folder}/{SOCKET}")
        except BaseException:
            connected.close()
            raise
        finally:
            os.close(folder)
        loop = asyncio.get_running_loop()
        _, link = await loop.create_unix_connection(lambda: cls(heard), sock=connected)
        try:
            async with asyncio.timeout(_HELLO):
                await asyncio.shield(link.hello)
        except TimeoutError as error:
            link.close()
            raise Unavailable(f"the keeper of {data} says nothing; see keeper.log there") from error
        except BaseException:
            link.close()
            raise
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._coming = (self._coming + data).split(b"\n")
        for line in lines:
            words: Json = orjson.loads(line)
            if "hello" in words:
                self.hello.set_result(words)
            elif (asked := self._asked.pop(words.get("n", 0), None)) is not None:
                if not asked.done():
                    asked.set_result(words)
            else:
                self._heard(words)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's own signature
        self.over.set()
        for asked in (*self._asked.values(), self.hello):
            if not asked.done():
                asked.set_exception(Unavailable("the keeper of the containers has gone; it is started again"))
                asked.exception()  # nobody may be waiting any more
        self._asked.clear()

    async def request(self, what: str, **words: Any) -> Json:
        """The keeper's answer. Raises Unavailable when the connection breaks before it comes."""
        if self._transport is None or self.over.is_set():
            raise Unavailable("the keeper of the containers has gone; it is started again")
        self._number += 1
        asked: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[self._number] = asked
        # Not orjson: a path or an argument may hold bytes that are no UTF-8.
        self._transport.write(json.dumps({"op": what, "n": self._number, **words}).encode() + b"\n")
        return await asked

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
