"""
What an admin does with the files of a store: check, back up, restore, and accept a loss.

``check`` and ``back_up`` only read, and work while a launcher runs on the same files. ``restore`` and ``accept_loss``
replace the files, and keep those that were there in a directory beside them.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from launcher.core.errors import BadRequest, Conflict, LauncherError, NotFound, StoreCorrupted
from launcher.store.embedded.commit_record import CommitRecord, Recorded, State, lost, record_path, recorded
from launcher.store.embedded.database_file import (
    Inspected,
    checked_record,
    damaged,
    give_to_owner,
    inspect,
    our_errors,
    read_only,
    readable_rows,
)
from launcher.store.embedded.sqlite_file import Lock, create
from launcher.store.interface import Version


class Summary(NamedTuple):
    """What a store or a backup holds."""

    objects: int
    version: Version


class Replaced(NamedTuple):
    """What a store holds after its files were replaced, and the directory that keeps those from before, if any."""

    summary: Summary
    kept: Path | None


def check(path: Path) -> Summary:
    """What the store holds. Raises NotFound, StoreCorrupted when it is damaged or lacks acknowledged writes."""
    _require_store(path)
    with our_errors(path):
        before = checked_record(path)
        found = inspect(path)
        _refuse_loss(path, found.state, before, checked_record(path))
    return _summary(found)


def back_up(path: Path, target: Path) -> Summary:
    """Writes a copy of the store to *target*, a new file. Raises as ``check``."""
    _require_store(path)
    with _new_file(target) as partial:
        with our_errors(path):
            before = checked_record(path)
        _copy(path, partial)
        with our_errors(path):
            found = inspect(partial)
            _refuse_loss(path, found.state, before, checked_record(path))
    return _summary(found)


def restore(path: Path, source: Path, *, force: bool = False) -> Replaced:
    """
    Puts the backup *source* in the place of the store. Raises StoreCorrupted when *source* is no whole backup.

    Versions continue behind those of the store that was there, so that none is used twice.
    """
    if not source.is_file() or not source.stat().st_size:
        raise NotFound(f"{source} is no backup: it is {_what_is(source)}")
    if path.exists() and source.samefile(path):
        raise BadRequest(f"{source} is the store itself; name a file made by: launcher store backup FILE")
    with our_errors(source):
        inspect(source)
    with our_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = Lock(path)
        try:
            if not force and (path.exists() or record_path(path).exists()):
                raise Conflict(
                    f"{path.parent} holds a store already; --force replaces it, and keeps its files"
                )
            with _new_file(path.with_name("store.restored")) as partial:
                _copy(source, partial)
                found = _continued(partial, _last_known(path))
            return Replaced(_summary(found), _install(path.with_name("store.restored"), path, found.state))
        finally:
            lock.release()


def accept_loss(path: Path) -> Replaced | None:
    """
    Makes a store of all objects that can still be read, and of nothing else. None when nothing is lost.

    Versions continue behind the last one that was acknowledged, so that none is used twice.
    """
    _require_store(path)
    with our_errors(path):
        lock = Lock(path)
        try:
            with suppress(StoreCorrupted):
                check(path)
                return None
            new = path.with_name("store.accepted")
            with _new_file(new) as partial:
                create(partial, readable_rows(path) if path.exists() and path.stat().st_size else [])
                found = _continued(partial, _last_known(path))
            return Replaced(_summary(found), _install(new, path, found.state))
        finally:
            lock.release()


def _require_store(path: Path) -> None:
    if not path.exists() and not record_path(path).exists():
        raise NotFound(f"there is no store in {path.parent}; name its directory with --data DIR")


def _summary(found: Inspected) -> Summary:
    return Summary(len(found.checksums.objects), found.state.version)


def _what_is(source: Path) -> str:
    if source.is_dir():
        return "a directory"
    return "empty" if source.is_file() else "not there" if not source.exists() else "no file"


def _refuse_loss(path: Path, found: State, before: Recorded | None, after: Recorded | None) -> None:
    """Raises StoreCorrupted when *found*, read between the two records, lacks what was acknowledged."""
    if before is None or after is None or lost(found, before) is None or lost(found, after) is None:
        return
    # A launcher has committed meanwhile: which states it went through is not recorded, but their versions are.
    if before != after and before.acknowledged.version <= found.version <= after.pending.version:
        return
    raise damaged(path, lost(found, before) or "")


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """A file for its owner alone, which becomes *target* when the block ends, and is removed when it fails."""
    if target.exists():
        raise Conflict(
            f"{target} is {'a directory' if target.is_dir() else 'there already'}; name a new file"
        )
    partial = target.with_name(f".{target.name}.partial")
    with our_errors(partial):
        partial.unlink(missing_ok=True)
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            yield partial
            os.fsync(descriptor)
            partial.rename(target)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)


def _copy(source: Path, target: Path) -> None:
    with (
        our_errors(source),
        closing(read_only(source)) as reading,
        closing(sqlite3.connect(target, isolation_level=None)) as writing,
    ):
        # In one step: the copy is of one moment, and a launcher goes on writing meanwhile.
        reading.backup(writing)
        # One file, which can be moved and read without any other beside it.
        writing.execute("PRAGMA journal_mode = DELETE")


def _last_known(path: Path) -> Version:
    """The last version that the store in that place ever gave, as far as it can still be read."""
    with suppress(LauncherError):
        if (record := recorded(path)) is not None:
            return max(record.acknowledged.version, record.pending.version)
    with suppress(LauncherError):
        return inspect(path).state.version if path.exists() else 0
    return 0


def _continued(partial: Path, last: Version) -> Inspected:
    """What the new store holds, once its versions continue behind *last*."""
    with our_errors(partial), closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        connection.execute("UPDATE progress SET version = max(version, ?)", [last])
    return inspect(partial)


def _install(new: Path, path: Path, state: State) -> Path | None:
    """
    Moves *new* into the place of the store, and the files from before into a directory, the result.

    The record of what was acknowledged goes last: a launcher that starts in between detects that the store is missing.
    """
    old = [place for place in (Path(f"{path}-wal"), path, record_path(path)) if place.exists()]
    kept = path.with_name(time.strftime("store-replaced-%Y%m%dT%H%M%SZ", time.gmtime())) if old else None
    if kept is not None:
        kept.mkdir(mode=0o700)
        give_to_owner(kept)
    for place in old:
        if kept is not None and place != record_path(path):
            place.rename(kept / place.name)
    Path(f"{path}-shm").unlink(missing_ok=True)
    give_to_owner(new)
    new.rename(path)
    if kept is not None and record_path(path) in old:
        record_path(path).rename(kept / record_path(path).name)
    CommitRecord(path, state, 0).close()
    return kept
