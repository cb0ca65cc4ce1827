"""
The commit record: a small file beside the database that holds the last acknowledged commit.

SQLite ends the recovery of its write-ahead log at the first damaged frame, without an error: acknowledged commits
behind it would be lost in silence. The record tells whether what was recovered is what was acknowledged.
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
#: Magic, sequence, the version and digest of the acknowledged state, those of the pending one.
_SLOT = struct.Struct("<8sQQQQQ")
_CHECKSUM = struct.Struct("<I")
#: Two copies, written in turn, each in a block of its own: a write that breaks off leaves the other one whole.
_SLOT_OFFSETS = (0, 4096)
_FILE_BYTES = 8192


class State(NamedTuple):
    """What a database holds: its last version, and the sum of the checksums of all rows."""

    version: Version
    digest: int


class Recorded(NamedTuple):
    """The content of a commit record."""

    sequence: int
    #: The state after the last acknowledged commit.
    acknowledged: State
    #: The state after the commit that was begun last; the database may hold it already.
    pending: State


def record_path(database: Path) -> Path:
    """The commit record of that database."""
    return database.with_suffix(".commits")


def recorded(database: Path) -> Recorded | None:
    """What is recorded of that database; None when nothing ever was. Raises StoreCorrupted, OSError."""
    path = record_path(database)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    if not content.strip(b"\0"):
        return None
    found = [read for offset in _SLOT_OFFSETS if (read := _decoded(content[offset:])) is not None]
    if not found:
        raise StoreCorrupted(
            f"{path} is damaged, and was left as it is: whether acknowledged writes are lost is unknown"
        )
    return max(found)


def _decoded(content: bytes) -> Recorded | None:
    size = _SLOT.size + _CHECKSUM.size
    if len(content) < size:
        return None
    body, checksum = content[: _SLOT.size], content[_SLOT.size : size]
    if _CHECKSUM.pack(zlib.crc32(body)) != checksum:
        return None
    magic, sequence, version, digest, pending_version, pending_digest = _SLOT.unpack(body)
    if magic != _MAGIC:
        return None
    return Recorded(sequence, State(version, digest), State(pending_version, pending_digest))


class CommitRecord:
    """The record of an open database. All methods block, are for one thread at a time, and raise OSError."""

    def __init__(self, database: Path, state: State, sequence: int) -> None:
        """Records that the database holds *state*; *sequence* is that of the record so far."""
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

    def begin(self, state: State) -> None:
        """Records that a commit to *state* is under way. It reaches the disk while SQLite commits."""
        self._collect()
        self._pending = state
        self._write()
        self._synced = self._thread.submit(os.fdatasync, self._file)

    def end(self) -> None:
        """
        Records that the commit under way can be acknowledged.

        This write is not awaited: it survives the death of the process, and the next commit brings it to the disk.
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


def lost(found: State, record: Recorded | None) -> str | None:
    """What is wrong with a database that holds *found*; None when everything acknowledged is in it."""
    if record is None or found in (record.acknowledged, record.pending):
        return None
    # After a power failure the database may be ahead of its record: both are brought to the disk at the same time.
    if found.version > record.pending.version:
        return None
    last = record.acknowledged.version
    if found.version < last:
        return f"acknowledged writes are lost: it ends at version {found.version}, and held version {last}"
    return f"acknowledged writes up to version {last} are lost or changed"
