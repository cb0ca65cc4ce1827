"""One SQLite file: who may open it, what stands in it, and what becomes of a write that fails."""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from launcher.core.errors import DiskFull, LauncherError, OutcomeUnknown, StoreCorrupted, Unavailable
from launcher.store.embedded.commit_record import CommitRecord, State, lost, record_path
from launcher.store.embedded.database_file import (
    OF_STATUS,
    PAGE_BYTES,
    Checksums,
    checked_record,
    checksum_of,
    close_to_others,
    damaged,
    error_code,
    give_to_owner,
    inspect,
    last_version,
    meaning,
    migrate,
    our_errors,
    records,
)
from launcher.store.embedded.disk_reserve import DiskReserve
from launcher.store.embedded.rows import Entry, Row, stored_row
from launcher.store.interface import ChangeType, Version

log = logging.getLogger(__name__)

#: The log is merged into the file when it has so many pages (16 MiB). What is written again before is merged once.
_LOG_PAGES = 1024
#: The same while the disk is almost full.
_SHORT_LOG_PAGES = 32
#: SQLite takes 32766 values in one statement.
_ROWS_AT_ONCE = 4096
_Value = int | str | bytes | None


class Lock:
    """The right to use the file, for one process at a time; the system takes it back when that dies."""

    def __init__(self, path: Path) -> None:
        """Raises StoreCorrupted when another process has it."""
        place = path.with_name(path.name + ".lock")
        self._file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        give_to_owner(place)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 20).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreCorrupted(
                f"{path} is in use by another launcher (process {holder or 'unknown'}): "
                "stop that one, or choose another data directory"
            ) from None
        with suppress(OSError):  # the number only serves the message above, and a disk may be full
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._file)


class Database:
    """The file, open. All methods block, and are for one thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make it. Raises StoreCorrupted, and then has not changed it, or Unavailable."""
        self._path = path
        self._connection: sqlite3.Connection | None = None
        #: Which files are open, and whether one of them was found to be gone.
        self._files: dict[str, tuple[int, int] | None] = {}
        self._gone = False
        #: What is being committed, until its outcome is known.
        self._under_way: _Changes | None = None
        with our_errors(path):
            self._lock = Lock(path)
            try:
                #: Room for what must work on a full disk.
                self.reserve = DiskReserve(path)
                record = checked_record(path)
                found = inspect(path)
                if how := lost(found.state, record):
                    raise damaged(path, how)
                self._checksums = found.checksums
                close_to_others(path)
                self._connection = self._connect()
                state = State(self._version(), self._checksums.digest)
                self._record = CommitRecord(path, state, record.sequence if record else 0)
                self._files = _identities(path)
            except BaseException:
                self._disconnect()
                self._lock.release()
                raise

    def _connect(self) -> sqlite3.Connection:
        self._short_log = False
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            migrate(connection)
        except BaseException:
            connection.close()
            raise
        if self.reserve.low():
            self._extend_log()
        return connection

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._disconnect()
        self._record.close()
        self._lock.release()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self.check_files()  # SQLite would create a new file in the place of one that was removed
            self._connection = self._connect()
            self._files = _identities(self._path)
        return self._connection

    def check_files(self) -> None:
        """
        Raises Unavailable when a file was removed or replaced: what is written to the open one would be lost.

        Any thread may call it. The files are used again when they are put back; they are never created anew.
        """
        # SQLite removes its log and its index when it closes the database.
        self._check_files(self._files if self._connection is not None else [str(self._path)])

    def _check_files(self, places: Iterable[str]) -> None:
        changed = [place for place in places if _identity(place) != self._files[place]]
        if bool(changed) is not self._gone:
            self._gone = bool(changed)
            if changed:
                log.error("a file of the store was removed or replaced", extra={"path": changed[0]})
            else:
                log.warning("the files of the store are back", extra={"path": str(self._path)})
        if changed:
            raise Unavailable(
                f"{changed[0]} was removed or replaced while the launcher runs: nothing can be stored until the "
                "file is put back, or the launcher is restarted"
            )

    def version(self) -> Version:
        """The last version that was ever written. Raises Unavailable, and StoreCorrupted when it is an older one."""
        self.check_files()
        with our_errors(self._path):
            version = self._version()
        if version < (last := self._record.acknowledged.version):
            raise damaged(self._path, f"version {last} was acknowledged, and it ends at version {version}")
        with our_errors(self._path):
            self._resolve(version)
        return version

    def _version(self) -> Version:
        return last_version(self._connected())

    def rows(self) -> Iterator[Row]:
        """All objects. Raises StoreCorrupted when one of them is not as it was written."""
        with our_errors(self._path):
            for record in records(self._path, self._connected()):
                yield stored_row(*record)

    def commit(self, entries: Sequence[Entry]) -> None:
        """
        Write all of them, to last.

        Raises Unavailable when none of them was written, and OutcomeUnknown when that cannot be found out now; then
        ``version`` tells as soon as it can be asked.
        """
        changes = _Changes(entries)
        try:
            self._commit(changes)
        except DiskFull:
            new = any(entry.happened is ChangeType.ADDED for entry in entries)
            if new or not self.reserve.release():
                raise
            self._extend_log()
            self._commit(changes)

    def _commit(self, changes: "_Changes") -> None:
        self.check_files()
        with our_errors(self._path):
            self._record.begin(State(changes.version, _digest_after(self._checksums, changes.checksums)))
        self._under_way = changes
        try:
            connection = self._connected()
            self._bound_log(connection)
            self._write(connection, changes)
        except sqlite3.Error as error:
            if not self._has_written(changes, error):
                raise meaning(self._path, error) from error
        try:
            self._resolve(changes.version)
        except OSError as error:
            raise OutcomeUnknown(f"{self._path}: the commit was not recorded: {error.strerror}") from error
        try:
            self.check_files()
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from error

    def _resolve(self, version: Version) -> None:
        """Records whether the commit under way, if there is one, is in a file that ends at *version*."""
        changes = self._under_way
        if changes is not None and version >= changes.version:
            self._record.end()
            _update(self._checksums, changes.checksums)
        self._under_way = None

    def _bound_log(self, connection: sqlite3.Connection) -> None:
        """Merges the log early while the disk is almost full, so that it needs no more room than it has."""
        if (low := self.reserve.low()) is not self._short_log:
            self._short_log = low
            pages = _SHORT_LOG_PAGES if self._short_log else _LOG_PAGES
            connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def _extend_log(self) -> None:
        """Gives the log blocks for a short one, before another program takes them. SQLite ignores the empty end."""
        with suppress(OSError):
            log_file = os.open(f"{self._path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(log_file, 0, 2 * _SHORT_LOG_PAGES * PAGE_BYTES)
            finally:
                os.close(log_file)

    def _write(self, connection: sqlite3.Connection, changes: "_Changes") -> None:
        statements = changes.statements()
        if len(statements) == 1:
            # One statement is a transaction of its own. It runs without the interpreter's lock, so that a busy
            # program does not hold up the disk, nor the other way round; every further one would ask for it again.
            connection.execute(*statements[0])
            return
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in statements:
            connection.execute(statement, values)
        connection.execute("COMMIT")

    def _has_written(self, changes: "_Changes", error: sqlite3.Error) -> bool:
        """Whether a commit that failed took effect all the same. Raises OutcomeUnknown."""
        try:
            # After an I/O error the log may hold what was never confirmed. Opened anew, SQLite decides what
            # counts, and then stays with it.
            if error_code(error) == sqlite3.SQLITE_IOERR:
                self._disconnect()
            elif self._connection is not None and self._connection.in_transaction:
                self._connection.rollback()
            return self.version() >= changes.version
        except (sqlite3.Error, LauncherError) as second:
            with suppress(sqlite3.Error):
                self._disconnect()
            raise OutcomeUnknown(f"{self._path}: {error}; and it cannot be read back: {second}") from error


def _identities(path: Path) -> dict[str, tuple[int, int] | None]:
    """Which files are in the places of the database, its log, its index and its record."""
    places = (str(path), f"{path}-wal", f"{path}-shm", str(record_path(path)))
    return {place: _identity(place) for place in places}


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _digest_after(checksums: Checksums, changes: "_ChangedChecksums") -> int:
    digest = checksums.digest
    for now, new in ((checksums.objects, changes.objects), (checksums.statuses, changes.statuses)):
        digest += sum(new.values()) - sum(now.get(number, 0) for number in chain(new, changes.gone))
    return digest


def _update(checksums: Checksums, changes: "_ChangedChecksums") -> None:
    checksums.digest = _digest_after(checksums, changes)
    for now, new in ((checksums.objects, changes.objects), (checksums.statuses, changes.statuses)):
        now.update(new)
        for number in changes.gone:
            now.pop(number, None)


class _ChangedChecksums(NamedTuple):
    """The checksums of the rows that a commit writes, and the numbers of the objects that it deletes."""

    objects: Mapping[int, int]
    statuses: Mapping[int, int]
    gone: Sequence[int]


class _Changes:
    """The rows that make the file say what the last entry on each object says."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        mains: dict[int, Row] = {}
        statuses: dict[int, Row] = {}
        gone: dict[int, None] = {}
        for happened, row, before in entries:
            if happened is ChangeType.DELETED:
                mains.pop(row.number, None)
                statuses.pop(row.number, None)
                gone[row.number] = None
                continue
            if before is None or row.main is not before.main:
                mains[row.number] = row
            if row.status is not (None if before is None else before.status):
                statuses[row.number] = row
        self.version = entries[-1].version
        self._mains = [_main_columns(row) for row in mains.values()]
        self._statuses = [_status_columns(row) for row in statuses.values()]
        self._gone = list(gone)
        self.checksums = _ChangedChecksums(_by_number(self._mains), _by_number(self._statuses), self._gone)

    def statements(self) -> list[tuple[str, list[_Value]]]:
        statements = [*_insertions("objects", self._mains), *_insertions("statuses", self._statuses)]
        if self._gone:
            statements += [
                *_deletions("objects", self._gone),
                *_deletions("statuses", self._gone),
                ("UPDATE progress SET version = ?", [self.version]),
            ]
        return statements


def _by_number(rows: Sequence[tuple[Any, ...]]) -> dict[int, int]:
    """The last column of each row, its checksum, by the first."""
    return {row[0]: row[-1] for row in rows}


def _main_columns(row: Row) -> tuple[_Value, ...]:
    number, version, resource, main = row.number, row.version, row.resource, row.main
    return number, version, resource, main, checksum_of(number, version, resource, main)


def _status_columns(row: Row) -> tuple[_Value, ...]:
    number, version, status = row.number, row.version, row.status
    return number, version, status, checksum_of(number, version, OF_STATUS, status)


def _insertions(table: str, rows: Sequence[tuple[_Value, ...]]) -> Iterator[tuple[str, list[_Value]]]:
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[first : first + _ROWS_AT_ONCE]
        marks = ", ".join(["(" + ", ".join("?" * len(some[0])) + ")"] * len(some))
        yield f"INSERT OR REPLACE INTO {table} VALUES {marks}", [*chain.from_iterable(some)]  # noqa: S608  our names


def _deletions(table: str, numbers: Sequence[int]) -> Iterator[tuple[str, list[_Value]]]:
    for first in range(0, len(numbers), _ROWS_AT_ONCE):
        some = numbers[first : first + _ROWS_AT_ONCE]
        marks = ", ".join("?" * len(some))
        yield f"DELETE FROM {table} WHERE number IN ({marks})", [*some]  # noqa: S608  our names


def create(path: Path, rows: Sequence[Row]) -> None:
    """Creates a database of these rows, which no launcher uses yet. Raises sqlite3.Error."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        migrate(connection)
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in (
            _Changes([Entry(ChangeType.ADDED, row) for row in rows]).statements() if rows else ()
        ):
            connection.execute(statement, values)
        connection.execute("COMMIT")
