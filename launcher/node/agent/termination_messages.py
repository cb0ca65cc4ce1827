"""
The termination messages of containers, from their files or, if configured, from the end of their logs.

The files of all pods are in one directory, each named after its run: creating and removing a directory per pod would
take many times as long.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.node.container_runtime import RunId
from launcher.node.file_names import is_file_name

#: The limits for one container, and for all containers of a pod together.
_MAX_BYTES = 4096
_MAX_POD_BYTES = 12 * 1024
#: The part of the log that replaces an empty message.
_LOG_LINES, _LOG_BYTES = 80, 2048


class TerminationMessages:
    """The files that are mounted at the containers' terminationMessagePath."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def runs(self) -> list[RunId]:
        """The runs that have a file."""
        try:
            return [RunId(name) for name in os.listdir(self._directory)]
        except FileNotFoundError:
            return []

    def create_file(self, run: RunId) -> Path:
        """Creates the run's file, which the container may write whatever its user is."""
        if not is_file_name(run):
            raise ValueError(f"{run!r} cannot be a file name")
        path = self._directory / run
        try:
            self._create(path)
        except FileNotFoundError:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._create(path)
        return path

    def _create(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        os.fchmod(descriptor, 0o666)
        os.close(descriptor)

    def remove(self, run: RunId) -> None:
        """Removes the run's file, if it exists."""
        if is_file_name(run):
            (self._directory / run).unlink(missing_ok=True)

    def read(
        self,
        run: RunId,
        spec: Mapping[str, Any],
        exit_code: int,
        read_log_tail: Callable[[int, int], str],
        containers: int,
    ) -> str:
        """The message of the run; *read_log_tail* reads the end of its log, *containers* share the pod's limit."""
        message = _read_end(self._directory / run, min(_MAX_BYTES, _MAX_POD_BYTES // max(1, containers)))
        if message or not exit_code or spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return message
        return read_log_tail(_LOG_LINES, _LOG_BYTES)


def _read_end(path: Path, max_bytes: int) -> str:
    """The last *max_bytes* of the file; empty if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - max_bytes))
        return file.read(max_bytes).decode(errors="replace")
