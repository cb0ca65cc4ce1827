"""One SQLite file: who may open it, what stands in it, and what becomes of a write that fails."""

import fcntl
import logging
import os
import sqlite3
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from launcher.core.errors import LauncherError, OutcomeUnknown, StoreBroken, Unavailable
from launcher.store.commit_record import CommitRecord, Recorded, State, lost, record_path, recorded
from launcher.store.port import Happened, Version
from launcher.store.rows import Entry, Row, stored_row

log = logging.getLogger(__name__)

#: "FwLr": tells our files from other people's SQLite files.
APPLICATION_ID = 0x46774C72
#: Every step from an empty file to the tables of today. Steps are added at the end, never changed.
MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        # An object has its row here, and one in statuses if it ever had a status: most writes change nothing but the
        # status, and so write little. The number is the version at which the object was created; that keeps new
        # objects together at the end. An object's version is the higher one of its two.
        "CREATE TABLE objects (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, resource TEXT NOT NULL,"
        " main BLOB NOT NULL, checksum INTEGER NOT NULL)",
        "CREATE TABLE statuses (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, status BLOB,"
        " checksum INTEGER NOT NULL)",
        # The version of the last batch with a deletion: that leaves no row behind, yet must not come again.
        "CREATE TABLE progress (version INTEGER NOT NULL)",
        "INSERT INTO progress VALUES (0)",
    ),
)
#: Objects of two or three KiB fill such pages, and leave a third of SQLite's usual ones empty. Counts when the file
#: is made.
_PAGE_BYTES = 16384
#: The log is merged into the file when it has so many pages (16 MiB). What is written again before is merged once.
_LOG_PAGES = 1024
#: SQLite takes 32766 values in one statement.
_ROWS_AT_ONCE = 4096
#: SQLITE_ERROR is a statement that does not fit the tables: then these are not those that we made.
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})

#: Stands for the resource in the checksum of a status.
_OF_STATUS = "status"

#: What a database without any object holds.
_EMPTY = State(0, 0)

_Value = int | str | bytes | None
#: Resource, number, version, main and status of one object.
_Record = tuple[str, int, Version, bytes, bytes | None]


@contextmanager
def _our_errors(path: Path) -> Iterator[None]:
    """Inside, SQLite's and the system's errors; outside, only ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(path, error) from error
    except OSError as error:
        raise Unavailable(f"{path}: {error.strerror}") from error


def _meaning(path: Path, error: sqlite3.Error) -> LauncherError:
    if _code(error) in _BROKEN:
        return _damaged(path, str(error))
    return Unavailable(f"{path}: {error}")


def _damaged(path: Path, how: str) -> StoreBroken:
    return StoreBroken(f"{path} is damaged, and was left as it is: {how}. {_way_out(path)}")


def _way_out(path: Path) -> str:
    data = f"--data {path.parent}"
    return (
        f"Restore a backup with: launcher store restore FILE {data}; "
        f"or go on with what is left: launcher store accept-loss {data}"
    )


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; the extended ones carry more in their upper bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


class Lock:
    """The right to use the file, for one process at a time; the system takes it back when that dies."""

    def __init__(self, path: Path) -> None:
        """Raises StoreBroken when another process has it."""
        self._file = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._file, 20).decode(errors="replace").strip()
            os.close(self._file)
            raise StoreBroken(
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
        """Open or make it. Raises StoreBroken, and then has not changed it, or Unavailable."""
        self._path = path
        #: What is being committed, until its outcome is known.
        self._under_way: _Changes | None = None
        with _our_errors(path):
            self._lock = Lock(path)
            try:
                record = _recorded(path)
                self._checksums = _check(path, record)
                _close_to_others(path)
                self._connection: sqlite3.Connection | None = self._connect()
                self._gone = False
                state = State(self._version(), self._checksums.digest)
                self._record = CommitRecord(path, state, record.sequence if record else 0)
                self._files = _identities(path)
            except BaseException:
                self._lock.release()
                raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=1.0)
        try:
            connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")
            _migrate(connection)
        except BaseException:
            connection.close()
            raise
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
            self._connection = self._connect()
            self._files = _identities(self._path)
        return self._connection

    def check_files(self) -> None:
        """
        Raises Unavailable when a file was removed or replaced: what is written to the open one would be lost.

        Any thread may call it. The files are used again when they are put back; they are never created anew.
        """
        changed = [path for path, identity in self._files.items() if _identity(path) != identity]
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
        """The last version that was ever written. Raises Unavailable, and StoreBroken when it is an older one."""
        if self._connection is not None:
            self.check_files()
        with _our_errors(self._path):
            version = self._version()
        if version < (last := self._record.acknowledged.version):
            raise _damaged(self._path, f"version {last} was acknowledged, and it ends at version {version}")
        with _our_errors(self._path):
            self._resolve(version)
        return version

    def _version(self) -> Version:
        return _last_version(self._connected())

    def rows(self) -> Iterator[Row]:
        """All objects. Raises StoreBroken when one of them is not as it was written."""
        with _our_errors(self._path):
            for record in _records(self._path, self._connected()):
                yield stored_row(*record)

    def commit(self, entries: Sequence[Entry]) -> None:
        """
        Write all of them, to last.

        Raises Unavailable when none of them was written, and OutcomeUnknown when that cannot be found out now; then
        ``version`` tells as soon as it can be asked.
        """
        self.check_files()
        changes = _Changes(entries)
        with _our_errors(self._path):
            self._record.begin(State(changes.version, self._checksums.digest_after(changes.checksums)))
        self._under_way = changes
        try:
            self._write(self._connected(), changes)
        except sqlite3.Error as error:
            if not self._has_written(changes, error):
                raise _meaning(self._path, error) from error
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
            self._checksums.update(changes.checksums)
        self._under_way = None

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
            if _code(error) == sqlite3.SQLITE_IOERR:
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


def _close_to_others(path: Path) -> None:
    """Creates the file, readable by its owner alone; SQLite gives its log and index the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(descriptor)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.chmod(f"{path}{suffix}", 0o600)


class _Checksums:
    """The checksums of all rows, by table and number, and their sum."""

    def __init__(self) -> None:
        self.digest = 0
        self._objects: dict[int, int] = {}
        self._statuses: dict[int, int] = {}

    def add(self, number: int, main: int, status: int | None) -> None:
        self._objects[number] = main
        self.digest += main
        if status is not None:
            self._statuses[number] = status
            self.digest += status

    def digest_after(self, changes: "_ChangedChecksums") -> int:
        digest = self.digest
        for now, new in ((self._objects, changes.objects), (self._statuses, changes.statuses)):
            digest += sum(new.values()) - sum(now.get(number, 0) for number in chain(new, changes.gone))
        return digest

    def update(self, changes: "_ChangedChecksums") -> None:
        self.digest = self.digest_after(changes)
        for now, new in ((self._objects, changes.objects), (self._statuses, changes.statuses)):
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
            if happened is Happened.DELETED:
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
    return number, version, resource, main, _checksum(number, version, resource, main)


def _status_columns(row: Row) -> tuple[_Value, ...]:
    number, version, status = row.number, row.version, row.status
    return number, version, status, _checksum(number, version, _OF_STATUS, status)


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


def _checksum(number: int, version: Version, resource: str, text: bytes | None) -> int:
    """SQLite sees damage to its own structure only; this sees it inside the objects."""
    return zlib.crc32(text or b"", zlib.crc32(f"{number} {version} {resource} {text is None}".encode()))


def _recorded(path: Path) -> Recorded | None:
    try:
        return recorded(path)
    except StoreBroken as error:
        raise StoreBroken(f"{error}. {_way_out(path)}") from error


def _check(path: Path, record: Recorded | None) -> _Checksums:
    """
    The checksums of all rows. The files are only read.

    Raises StoreBroken when they are damaged, not ours, newer than we know, or lack what *record* says.
    """
    if not path.exists() or not path.stat().st_size:
        if how := lost(_EMPTY, record):
            raise _damaged(path, how)
        return _Checksums()
    with (
        _our_errors(path),
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        found = _pragma(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        # A file without any table is one that we had only begun to make.
        if found != APPLICATION_ID and (found or tables):
            raise StoreBroken(f"{path} is a database of another program, and was left as it is")
        known, version = len(MIGRATIONS), _pragma(connection, "user_version")
        if version > known:
            raise StoreBroken(
                f"{path} was written by a newer launcher (its schema is version {version}, this one knows {known}): "
                "run that one, or restore the copy from before the upgrade"
            )
        complaint = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if complaint != "ok":
            raise _damaged(path, complaint)
        checksums, state = _Checksums(), _EMPTY
        if version:
            checksums = _check_objects(path, connection)
            state = State(_last_version(connection), checksums.digest)
        if how := lost(state, record):
            raise _damaged(path, how)
        return checksums


def _last_version(connection: sqlite3.Connection) -> Version:
    found = connection.execute(
        "SELECT max(version) FROM (SELECT version FROM progress"
        " UNION ALL SELECT version FROM objects UNION ALL SELECT version FROM statuses)"
    )
    return int(found.fetchone()[0])


def _check_objects(path: Path, connection: sqlite3.Connection) -> _Checksums:
    checksums = _Checksums()
    deque(_records(path, connection, checksums), maxlen=0)
    orphans = connection.execute(
        "SELECT number FROM statuses AS s WHERE NOT EXISTS (SELECT 1 FROM objects AS o WHERE o.number = s.number)"
    )
    if (found := orphans.fetchone()) is not None:
        raise _damaged(path, f"there is a status without its object, {found[0]}")
    return checksums


def _records(
    path: Path, connection: sqlite3.Connection, checksums: _Checksums | None = None
) -> Iterator[_Record]:
    """All objects, undecoded; adds to *checksums*. Raises StoreBroken at one that is not as it was written."""
    for number, resource, version, main, checksum, *status in connection.execute(
        "SELECT o.number, o.resource, o.version, o.main, o.checksum, s.version, s.status, s.checksum"
        " FROM objects AS o LEFT JOIN statuses AS s USING (number) ORDER BY o.number"
    ):
        status_version, status_text, status_checksum = status
        whole = checksum == _checksum(number, version, resource, main)
        if whole and status_version is not None:
            whole = status_checksum == _checksum(number, status_version, _OF_STATUS, status_text)
        if not whole:
            raise _damaged(path, f"object {number} ({resource}) is not as it was written")
        if checksums is not None:
            checksums.add(number, checksum, status_checksum)
        yield resource, number, max(version, status_version or 0), main, status_text


def _migrate(connection: sqlite3.Connection) -> None:
    for number, statements in list(enumerate(MIGRATIONS, 1))[_pragma(connection, "user_version") :]:
        _in_one(
            connection,
            [*statements, f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {number}"],
        )


def _in_one(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        for statement in statements:
            connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.rollback()
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
