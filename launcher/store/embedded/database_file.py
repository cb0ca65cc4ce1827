"""The database file: its tables, its creation, and its inspection without changes."""

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
from launcher.store.embedded.commit_record import DatabaseState, RecordedCommit, read_record
from launcher.store.embedded.rows import Row, stored_row
from launcher.store.interface import Version

#: "FwLr": identifies our SQLite files.
APPLICATION_ID = 0x46774C72
#: All migrations from an empty file. New ones are appended; existing ones never change.
MIGRATIONS: tuple[Sequence[str], ...] = (
    (
        # Every object has a row here, and one in statuses once it has a status: most writes change only the status.
        # The number is the version of the object's creation, which appends new objects at the end. An object's
        # version is the higher of the two.
        "CREATE TABLE objects (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, resource TEXT NOT NULL,"
        " main BLOB NOT NULL, checksum INTEGER NOT NULL)",
        "CREATE TABLE statuses (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, status BLOB,"
        " checksum INTEGER NOT NULL)",
        # The version of the last batch with a deletion, which leaves no row: the version must not be used again.
        "CREATE TABLE progress (version INTEGER NOT NULL)",
        "INSERT INTO progress VALUES (0)",
    ),
)
#: Objects of two or three KiB fill pages of this size; SQLite's default would leave a third empty. Takes effect when
#: the file is created.
PAGE_BYTES = 16384
#: SQLITE_ERROR means that a statement does not match the tables, so they are not ours.
_CORRUPTION_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
#: The resource in the checksum of a status.
STATUS_RESOURCE = "status"
#: State of a database without objects.
_EMPTY = DatabaseState(0, 0)

#: Resource, number, version, main and status of one object.
_Record = tuple[str, int, Version, bytes, bytes | None]


# Errors


@contextmanager
def our_errors(path: Path) -> Iterator[None]:
    """Translates errors of SQLite and the system."""
    try:
        yield
    except sqlite3.Error as error:
        raise translated_error(path, error) from error
    except OSError as error:
        kind = DiskFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else Unavailable
        raise kind(f"{error.filename or path}: {error.strerror}") from error


def translated_error(path: Path, error: sqlite3.Error) -> LauncherError:
    """Translates an error of SQLite."""
    if error_code(error) in _CORRUPTION_CODES:
        return corruption_error(path, str(error))
    if error_code(error) == sqlite3.SQLITE_FULL:
        return DiskFull(f"{path}: {error}")
    return Unavailable(f"{path}: {error}")


def corruption_error(path: Path, damage: str) -> StoreCorrupted:
    """Returns an error that names the damage and the recovery commands."""
    return StoreCorrupted(f"{path} is damaged (left unchanged): {damage}. {_recovery_hint(path)}")


def _recovery_hint(path: Path) -> str:
    data = f"--data {path.parent}"
    return (
        f"Restore a backup with: launcher store restore FILE {data}; "
        f"or keep what can be read: launcher store accept-loss {data}"
    )


def error_code(error: sqlite3.Error) -> int:
    """Returns SQLite's primary result code, without the bits of the extended one."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


# Files


def create_private_file(path: Path) -> None:
    """Creates the file with mode 0600; SQLite uses the same mode for its log and index."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.close(descriptor)
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.chmod(f"{path}{suffix}", 0o600)


def chown_to_directory_owner(path: Path) -> None:
    """If root creates a file in another user's directory, gives it to that user."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def migrate(connection: sqlite3.Connection) -> None:
    """Runs the missing migrations."""
    for number, statements in list(enumerate(MIGRATIONS, 1))[_pragma(connection, "user_version") :]:
        _execute_in_transaction(
            connection,
            [*statements, f"PRAGMA application_id = {APPLICATION_ID}", f"PRAGMA user_version = {number}"],
        )


def _execute_in_transaction(connection: sqlite3.Connection, statements: Iterable[str]) -> None:
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


def row_checksum(number: int, version: Version, resource: str, text: bytes | None) -> int:
    """Returns the checksum of a row. SQLite detects damage only in its own structure, not in the objects."""
    return zlib.crc32(text or b"", zlib.crc32(f"{number} {version} {resource} {text is None}".encode()))


def _is_intact(checksum: Any, number: int, version: Version, resource: str, text: Any) -> bool:
    """Whether the row is as written. Damage may have changed the type of any value."""
    return isinstance(text, bytes | None) and checksum == row_checksum(number, version, resource, text)


class Checksums:
    """Checksums of all rows by table and number, and their sum."""

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


class Inspection(NamedTuple):
    """Content of a database."""

    state: DatabaseState
    checksums: Checksums


def read_checked_record(path: Path) -> RecordedCommit | None:
    """Like ``read_record``; the error includes the recovery commands."""
    try:
        return read_record(path)
    except StoreCorrupted as error:
        raise StoreCorrupted(f"{error}. {_recovery_hint(path)}") from error


def read_only(path: Path) -> sqlite3.Connection:
    """Opens the file read-only and creates no other files."""
    # Without a log no launcher uses the file. SQLite would still create a log and an index.
    immutable = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro{immutable}", uri=True, isolation_level=None
    )
    # Damage can turn other values into invalid text.
    connection.text_factory = lambda text: text.decode(errors="replace")
    return connection


def inspect(path: Path) -> Inspection:
    """Inspects the file. Raises StoreCorrupted if it is damaged, of another program, or of a newer launcher."""
    if not path.exists() or not path.stat().st_size:
        return Inspection(_EMPTY, Checksums())
    with our_errors(path), closing(read_only(path)) as connection:
        connection.execute("BEGIN")
        application_id = _pragma(connection, "application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        # A file without tables is one whose creation was interrupted.
        if application_id != APPLICATION_ID and (application_id or tables):
            raise StoreCorrupted(f"{path} is a database of another program (left unchanged)")
        supported_version, version = len(MIGRATIONS), _pragma(connection, "user_version")
        if version > supported_version:
            raise StoreCorrupted(
                f"{path} was written by a newer launcher "
                f"(its schema is version {version}, this one supports {supported_version}): "
                "run that one, or restore the copy from before the upgrade"
            )
        error = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if error != "ok":
            raise corruption_error(path, error)
        if not version:
            return Inspection(_EMPTY, Checksums())
        checksums = _check_objects(path, connection)
        try:
            return Inspection(DatabaseState(last_version(connection), checksums.digest), checksums)
        except (TypeError, ValueError) as error:
            raise corruption_error(path, "its last version is not a number") from error


def last_version(connection: sqlite3.Connection) -> Version:
    """Returns the last version that was ever written."""
    result = connection.execute(
        "SELECT max(version) FROM (SELECT version FROM progress"
        " UNION ALL SELECT version FROM objects UNION ALL SELECT version FROM statuses)"
    )
    return int(result.fetchone()[0])


def _check_objects(path: Path, connection: sqlite3.Connection) -> Checksums:
    checksums = Checksums()
    deque(records(path, connection, checksums), maxlen=0)
    orphans = connection.execute(
        "SELECT number FROM statuses AS s WHERE NOT EXISTS (SELECT 1 FROM objects AS o WHERE o.number = s.number)"
    )
    if (orphan := orphans.fetchone()) is not None:
        raise corruption_error(path, f"status {orphan[0]} has no object")
    return checksums


def records(
    path: Path, connection: sqlite3.Connection, checksums: Checksums | None = None
) -> Iterator[_Record]:
    """Yields all objects, not decoded, and adds to *checksums*. Raises StoreCorrupted at a damaged one."""
    for number, resource, version, main, checksum, *status in _objects_with_statuses(connection, "ASC"):
        status_version, status_text, status_checksum = status
        intact = _is_intact(checksum, number, version, resource, main)
        if intact and status_version is not None:
            intact = _is_intact(status_checksum, number, status_version, STATUS_RESOURCE, status_text)
        if not intact:
            raise corruption_error(path, f"object {number} ({resource}) does not match its checksum")
        if checksums is not None:
            checksums.add(number, checksum, status_checksum)
        yield resource, number, max(version, status_version or 0), main, status_text


def _objects_with_statuses(
    connection: sqlite3.Connection, order: Literal["ASC", "DESC"]
) -> Iterator[tuple[Any, ...]]:
    return connection.execute(
        "SELECT o.number, o.resource, o.version, o.main, o.checksum, s.version, s.status, s.checksum"  # noqa: S608  ours
        f" FROM objects AS o LEFT JOIN statuses AS s USING (number) ORDER BY o.number {order}"
    )


# Damaged files


def readable_rows(path: Path) -> list[Row]:
    """Returns the intact rows of a damaged file: read from both ends, up to the unreadable part."""
    rows: dict[int, Row] = {}
    for order in ("ASC", "DESC"):
        with suppress(sqlite3.Error), closing(read_only(path)) as connection:
            for joined in _objects_with_statuses(connection, order):
                if (row := _intact_row(*joined)) is not None:
                    rows.setdefault(row.number, row)
    return [rows[number] for number in sorted(rows)]


def _intact_row(
    number: int, resource: str, version: Version, main: bytes, checksum: int, *status: Any
) -> Row | None:
    """Returns the row, without its status if that is damaged; None if the rest is damaged."""
    status_version, text, status_checksum = status
    if not _is_intact(checksum, number, version, resource, main):
        return None
    if status_version is None or not _is_intact(
        status_checksum, number, status_version, STATUS_RESOURCE, text
    ):
        status_version, text = 0, None
    return stored_row(resource, number, max(version, status_version), main, text)
