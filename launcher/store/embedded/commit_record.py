"""
The commit record: a small file next to the database with the last acknowledged commit.

SQLite stops the recovery of its write-ahead log at the first damaged frame, without an error: acknowledged commits
after it would be lost silently. The record shows whether the recovered state is the acknowledged one.
"""

import os
import struct
import zlib
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from launcher.core.errors import StoreCorrupted
from launcher.store.interface import Version

_MAGIC = b"FwLrCmt1"
#: Magic, sequence number, version and digest of the acknowledged state, version and digest of the pending state.
_SLOT = struct.Struct("<8sQQQQQ")
_CHECKSUM = struct.Struct("<I")
#: Two copies in separate blocks, written in turn: an interrupted write leaves the other one intact.
_SLOT_OFFSETS = (0, 4096)
_FILE_BYTES = 8192


class DatabaseState(NamedTuple):
    """State of a database: its last version and the sum of the checksums of all rows."""

    version: Version
    digest: int


class RecordedCommit(NamedTuple):
    """The content of a commit record."""

    sequence: int
    #: The state after the last acknowledged commit.
    acknowledged: DatabaseState
    #: The state after the last commit that was started; the database may have it already.
    pending: DatabaseState


def record_path(database: Path) -> Path:
    """Returns the path of the commit record of a database."""
    return database.with_suffix(".commits")


def read_record(database: Path) -> RecordedCommit | None:
    """Reads the commit record; None if there is none. Raises StoreCorrupted, OSError."""
    path = record_path(database)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if not content.strip(b"\0"):
        return None
    slots = [read for offset in _SLOT_OFFSETS if (read := _decode(content[offset:])) is not None]
    if not slots:
        raise StoreCorrupted(f"{path} is damaged (left unchanged): acknowledged writes may be lost")
    return max(slots)


def _decode(content: bytes) -> RecordedCommit | None:
    size = _SLOT.size + _CHECKSUM.size
    if len(content) < size:
        return None
    body, checksum = content[: _SLOT.size], content[_SLOT.size : size]
    if _CHECKSUM.pack(zlib.crc32(body)) != checksum:
        return None
    magic, sequence, version, digest, pending_version, pending_digest = _SLOT.unpack(body)
    if magic != _MAGIC:
        return None
    return RecordedCommit(
        sequence, DatabaseState(version, digest), DatabaseState(pending_version, pending_digest)
    )


class CommitRecord:
    """The record of an open database. All methods block and raise OSError; one thread may use them at a time."""

    def __init__(self, database: Path, state: DatabaseState, sequence: int) -> None:
        """Records *state* as acknowledged; *sequence* is that of the existing record."""
        self._sequence = sequence
        self.acknowledged = self._pending = state
        self._file = os.open(record_path(database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._thread = ThreadPoolExecutor(1, "store-record")
        self._synced: Future[None] | None = None
        try:
            if os.fstat(self._file).st_size != _FILE_BYTES:
                os.ftruncate(self._file, _FILE_BYTES)
                os.pwrite(self._file, bytes(_FILE_BYTES), 0)
                _sync_directory(database.parent)
            for _ in _SLOT_OFFSETS:
                self._write()
            os.fsync(self._file)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._thread.shutdown()
        os.close(self._file)

    def begin(self, state: DatabaseState) -> None:
        """Records the start of a commit to *state*. The write is synced while SQLite commits."""
        self._collect()
        self._pending = state
        self._write()
        self._synced = self._thread.submit(os.fdatasync, self._file)

    def end(self) -> None:
        """
        Records that the current commit is acknowledged.

        The write is not synced: it survives the end of the process, and the next commit syncs it.
        """
        self._collect()
        self.acknowledged = self._pending
        self._write()

    def _collect(self) -> None:
        synced, self._synced = self._synced, None
        if synced is not None:
            synced.result()

    def _write(self) -> None:
        self._sequence += 1
        body = _SLOT.pack(_MAGIC, self._sequence, *self.acknowledged, *self._pending)
        offset = _SLOT_OFFSETS[self._sequence % len(_SLOT_OFFSETS)]
        os.pwrite(self._file, body + _CHECKSUM.pack(zlib.crc32(body)), offset)


def _sync_directory(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def loss_message(database: DatabaseState, record: RecordedCommit | None) -> str | None:
    """Returns which acknowledged writes a database with that state lacks, or None."""
    if record is None or database in (record.acknowledged, record.pending):
        return None
    # After a power failure the database may be ahead of its record: both are synced at the same time.
    if database.version > record.pending.version:
        return None
    last = record.acknowledged.version
    if database.version < last:
        return (
            f"acknowledged writes are lost: it ends at version {database.version} instead of version {last}"
        )
    return f"acknowledged writes up to version {last} are lost or changed"
