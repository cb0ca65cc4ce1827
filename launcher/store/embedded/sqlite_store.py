"""The port over one SQLite file: everything acknowledged survives a crash."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from launcher.core.errors import LauncherError, OutcomeUnknown, StoreCorrupted, Unavailable
from launcher.store import strategy
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.rows import Entry, Row
from launcher.store.embedded.sqlite_file import Database
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import ChangeType, Key, Version

#: Bytes by which an object may grow on a full disk: enough to stop a Framework, and to mark it for deletion.
_SMALL_GROWTH_BYTES = 1024

_CLOSED = "the store is closed"


@dataclass(slots=True, eq=False)
class _Batch:
    """Writes that are committed together, and those who wait for that."""

    entries: list[Entry] = field(default_factory=list)
    waiting: list["asyncio.Future[LauncherError | None]"] = field(default_factory=list)

    def outcome(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[LauncherError | None]":
        """What comes of it: None, or what went wrong. Each asks for one of their own, and may cancel it."""
        future = loop.create_future()
        self.waiting.append(future)
        return future

    def settle(self, error: LauncherError | None) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_result(error)


class SqliteStore(EmbeddedStore):
    """
    Objects in one file, and in memory for reading.

    Writes are decided here, one after the other, each on the state that those before it will have made. They gather in
    a batch while a thread commits the one before; only what is committed is shown and acknowledged. The history begins
    anew with every start: to keep it in the file, every object would have to be written twice.
    """

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], float], new_uid: Callable[[], str]) -> Self:
        """The store in that file, made if there is none. Raises StoreCorrupted, Unavailable."""
        thread = ThreadPoolExecutor(1, "store")
        loop = asyncio.get_running_loop()
        try:
            database, version, rows = await loop.run_in_executor(thread, _read, path)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(database, thread, version, rows, clock=clock, new_uid=new_uid)

    def __init__(
        self,
        database: Database,
        thread: ThreadPoolExecutor,
        version: Version,
        rows: list[Row],
        *,
        clock: Callable[[], float],
        new_uid: Callable[[], str],
    ) -> None:
        """*thread* alone may use *database*, whose content *version* and *rows* are."""
        super().__init__(clock, new_uid, WatchCache(version))
        for row in rows:
            self._table.put(row)
        self._database = database
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        #: The version of the last write that was taken.
        self._taken = self.version
        #: Of the objects with writes under way, the batch and the last of those writes.
        self._under_way: dict[tuple[str, Key], tuple[_Batch, Entry]] = {}
        self._gathering = _Batch()
        self._committing: _Batch | None = None
        #: Writes of which nobody knows whether they are in the file.
        self._unconfirmed: list[Entry] = []
        self._clearing = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        """Return when every write taken has been answered and the file is left alone."""
        if self._closed:
            return
        self._closed = True
        while (batch := self._committing) is not None or (batch := self._gathering).entries:
            await batch.outcome(self._loop)
        self._history.end(_CLOSED)
        await self._loop.run_in_executor(self._thread, self._database.close)
        self._thread.shutdown(wait=False)

    async def check(self) -> None:
        """A check for ``/readyz``. Raises Unavailable when writes cannot be stored."""
        self._database.check_files()

    async def check_disk(self) -> None:
        """A check for ``/readyz``. Raises Unavailable when the disk has no room, or cannot be written to."""
        self._database.reserve.check()

    async def _ready(self) -> None:
        if self._unconfirmed:
            async with self._clearing:
                await self._clear_doubt()
        if self._closed:
            raise Unavailable(_CLOSED)

    def _latest(self, resource: str, key: Key) -> Row | None:
        found = self._under_way.get((resource, key))
        if found is None:
            return self._table.get(resource, key)
        _, entry = found
        return None if entry.happened is ChangeType.DELETED else entry.row

    def _next_version(self) -> Version:
        return self._taken + 1

    async def _save(self, entry: Entry) -> None:
        if _grows(entry):
            self._database.reserve.check()
        batch = self._gathering
        if self._committing is None and not batch.entries:
            # Not at once: others who are ready to run may have writes that can share the disk's one turn.
            self._loop.call_soon(self._commit)
        batch.entries.append(entry)
        self._taken = entry.version
        self._under_way[entry.row.resource, entry.row.key] = (batch, entry)
        _raise_if(await batch.outcome(self._loop))

    async def _wait_committed(self, resource: str, key: Key) -> None:
        if found := self._under_way.get((resource, key)):
            _raise_if(await found[0].outcome(self._loop))

    def _commit(self) -> None:
        """Hand what has gathered to the thread."""
        if not self._gathering.entries:
            return
        batch, self._gathering = self._gathering, _Batch()
        self._committing = batch
        done = self._loop.run_in_executor(self._thread, self._database.commit, batch.entries)
        done.add_done_callback(lambda done: self._committed(batch, done))

    def _committed(self, batch: _Batch, done: "asyncio.Future[None]") -> None:
        self._committing = None
        match done.exception():
            case None:
                self._show_all(batch.entries)
                batch.settle(None)
                self._commit()
            case OutcomeUnknown() as error:
                self._unconfirmed = batch.entries
                self._give_up(batch, error)
            case LauncherError() as error:
                self._give_up(batch, error)
            case error:
                self._unconfirmed = batch.entries
                self._give_up(batch, OutcomeUnknown(f"the write broke off: {error!r}"))

    def _show_all(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._publish(entry)
        # What gathers meanwhile is all that is under way now.
        self._under_way = {
            (entry.row.resource, entry.row.key): (self._gathering, entry) for entry in self._gathering.entries
        }

    def _give_up(self, batch: _Batch, error: LauncherError) -> None:
        """Back to what is committed: the batch never was, nor what was built on it."""
        built_on_it, self._gathering = self._gathering, _Batch()
        self._under_way.clear()
        batch.settle(error)
        built_on_it.settle(Unavailable(f"a write before this one failed: {error}"))

    async def _clear_doubt(self) -> None:
        """Find out whether the doubtful writes are in the file. Raises Unavailable while that cannot be done."""
        if self._unconfirmed:
            try:
                version = await self._loop.run_in_executor(self._thread, self._database.version)
            except LauncherError as error:
                raise Unavailable(
                    f"{error}; nothing can be written until the last writes are known"
                ) from error
            entries, self._unconfirmed = self._unconfirmed, []
            if version >= entries[-1].version:
                self._show_all(entries)


def _grows(entry: Entry) -> bool:
    """Whether the write needs room that a full disk does not have. What is being deleted always may change."""
    if entry.happened is ChangeType.ADDED:
        return True
    before, row = entry.before, entry.row
    if entry.happened is ChangeType.DELETED or before is None or row.main is before.main:
        return False
    return len(row.main) > len(before.main) + _SMALL_GROWTH_BYTES and not strategy.is_being_deleted(
        row.object()
    )


def _read(path: Path) -> tuple[Database, Version, list[Row]]:
    database = Database(path)
    try:
        return database, database.version(), list(database.rows())
    except (ValueError, KeyError, TypeError) as error:
        database.close()
        raise StoreCorrupted(f"{path} holds what no launcher wrote: {error!r}") from error
    except BaseException:
        database.close()
        raise


def _raise_if(error: LauncherError | None) -> None:
    if error is not None:
        # Its own for each, since an exception collects the traces of all who raise it.
        raise type(error)(str(error)) from error
