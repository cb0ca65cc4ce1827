"""Store in a SQLite file: every acknowledged write survives a crash."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from launcher.core.errors import LauncherError, OutcomeUnknown, StoreCorrupted, Unavailable
from launcher.core.pods.observed_pod import is_deleted
from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.rows import Entry, Row
from launcher.store.embedded.sqlite_file import Database
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import ChangeType, Key, Version

#: Bytes by which an object may grow on a full disk: enough to stop a Framework or to mark it for deletion.
_SMALL_GROWTH_BYTES = 1024

_CLOSED = "the store is closed"


@dataclass(slots=True, eq=False)
class _Batch:
    """Writes that are committed together, and their waiters."""

    entries: list[Entry] = field(default_factory=list)
    waiters: list["asyncio.Future[LauncherError | None]"] = field(default_factory=list)

    def outcome(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[LauncherError | None]":
        """Returns a future with the result: None or the error. Each caller gets its own and may cancel it."""
        future = loop.create_future()
        self.waiters.append(future)
        return future

    def resolve(self, error: LauncherError | None) -> None:
        for future in self.waiters:
            if not future.done():
                future.set_result(error)


class SqliteStore(EmbeddedStore):
    """
    Objects in one file, and in memory for reading.

    Writes are computed in order, each on the state that the earlier ones will produce. They are collected in a batch
    while a thread commits the previous one; only committed writes are published and acknowledged. The watch cache is
    empty after a restart: to persist it, every object would have to be written twice.
    """

    @classmethod
    async def open(cls, path: Path, *, clock: Callable[[], float], new_uid: Callable[[], str]) -> Self:
        """Opens or creates the store. Raises StoreCorrupted, Unavailable."""
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
        """Only *thread* may use *database*; *version* and *rows* are its content."""
        super().__init__(clock, new_uid, WatchCache(version))
        for row in rows:
            self._table.put(row)
        self._database = database
        self._thread = thread
        self._loop = asyncio.get_running_loop()
        #: The version of the last accepted write.
        self._last_version = self.version
        #: For objects with uncommitted writes, the batch and the last write.
        self._uncommitted: dict[tuple[str, Key], tuple[_Batch, Entry]] = {}
        self._next_batch = _Batch()
        self._committing: _Batch | None = None
        #: Writes that may or may not be in the file.
        self._unknown_outcome: list[Entry] = []
        self._resolving = asyncio.Lock()
        self._closed = False

    async def close(self) -> None:
        """Waits until all accepted writes are resolved, and closes the file."""
        if self._closed:
            return
        self._closed = True
        while (batch := self._committing) is not None or (batch := self._next_batch).entries:
            await batch.outcome(self._loop)
        self._watch_cache.close(_CLOSED)
        await self._loop.run_in_executor(self._thread, self._database.close)
        self._thread.shutdown(wait=False)

    async def check(self) -> None:
        """Readiness check. Raises Unavailable if writes cannot be stored."""
        self._database.check_files()

    async def check_disk(self) -> None:
        """Readiness check. Raises Unavailable if the disk is full or read-only."""
        self._database.reserve.check()

    async def _wait_until_ready(self) -> None:
        if self._unknown_outcome:
            async with self._resolving:
                await self._resolve_unknown_outcome()
        if self._closed:
            raise Unavailable(_CLOSED)

    def _latest(self, resource: str, key: Key) -> Row | None:
        uncommitted = self._uncommitted.get((resource, key))
        if uncommitted is None:
            return self._table.get(resource, key)
        _, entry = uncommitted
        return None if entry.type is ChangeType.DELETED else entry.row

    def _next_version(self) -> Version:
        return self._last_version + 1

    async def _save(self, entry: Entry) -> None:
        if _grows(entry):
            self._database.reserve.check()
        batch = self._next_batch
        if self._committing is None and not batch.entries:
            # Deferred: other ready tasks may add writes to the same commit.
            self._loop.call_soon(self._commit)
        batch.entries.append(entry)
        self._last_version = entry.version
        self._uncommitted[entry.row.resource, entry.row.key] = (batch, entry)
        _raise_if(await batch.outcome(self._loop))

    async def _wait_committed(self, resource: str, key: Key) -> None:
        if uncommitted := self._uncommitted.get((resource, key)):
            _raise_if(await uncommitted[0].outcome(self._loop))

    def _commit(self) -> None:
        """Starts the commit of the next batch."""
        if not self._next_batch.entries:
            return
        batch, self._next_batch = self._next_batch, _Batch()
        self._committing = batch
        commit = self._loop.run_in_executor(self._thread, self._database.commit, batch.entries)
        commit.add_done_callback(lambda commit: self._committed(batch, commit))

    def _committed(self, batch: _Batch, commit: "asyncio.Future[None]") -> None:
        self._committing = None
        match commit.exception():
            case None:
                self._publish_all(batch.entries)
                batch.resolve(None)
                self._commit()
            case OutcomeUnknown() as error:
                self._unknown_outcome = batch.entries
                self._give_up(batch, error)
            case LauncherError() as error:
                self._give_up(batch, error)
            case error:
                self._unknown_outcome = batch.entries
                self._give_up(batch, OutcomeUnknown(f"the write failed: {error!r}"))

    def _publish_all(self, entries: list[Entry]) -> None:
        for entry in entries:
            self._publish(entry)
        # Only writes of the next batch are uncommitted now.
        self._uncommitted = {
            (entry.row.resource, entry.row.key): (self._next_batch, entry)
            for entry in self._next_batch.entries
        }

    def _give_up(self, batch: _Batch, error: LauncherError) -> None:
        """Reverts to the committed state: fails the batch and all writes based on it."""
        built_on_it, self._next_batch = self._next_batch, _Batch()
        self._uncommitted.clear()
        batch.resolve(error)
        built_on_it.resolve(Unavailable(f"a write before this one failed: {error}"))

    async def _resolve_unknown_outcome(self) -> None:
        """Determines whether writes with unknown outcome are in the file. Raises Unavailable while it cannot."""
        if self._unknown_outcome:
            try:
                version = await self._loop.run_in_executor(self._thread, self._database.version)
            except LauncherError as error:
                raise Unavailable(
                    f"{error}; nothing can be written until the last writes are known"
                ) from error
            entries, self._unknown_outcome = self._unknown_outcome, []
            if version >= entries[-1].version:
                self._publish_all(entries)


def _grows(entry: Entry) -> bool:
    """Whether the write needs space that a full disk does not have. Objects being deleted may always change."""
    if entry.type is ChangeType.ADDED:
        return True
    before, row = entry.before, entry.row
    if entry.type is ChangeType.DELETED or before is None or row.main is before.main:
        return False
    return len(row.main) > len(before.main) + _SMALL_GROWTH_BYTES and not is_deleted(row.object())


def _read(path: Path) -> tuple[Database, Version, list[Row]]:
    database = Database(path)
    try:
        return database, database.version(), list(database.rows())
    except (ValueError, KeyError, TypeError) as error:
        database.close()
        raise StoreCorrupted(f"{path} has content that no launcher wrote: {error!r}") from error
    except BaseException:
        database.close()
        raise


def _raise_if(error: LauncherError | None) -> None:
    if error is not None:
        # A new exception for each caller, because exceptions accumulate tracebacks.
        raise type(error)(str(error)) from error
