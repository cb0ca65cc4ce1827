"""The open SQLite file: locking, content, commits and their failures."""

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
from launcher.store.embedded.commit_record import CommitRecord, DatabaseState, loss_message, record_path
from launcher.store.embedded.database_file import (
    PAGE_BYTES,
    STATUS_RESOURCE,
    Checksums,
    chown_to_directory_owner,
    corruption_error,
    create_private_file,
    error_code,
    inspect,
    last_version,
    migrate,
    our_errors,
    read_checked_record,
    records,
    row_checksum,
    translated_error,
)
from launcher.store.embedded.disk_reserve import DiskReserve
from launcher.store.embedded.rows import Entry, Row, stored_row
from launcher.store.interface import ChangeType, Version

log = logging.getLogger(__name__)

#: Checkpoint when the log has this many pages (16 MiB). Repeated writes to a page are merged once.
_WAL_PAGES = 1024
#: The same while the disk is almost full.
_SHORT_WAL_PAGES = 32
#: SQLite permits 32766 values per statement.
_MAX_ROWS_PER_STATEMENT = 4096
_Value = int | str | bytes | None


class DatabaseLock:
    """Exclusive lock on the file; released by the system when the process ends."""

    def __init__(self, path: Path) -> None:
        """Raises StoreCorrupted if another process holds it."""
        file = path.with_name(path.name + ".lock")
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        chown_to_directory_owner(file)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 20).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreCorrupted(
                f"{path} is in use by another launcher (process {holder or 'unknown'}): "
                "stop that one, or choose another data directory"
            ) from None
        with suppress(OSError):  # only needed for the message above, and the disk may be full
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._file)


class Database:
    """The open file. All methods block; one thread may use them at a time."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the file. Raises StoreCorrupted, in which case the file is unchanged, or Unavailable."""
        self._path = path
        self._connection: sqlite3.Connection | None = None
        #: Identities of the open files, and whether one of them was removed.
        self._files: dict[str, tuple[int, int] | None] = {}
        self._files_missing = False
        #: The current commit, until its outcome is known.
        self._uncommitted: _Changes | None = None
        with our_errors(path):
            self._lock = DatabaseLock(path)
            try:
                #: Space for writes that must work on a full disk.
                self.reserve = DiskReserve(path)
                record = read_checked_record(path)
                inspection = inspect(path)
                if loss := loss_message(inspection.state, record):
                    raise corruption_error(path, loss)
                self._checksums = inspection.checksums
                create_private_file(path)
                self._connection = self._connect()
                state = DatabaseState(self._version(), self._checksums.digest)
                self._record = CommitRecord(path, state, record.sequence if record else 0)
                self._files = _identities(path)
            except BaseException:
                self._disconnect()
                self._lock.release()
                raise

    def _connect(self) -> sqlite3.Connection:
        self._short_wal = False
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
            migrate(connection)
        except BaseException:
            connection.close()
            raise
        if self.reserve.low():
            self._preallocate_wal()
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
            self.check_files()  # SQLite would create a new file if it was removed
            self._connection = self._connect()
            self._files = _identities(self._path)
        return self._connection

    def check_files(self) -> None:
        """
        Raises Unavailable if a file was removed or replaced: writes to the open one would be lost.

        Thread-safe. The files are used again when they are put back; they are never recreated.
        """
        # SQLite removes its log and index when it closes the database.
        self._check_files(self._files if self._connection is not None else [str(self._path)])

    def _check_files(self, paths: Iterable[str]) -> None:
        changed = [file for file in paths if _identity(file) != self._files[file]]
        if bool(changed) is not self._files_missing:
            self._files_missing = bool(changed)
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
        """Returns the last version that was ever written. Raises Unavailable, or StoreCorrupted if it is outdated."""
        self.check_files()
        with our_errors(self._path):
            version = self._version()
        if version < (last := self._record.acknowledged.version):
            raise corruption_error(
                self._path, f"version {last} was acknowledged, and it ends at version {version}"
            )
        with our_errors(self._path):
            self._resolve(version)
        return version

    def _version(self) -> Version:
        return last_version(self._connected())

    def rows(self) -> Iterator[Row]:
        """Yields all objects. Raises StoreCorrupted at a damaged one."""
        with our_errors(self._path):
            for record in records(self._path, self._connected()):
                yield stored_row(*record)

    def commit(self, entries: Sequence[Entry]) -> None:
        """
        Commits all entries durably.

        Raises Unavailable if none was written, and OutcomeUnknown if that cannot be determined now; ``version``
        determines it later.
        """
        changes = _Changes(entries)
        try:
            self._commit(changes)
        except DiskFull:
            new = any(entry.type is ChangeType.ADDED for entry in entries)
            if new or not self.reserve.release():
                raise
            self._preallocate_wal()
            self._commit(changes)

    def _commit(self, changes: "_Changes") -> None:
        self.check_files()
        with our_errors(self._path):
            self._record.begin(
                DatabaseState(changes.version, _digest_after(self._checksums, changes.checksums))
            )
        self._uncommitted = changes
        try:
            connection = self._connected()
            self._adjust_checkpoints(connection)
            self._write(connection, changes)
        except sqlite3.Error as error:
            if not self._was_committed(changes, error):
                raise translated_error(self._path, error) from error
        try:
            self._resolve(changes.version)
        except OSError as error:
            raise OutcomeUnknown(f"{self._path}: the commit was not recorded: {error.strerror}") from error
        try:
            self.check_files()
        except Unavailable as error:
            raise OutcomeUnknown(str(error)) from error

    def _resolve(self, version: Version) -> None:
        """Records whether a file that ends at *version* includes the current commit, if there is one."""
        changes = self._uncommitted
        if changes is not None and version >= changes.version:
            self._record.end()
            _update(self._checksums, changes.checksums)
        self._uncommitted = None

    def _adjust_checkpoints(self, connection: sqlite3.Connection) -> None:
        """Checkpoints early while the disk is almost full, so that the log does not grow."""
        if (low := self.reserve.low()) is not self._short_wal:
            self._short_wal = low
            pages = _SHORT_WAL_PAGES if self._short_wal else _WAL_PAGES
            connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")

    def _preallocate_wal(self) -> None:
        """Allocates blocks for a short log before another program uses them. SQLite ignores the empty end."""
        with suppress(OSError):
            log_file = os.open(f"{self._path}-wal", os.O_RDWR | os.O_CLOEXEC)
            try:
                os.posix_fallocate(log_file, 0, 2 * _SHORT_WAL_PAGES * PAGE_BYTES)
            finally:
                os.close(log_file)

    def _write(self, connection: sqlite3.Connection, changes: "_Changes") -> None:
        statements = changes.statements()
        if len(statements) == 1:
            # A single statement is its own transaction. It runs without the GIL, so that a busy program does not
            # delay the disk, nor the reverse; every further statement would acquire it again.
            connection.execute(*statements[0])
            return
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in statements:
            connection.execute(statement, values)
        connection.execute("COMMIT")

    def _was_committed(self, changes: "_Changes", error: sqlite3.Error) -> bool:
        """Whether a failed commit took effect. Raises OutcomeUnknown."""
        try:
            # After an I/O error the log may contain unconfirmed data. When it is reopened, SQLite decides what is
            # valid.
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
    """Returns the identities of the database, its log, its index and its record."""
    paths = (str(path), f"{path}-wal", f"{path}-shm", str(record_path(path)))
    return {file: _identity(file) for file in paths}


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _digest_after(checksums: Checksums, changes: "_ChecksumChanges") -> int:
    digest = checksums.digest
    for now, new in ((checksums.objects, changes.objects), (checksums.statuses, changes.statuses)):
        digest += sum(new.values()) - sum(now.get(number, 0) for number in chain(new, changes.deleted))
    return digest


def _update(checksums: Checksums, changes: "_ChecksumChanges") -> None:
    checksums.digest = _digest_after(checksums, changes)
    for now, new in ((checksums.objects, changes.objects), (checksums.statuses, changes.statuses)):
        now.update(new)
        for number in changes.deleted:
            now.pop(number, None)


class _ChecksumChanges(NamedTuple):
    """Checksums of the rows that a commit writes, and numbers of the objects that it deletes."""

    objects: Mapping[int, int]
    statuses: Mapping[int, int]
    deleted: Sequence[int]


class _Changes:
    """The rows that apply the last entry of each object to the file."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        mains: dict[int, Row] = {}
        statuses: dict[int, Row] = {}
        deleted: dict[int, None] = {}
        for change_type, row, before in entries:
            if change_type is ChangeType.DELETED:
                mains.pop(row.number, None)
                statuses.pop(row.number, None)
                deleted[row.number] = None
                continue
            if before is None or row.main is not before.main:
                mains[row.number] = row
            if row.status is not (None if before is None else before.status):
                statuses[row.number] = row
        self.version = entries[-1].version
        self._mains = [_main_columns(row) for row in mains.values()]
        self._statuses = [_status_columns(row) for row in statuses.values()]
        self._deleted = list(deleted)
        self.checksums = _ChecksumChanges(_by_number(self._mains), _by_number(self._statuses), self._deleted)

    def statements(self) -> list[tuple[str, list[_Value]]]:
        statements = [*_insertions("objects", self._mains), *_insertions("statuses", self._statuses)]
        if self._deleted:
            statements += [
                *_deletions("objects", self._deleted),
                *_deletions("statuses", self._deleted),
                ("UPDATE progress SET version = ?", [self.version]),
            ]
        return statements


def _by_number(rows: Sequence[tuple[Any, ...]]) -> dict[int, int]:
    """Returns number -> checksum: the first and last column."""
    return {row[0]: row[-1] for row in rows}


def _main_columns(row: Row) -> tuple[_Value, ...]:
    number, version, resource, main = row.number, row.version, row.resource, row.main
    return number, version, resource, main, row_checksum(number, version, resource, main)


def _status_columns(row: Row) -> tuple[_Value, ...]:
    number, version, status = row.number, row.version, row.status
    return number, version, status, row_checksum(number, version, STATUS_RESOURCE, status)


def _insertions(table: str, rows: Sequence[tuple[_Value, ...]]) -> Iterator[tuple[str, list[_Value]]]:
    for first in range(0, len(rows), _MAX_ROWS_PER_STATEMENT):
        batch = rows[first : first + _MAX_ROWS_PER_STATEMENT]
        placeholders = ", ".join(["(" + ", ".join("?" * len(batch[0])) + ")"] * len(batch))
        yield f"INSERT OR REPLACE INTO {table} VALUES {placeholders}", [*chain.from_iterable(batch)]  # noqa: S608  our names


def _deletions(table: str, numbers: Sequence[int]) -> Iterator[tuple[str, list[_Value]]]:
    for first in range(0, len(numbers), _MAX_ROWS_PER_STATEMENT):
        batch = numbers[first : first + _MAX_ROWS_PER_STATEMENT]
        placeholders = ", ".join("?" * len(batch))
        yield f"DELETE FROM {table} WHERE number IN ({placeholders})", [*batch]  # noqa: S608  our names


def create(path: Path, rows: Sequence[Row]) -> None:
    """Creates a database with these rows. Raises sqlite3.Error."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        migrate(connection)
        connection.execute("BEGIN IMMEDIATE")
        for statement, values in (
            _Changes([Entry(ChangeType.ADDED, row) for row in rows]).statements() if rows else ()
        ):
            connection.execute(statement, values)
        connection.execute("COMMIT")
