"""
Maintenance of store files: check, back up, restore, accept loss.

``check`` and ``back_up`` only read, and work while a launcher uses the files. ``restore`` and ``accept_loss`` replace
the files and keep the previous ones in a directory next to them.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from launcher.core.errors import BadRequest, Conflict, LauncherError, NotFound, StoreCorrupted
from launcher.store.embedded.commit_record import (
    CommitRecord,
    DatabaseState,
    RecordedCommit,
    loss_message,
    read_record,
    record_path,
)
from launcher.store.embedded.database_file import (
    Inspection,
    chown_to_directory_owner,
    corruption_error,
    inspect,
    our_errors,
    read_checked_record,
    read_only,
    readable_rows,
)
from launcher.store.embedded.sqlite_file import DatabaseLock, create
from launcher.store.interface import Version


class Summary(NamedTuple):
    """Content of a store or backup."""

    objects: int
    version: Version


class ReplacedStore(NamedTuple):
    """Content of a store after its files were replaced, and the directory of the previous files, if any."""

    summary: Summary
    previous_files: Path | None


def check(path: Path) -> Summary:
    """Checks the store. Raises NotFound, or StoreCorrupted if it is damaged or lacks acknowledged writes."""
    _require_store(path)
    with our_errors(path):
        before = read_checked_record(path)
        inspection = inspect(path)
        _raise_on_loss(path, inspection.state, before, read_checked_record(path))
    return _summary(inspection)


def back_up(path: Path, target: Path) -> Summary:
    """Copies the store to *target*, a new file. Raises the errors of ``check``."""
    _require_store(path)
    with _new_file(target) as partial:
        with our_errors(path):
            before = read_checked_record(path)
        _copy(path, partial)
        with our_errors(path):
            inspection = inspect(partial)
            _raise_on_loss(path, inspection.state, before, read_checked_record(path))
    return _summary(inspection)


def restore(path: Path, source: Path, *, force: bool = False) -> ReplacedStore:
    """
    Replaces the store by the backup *source*. Raises StoreCorrupted if *source* is not an intact backup.

    Versions continue after those of the replaced store, so that none is used twice.
    """
    if not source.is_file() or not source.stat().st_size:
        raise NotFound(f"{source} is not a backup: {_file_type(source)}")
    if path.exists() and source.samefile(path):
        raise BadRequest(
            f"{source} is the store itself; specify a file created by: launcher store backup FILE"
        )
    with our_errors(source):
        inspect(source)
    with our_errors(path):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = DatabaseLock(path)
        try:
            if not force and (path.exists() or record_path(path).exists()):
                raise Conflict(
                    f"{path.parent} already contains a store; --force replaces it and keeps its files"
                )
            with _new_file(path.with_name("store.restored")) as partial:
                _copy(source, partial)
                inspection = _continue_versions(partial, _last_known_version(path))
            return ReplacedStore(
                _summary(inspection), _install(path.with_name("store.restored"), path, inspection.state)
            )
        finally:
            lock.release()


def accept_loss(path: Path) -> ReplacedStore | None:
    """
    Creates a store of all objects that can still be read. Returns None if nothing is lost.

    Versions continue after the last acknowledged one, so that none is used twice.
    """
    _require_store(path)
    with our_errors(path):
        lock = DatabaseLock(path)
        try:
            with suppress(StoreCorrupted):
                check(path)
                return None
            new = path.with_name("store.accepted")
            with _new_file(new) as partial:
                create(partial, readable_rows(path) if path.exists() and path.stat().st_size else [])
                inspection = _continue_versions(partial, _last_known_version(path))
            return ReplacedStore(_summary(inspection), _install(new, path, inspection.state))
        finally:
            lock.release()


def _require_store(path: Path) -> None:
    if not path.exists() and not record_path(path).exists():
        raise NotFound(f"no store in {path.parent}; specify its directory with --data DIR")


def _summary(inspection: Inspection) -> Summary:
    return Summary(len(inspection.checksums.objects), inspection.state.version)


def _file_type(source: Path) -> str:
    if source.is_dir():
        return "it is a directory"
    if source.is_file():
        return "it is empty"
    return "it is not a regular file" if source.exists() else "it does not exist"


def _raise_on_loss(
    path: Path, state: DatabaseState, before: RecordedCommit | None, after: RecordedCommit | None
) -> None:
    """Raises StoreCorrupted if *state*, read between the two records, lacks acknowledged writes."""
    if (
        before is None
        or after is None
        or loss_message(state, before) is None
        or loss_message(state, after) is None
    ):
        return
    # A launcher has committed in between. Only the versions of its intermediate states are known.
    if before != after and before.acknowledged.version <= state.version <= after.pending.version:
        return
    raise corruption_error(path, loss_message(state, before) or "")


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """Yields a new private file, renamed to *target* at the end of the block, and removed on errors."""
    if target.exists():
        raise Conflict(
            f"{target} {'is a directory' if target.is_dir() else 'already exists'}; specify a new file"
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
        # In one step, so that the copy is consistent; a running launcher can continue to write.
        reading.backup(writing)
        # Makes the copy a single file that can be moved and read alone.
        writing.execute("PRAGMA journal_mode = DELETE")


def _last_known_version(path: Path) -> Version:
    """Returns the last version of the store at that path, as far as it can be read."""
    with suppress(LauncherError):
        if (record := read_record(path)) is not None:
            return max(record.acknowledged.version, record.pending.version)
    with suppress(LauncherError):
        return inspect(path).state.version if path.exists() else 0
    return 0


def _continue_versions(partial: Path, last: Version) -> Inspection:
    """Makes versions continue after *last* and returns the content of the new store."""
    with our_errors(partial), closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        connection.execute("UPDATE progress SET version = max(version, ?)", [last])
    return inspect(partial)


def _install(new: Path, path: Path, state: DatabaseState) -> Path | None:
    """
    Replaces the store by *new* and returns the directory with the previous files, if any.

    The commit record is moved last: a launcher that starts in between detects that the store is missing.
    """
    old = [file for file in (Path(f"{path}-wal"), path, record_path(path)) if file.exists()]
    previous_files = (
        path.with_name(time.strftime("store-replaced-%Y%m%dT%H%M%SZ", time.gmtime())) if old else None
    )
    if previous_files is not None:
        previous_files.mkdir(mode=0o700)
        chown_to_directory_owner(previous_files)
    for file in old:
        if previous_files is not None and file != record_path(path):
            file.rename(previous_files / file.name)
    Path(f"{path}-shm").unlink(missing_ok=True)
    chown_to_directory_owner(new)
    new.rename(path)
    if previous_files is not None and record_path(path) in old:
        record_path(path).rename(previous_files / record_path(path).name)
    CommitRecord(path, state, 0).close()
    chown_to_directory_owner(record_path(path))
    return previous_files
