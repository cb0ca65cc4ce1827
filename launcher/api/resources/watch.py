"""WATCH: everything that happens, as it happens, one line of JSON for each."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

import orjson
from aiohttp import web

from launcher.api.http.api_group_alias import said_lines
from launcher.api.http.content_negotiation import ONE, negotiate_format
from launcher.api.http.request_options import ListOptions, listing_of
from launcher.api.http.status import status_of
from launcher.api.resources.object_views import ObjectPrinter, include_of
from launcher.api.resources.reads import Reader, reached
from launcher.core.errors import BadRequest, Expired, Unavailable
from launcher.core.parsing.decoder import Media
from launcher.store.embedded.embedded_store import RawJsonStore
from launcher.store.interface import Change, ChangeType, Object, ResourceKind, Version
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

#: Seconds after which a watch that has said nothing of its own ends.
_SHORTEST, _LONGEST = 1800.0, 3600.0
#: A watcher that takes nothing for so many seconds is cut off.
_WRITE_SECONDS = 30.0
#: Bytes that a connection with nothing waiting takes at once, whatever its client does.
_NEVER_WAITS = 32 * 1024
#: Lines of what is there already that are sent at once.
_TOGETHER = 500
#: Changes whose text is kept for the next watcher, and the bytes that these may take.
_MOST_FRAMES = 512
_MOST_FRAME_BYTES = 8 * 1024 * 1024
_INITIAL_END = "k8s.io/initial-events-end"


class Frames:
    """The lines of the latest changes, written once for all who watch."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[object, ...], tuple[Object, bytes]] = OrderedDict()
        self._size = 0

    def line(self, change: Change, viewer: ObjectPrinter) -> bytes:
        """The line that tells of *change*, as the viewer shows it."""
        # The object stands beside its line, so that no other can be found at its address meanwhile.
        key = (id(change.object), change.happened, viewer.key)
        found = self._lines.get(key)
        if found is not None:
            return found[1]
        line = _line(change.happened, viewer.one(change.object, columns=False))
        self._lines[key] = (change.object, line)
        self._size += len(line)
        while len(self._lines) > _MOST_FRAMES or self._size > _MOST_FRAME_BYTES:
            _, (_, old) = self._lines.popitem(last=False)
            self._size -= len(old)
        return line


class Watcher:
    """Answers watches of one kind. *chance* gives numbers from 0 to 1."""

    def __init__(
        self,
        kind: ResourceKind,
        reader: Reader,
        store: RawJsonStore,
        clock: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        self._kind, self._reader, self._store = kind, reader, store
        self._clock, self._chance = clock, chance
        self._frames = Frames()

    async def watch(
        self, request: web.Request, namespace: str | None, name: str | None = None
    ) -> web.StreamResponse:
        """A stream that ends after the time asked for, or after half an hour or more; of one object with *name*."""
        look = negotiate_format(request, ONE, frozenset({Media.JSON}))
        viewer = ObjectPrinter(self._kind, look, include_of(request), self._clock)
        listing = listing_of(request, self._kind, watch=True)
        if name is not None:
            listing = _of_one(listing, name)
        if listing.initial and listing.version:
            await reached(self._store, listing.version)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = _Stream(request, response)
        try:
            await self._tell(stream, namespace, listing, viewer)
        except Expired as error:
            _, status = status_of(error)
            await stream.send(_line("ERROR", status))
        except Unavailable as error:
            # The store closes, and so does the stream: the client comes back and asks again.
            log.info("watch ended", extra={"why": str(error)})
        await response.write_eof()
        return response

    async def _tell(
        self, stream: "_Stream", namespace: str | None, listing: ListOptions, viewer: ObjectPrinter
    ) -> None:
        since = await self._tell_what_is_there(stream, namespace, listing, viewer)
        seconds = float(listing.seconds or _SHORTEST + (_LONGEST - _SHORTEST) * self._chance())
        changes = self._store.watch(
            self._kind, namespace, listing.where, since=since, bookmarks=listing.bookmarks, seconds=seconds
        )
        async with aclosing(changes):
            async for change in changes:
                await stream.send(self._line(stream, change, viewer))

    async def _tell_what_is_there(
        self, stream: "_Stream", namespace: str | None, listing: ListOptions, viewer: ObjectPrinter
    ) -> Version:
        """Send what the stream begins with, and return the version from where to go on."""
        if listing.initial is False:
            return listing.version or self._store.version
        if listing.initial is None and listing.version:
            return listing.version
        # All of it: a page's limit means nothing to a watch.
        page = await self._reader.page(namespace, replace(listing, limit=None, match=None))
        for start in range(0, len(page.texts), _TOGETHER):
            texts = page.texts[start : start + _TOGETHER]
            await stream.send(b"".join(self._first_line(stream, text, viewer) for text in texts))
        if listing.initial and listing.bookmarks:
            metadata = {"resourceVersion": str(page.version), "annotations": {_INITIAL_END: "true"}}
            mark = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
            await stream.send(_line(ChangeType.BOOKMARK, viewer.bookmark(mark)))
        return page.version

    def _first_line(self, stream: "_Stream", text: bytes, viewer: ObjectPrinter) -> bytes:
        if viewer.plain:
            return b'{"type":"ADDED","object":%b}\n' % text
        return _line(ChangeType.ADDED, viewer.one(orjson.loads(text), columns=stream.first()))

    def _line(self, stream: "_Stream", change: Change, viewer: ObjectPrinter) -> bytes:
        if change.happened is ChangeType.BOOKMARK:
            return _line(ChangeType.BOOKMARK, viewer.bookmark(change.object))
        if not viewer.plain and stream.first():
            return _line(change.happened, viewer.one(change.object))
        return self._frames.line(change, viewer)


class _Stream:
    """What goes out to one watcher."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self._request, self._response = request, response
        self._begun = False

    def first(self) -> bool:
        """Whether this is asked for the first time."""
        first, self._begun = not self._begun, True
        return first

    async def send(self, lines: bytes) -> None:
        lines = said_lines(self._request, lines)
        transport = self._request.transport
        if transport is not None and not transport.get_write_buffer_size() and len(lines) < _NEVER_WAITS:
            # A timer for each of a thousand watchers would cost more than this.
            await self._response.write(lines)
            return
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._response.write(lines)
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError("the watcher takes nothing") from None


def _of_one(listing: ListOptions, name: str) -> ListOptions:
    """The listing of the object of that name. Raises BadRequest when its selector is for another name."""
    if listing.where.name() not in (None, name):
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return replace(listing, where=listing.where & Selector.named(name))


def _line(happened: str, obj: Object) -> bytes:
    return orjson.dumps({"type": happened, "object": obj}, option=orjson.OPT_APPEND_NEWLINE)
