"""WATCH: a stream of changes, one line of JSON each."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace

import orjson
from aiohttp import web

from launcher.api.http.content_negotiation import OBJECT_REPRESENTATIONS, negotiate_format
from launcher.api.http.request_options import ListOptions, list_options
from launcher.api.http.status import status_of
from launcher.api.http.version_conversion import lines_to_requested
from launcher.api.resources.object_views import ObjectPrinter, include_option
from launcher.api.resources.reads import ReadHandler, wait_for_version
from launcher.core.errors import BadRequest, Expired, Unavailable
from launcher.core.parsing.decoder import Media
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.interface import Change, ChangeType, Object, ResourceKind, Version
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

#: A watch without timeoutSeconds ends after a random time in this range.
_MIN_SECONDS, _MAX_SECONDS = 1800.0, 3600.0
#: A client that reads nothing for this time is disconnected.
_WRITE_SECONDS = 30.0
#: A connection with an empty buffer accepts so many bytes without waiting.
_NO_WAIT_BYTES = 32 * 1024
#: Existing objects are sent in batches of so many lines.
_INITIAL_BATCH = 500
#: Limits of the cache of encoded changes.
_MAX_CACHED_LINES = 512
_MAX_CACHED_BYTES = 8 * 1024 * 1024
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class EncodedChanges:
    """A cache of the lines of recent changes, so that each is encoded once for all watches."""

    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[object, ...], tuple[Object, bytes]] = OrderedDict()
        self._size = 0

    def line(self, change: Change, printer: ObjectPrinter) -> bytes:
        """Returns the line of *change* in the representation of *printer*."""
        # The object is kept with its line, so that its id is not reused.
        key = (id(change.object), change.type, printer.key)
        cached = self._lines.get(key)
        if cached is not None:
            return cached[1]
        line = _line(change.type, printer.one(change.object, columns=False))
        self._lines[key] = (change.object, line)
        self._size += len(line)
        while len(self._lines) > _MAX_CACHED_LINES or self._size > _MAX_CACHED_BYTES:
            _, (_, old) = self._lines.popitem(last=False)
            self._size -= len(old)
        return line


class WatchHandler:
    """Handles watches of one kind. *jitter* returns numbers from 0 to 1."""

    def __init__(
        self,
        kind: ResourceKind,
        reader: ReadHandler,
        store: EmbeddedStore,
        clock: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        self._kind, self._reader, self._store = kind, reader, store
        self._clock, self._jitter = clock, jitter
        self._encoded = EncodedChanges()

    async def watch(
        self, request: web.Request, namespace: str | None, name: str | None = None
    ) -> web.StreamResponse:
        """Streams changes, of one object if there is a *name*, until the timeout of the request or of the server."""
        response_format = negotiate_format(request, OBJECT_REPRESENTATIONS, frozenset({Media.JSON}))
        printer = ObjectPrinter(self._kind, response_format, include_option(request), self._clock)
        options = list_options(request, self._kind, watch=True)
        if name is not None:
            options = _for_one_object(options, name)
        if options.send_initial_events and options.version:
            await wait_for_version(self._store, options.version)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = _Stream(request, response)
        try:
            await self._send_all(stream, namespace, options, printer)
        except Expired as error:
            _, status = status_of(error)
            await stream.send(_line("ERROR", status))
        except Unavailable as error:
            # The store is closing; the client reconnects.
            log.info("watch ended", extra={"error": str(error)})
        await response.write_eof()
        return response

    async def _send_all(
        self, stream: "_Stream", namespace: str | None, options: ListOptions, printer: ObjectPrinter
    ) -> None:
        since = await self._send_initial(stream, namespace, options, printer)
        seconds = float(
            options.timeout_seconds or _MIN_SECONDS + (_MAX_SECONDS - _MIN_SECONDS) * self._jitter()
        )
        changes = self._store.watch(
            self._kind,
            namespace,
            options.selector,
            since=since,
            bookmarks=options.bookmarks,
            seconds=seconds,
        )
        async with aclosing(changes):
            async for change in changes:
                await stream.send(self._line(stream, change, printer))

    async def _send_initial(
        self, stream: "_Stream", namespace: str | None, options: ListOptions, printer: ObjectPrinter
    ) -> Version:
        """Sends the existing objects if requested, and returns the version to watch from."""
        if options.send_initial_events is False:
            return options.version or self._store.version
        if options.send_initial_events is None and options.version:
            return options.version
        # The limit of a page does not apply to a watch.
        page = await self._reader.page(namespace, replace(options, limit=None, match=None))
        for start in range(0, len(page.texts), _INITIAL_BATCH):
            texts = page.texts[start : start + _INITIAL_BATCH]
            await stream.send(b"".join(self._initial_line(stream, text, printer) for text in texts))
        if options.send_initial_events and options.bookmarks:
            metadata = {"resourceVersion": str(page.version), "annotations": {_INITIAL_EVENTS_END: "true"}}
            bookmark = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
            await stream.send(_line(ChangeType.BOOKMARK, printer.bookmark(bookmark)))
        return page.version

    def _initial_line(self, stream: "_Stream", text: bytes, printer: ObjectPrinter) -> bytes:
        if printer.plain:
            return b'{"type":"ADDED","object":%b}\n' % text
        return _line(ChangeType.ADDED, printer.one(orjson.loads(text), columns=stream.first()))

    def _line(self, stream: "_Stream", change: Change, printer: ObjectPrinter) -> bytes:
        if change.type is ChangeType.BOOKMARK:
            return _line(ChangeType.BOOKMARK, printer.bookmark(change.object))
        if not printer.plain and stream.first():
            return _line(change.type, printer.one(change.object))
        return self._encoded.line(change, printer)


class _Stream:
    """The response of one watch."""

    def __init__(self, request: web.Request, response: web.StreamResponse) -> None:
        self._request, self._response = request, response
        self._has_row = False

    def first(self) -> bool:
        """Returns True at the first call, for the row that carries the columns."""
        first, self._has_row = not self._has_row, True
        return first

    async def send(self, lines: bytes) -> None:
        lines = lines_to_requested(self._request, lines)
        transport = self._request.transport
        if transport is not None and not transport.get_write_buffer_size() and len(lines) < _NO_WAIT_BYTES:
            # Saves a timer for each of many watches.
            await self._response.write(lines)
            return
        try:
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._response.write(lines)
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionResetError("the client does not read the response") from None


def _for_one_object(options: ListOptions, name: str) -> ListOptions:
    """Returns the options for the object of that name. Raises BadRequest if the selector names another one."""
    if options.selector.name() not in (None, name):
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return replace(options, selector=options.selector & Selector.for_name(name))


def _line(change_type: str, obj: Object) -> bytes:
    return orjson.dumps({"type": change_type, "object": obj}, option=orjson.OPT_APPEND_NEWLINE)
