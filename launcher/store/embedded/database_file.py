"""The file of a database: its tables, how it is created, and what it holds, found without changing it."""

import errno
import os
import sqlite3
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from launcher.core.errors import DiskFull, LauncherError, StoreCorrupted, Unavailable
from launcher.store.embedded.commit_record import Recorded, State, recorded
from launcher.store.embedded.rows import Row, stored_row
from launcher.store.interface import Version

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
PAGE_BYTES = 16384
#: SQLITE_ERROR is a statement that does not fit the tables: then these are not those that we made.
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
#: Stands for the resource in the checksum of a status.
OF_STATUS = "status"
#: What a database without any object holds.
_EMPTY = State(0, 0)

#: Resource, number, version, main and status of one object.
_Record = tuple[str, int, Version, bytes, bytes | None]


# Errors


@contextmanager
def our_errors(path: Path) -> Iterator[None]:
    """Inside, SQLite's and the system's errors; outside, only ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise meaning(path, error) from error
    except OSError as error:
        kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unavailable
        raise kind(f"{path}: {error.strerror}") from error


def meaning(path: Path, error: sqlite3.Error) -> LauncherError:
    """Our error for one of SQLite's."""
    if error_code(error) in _BROKEN:
        return damaged(path, str(error))
    if error_code(error) == sqlite3.SQLITE_FULL:
        return DiskFull(f"{path}: {error}")
    return Unavailable(f"{path}: {error}")


def damaged(path: Path, how: str) -> StoreCorrupted:
    """The error that names the damage and the way out."""
    return StoreCorrupted(f"{path} is damaged, and was left as it is: {how}. {_way_out(path)}")


def _way_out(path: Path) -> str:
    data = f"--data {path.parent}"
    return (
        f"Restore a backup with: launcher store restore FILE {data}; "
        f"or go on with what is left: launcher store accept-loss {data}"
    )


def error_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code; the extended ones carry more in their upper bits."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


# Files


def close_to_others(path: Path) -> None:
    """Creates the file, readable by its owner alone; SQLite gives its log and index the same mode."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(descriptor)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.chmod(f"{path}{suffix}", 0o600)


def give_to_owner(path: Path) -> None:
    """Root gives what it creates in the directory of another user to that user, who has to use it later."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def migrate(connection: sqlite3.Connection) -> None:
    """Brings the tables up to date."""
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


# Content


def checksum_of(number: int, version: Version, resource: str, text: bytes | None) -> int:
    """SQLite sees damage to its own structure only; this sees it inside the objects."""
    return zlib.crc32(text or b"", zlib.crc32(f"{number} {version} {resource} {text is None}".encode()))


def _is_whole(checksum: Any, number: int, version: Version, resource: str, text: Any) -> bool:
    """Whether a row is as it was written; damage may have changed the type of any value."""
    return isinstance(text, bytes | None) and checksum == checksum_of(number, version, resource, text)


class Checksums:
    """The checksums of all rows, by table and number, and their sum."""

    def __init__(self) -> None:
        self.digest = 0
        self.objects: dict[int, int] = {}
        self.statuses: dict[int, int] = {}

    def add(self, number: int, main: int, status: int | None) -> None:
        self.objects[number] = main
        self.digest += main
        if status is not None:
            self.statuses[number] = status
            self.digest += status


class Inspected(NamedTuple):
    """What a database holds."""

    state: State
    checksums: Checksums


def checked_record(path: Path) -> Recorded | None:
    """What is recorded of the database, as ``recorded``; the error names the way out."""
    try:
        return recorded(path)
    except StoreCorrupted as error:
        raise StoreCorrupted(f"{error}. {_way_out(path)}") from error


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that changes nothing in the file, and creates none beside it."""
    # Without a log no launcher uses the file. SQLite would create a log and an index all the same.
    immutable = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{immutable}", uri=True, isolation_level=None
    )
    # Damage can make text of what is none.
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


def inspect(path: Path) -> Inspected:
    """What the file holds, at one moment. Raises StoreCorrupted when it is damaged, not ours, or newer than we know."""
    if not path.exists() or not path.stat().st_size:
        return Inspected(_EMPTY, Checksums())
    with our_errors(path), closing(read_only(path)) as connection:
        connection.execute("BEGIN")
        found = _pragma(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        # A file without any table is one that we had only begun to make.
        if found != APPLICATION_ID and (found or tables):
            raise StoreCorrupted(f"{path} is a database of another program, and was left as it is")
        known, version = len(MIGRATIONS), _pragma(connection, "user_version")
        if version > known:
            raise StoreCorrupted(
                f"{path} was written by a newer launcher (its schema is version {version}, this one knows {known}): "
                "run that one, or restore the copy from before the upgrade"
            )
        complaint = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if complaint != "ok":
            raise damaged(path, complaint)
        if not version:
            return Inspected(_EMPTY, Checksums())
        checksums = _check_objects(path, connection)
        try:
            return Inspected(State(last_version(connection), checksums.digest), checksums)
        except (TypeError, ValueError) as error:
            raise damaged(path, "its last version is no number") from error


def last_version(connection: sqlite3.Connection) -> Version:
    """The last version that was ever written."""
    found = connection.execute(
        "SELECT max(version) FROM (SELECT version FROM progress"
        " UNION ALL SELECT version FROM objects UNION ALL SELECT version FROM statuses)"
    )
    return int(found.fetchone()[0])


def _check_objects(path: Path, connection: sqlite3.Connection) -> Checksums:
    checksums = Checksums()
    deque(records(path, connection, checksums), maxlen=0)
    orphans = connection.execute(
        "SELECT number FROM statuses AS s WHERE NOT EXISTS (SELECT 1 FROM objects AS o WHERE o.number = s.number)"
    )
    if (found := orphans.fetchone()) is not None:
        raise damaged(path, f"there is a status without its object, {found[0]}")
    return checksums


def records(
    path: Path, connection: sqlite3.Connection, checksums: Checksums | None = None
) -> Iterator[_Record]:
    """All objects, undecoded; adds to *checksums*. Raises StoreCorrupted at one that is not as it was written."""
    for number, resource, version, main, checksum, *status in _joined(connection, "ASC"):
        status_version, status_text, status_checksum = status
        whole = _is_whole(checksum, number, version, resource, main)
        if whole and status_version is not None:
            whole = _is_whole(status_checksum, number, status_version, OF_STATUS, status_text)
        if not whole:
            raise damaged(path, f"object {number} ({resource}) is not as it was written")
        if checksums is not None:
            checksums.add(number, checksum, status_checksum)
        yield resource, number, max(version, status_version or 0), main, status_text


def _joined(connection: sqlite3.Connection, order: Literal["ASC", "DESC"]) -> Iterator[tuple[Any, ...]]:
    return connection.execute(
        "SELECT o.number, o.resource, o.version, o.main, o.checksum, s.version, s.status, s.checksum"  # noqa: S608  ours
        f" FROM objects AS o LEFT JOIN statuses AS s USING (number) ORDER BY o.number {order}"
    )


# Damaged files


def readable_rows(path: Path) -> list[Row]:
    """The rows of a damaged file that are as they were written: from both ends, up to where it cannot be read."""
    rows: dict[int, Row] = {}
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error), closing(read_only(path)) as connection:
            for joined in _joined(connection, order):
                if (row := _whole_row(*joined)) is not None:
                    rows.setdefault(row.number, row)
    return [rows[number] for number in sorted(rows)]


def _whole_row(
    number: int, resource: str, version: Version, main: bytes, checksum: int, *status: Any
) -> Row | None:
    """The row, without a status that is not as it was written; None when the rest is not."""
    status_version, text, status_checksum = status
    if not _is_whole(checksum, number, version, resource, main):
        return None
    if status_version is None or not _is_whole(status_checksum, number, status_version, OF_STATUS, text):
        status_version, text = 0, None
    return stored_row(resource, number, max(version, status_version), main, text)
