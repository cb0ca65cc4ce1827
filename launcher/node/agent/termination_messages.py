"""
Termination messages: what a container wrote last, to its file or else to its log.

The files are beside each other, each named after its run: making and removing a directory takes many times as long.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.node.container_runtime import RunId
from launcher.node.file_names import is_file_name

#: What is kept of one container, and of all containers of a pod together, in bytes.
_MOST = 4096
_MOST_OF_POD = 12 * 1024
#: What is taken of the log.
_LOG_LINES, _LOG_BYTES = 80, 2048


class TerminationMessages:
    """The files that stand at the containers' terminationMessagePath."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def kept(self) -> list[RunId]:
        """The runs that have a file."""
        try:
            return [RunId(name) for name in os.listdir(self._directory)]
        except FileNotFoundError:
            return []

    def file(self, run: RunId) -> Path:
        """The run's file, now there; whatever the container runs as, it may write it."""
        if not is_file_name(run):
            raise ValueError(f"{run!r} cannot be a file name")
        path = self._directory / run
        try:
            self._make(path)
        except FileNotFoundError:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make(path)
        return path

    def _make(self, path: Path) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        os.fchmod(descriptor, 0o666)
        os.close(descriptor)

    def remove(self, run: RunId) -> None:
        """The run's file is gone, if it was there."""
        if is_file_name(run):
            (self._directory / run).unlink(missing_ok=True)

    def of(
        self,
        run: RunId,
        spec: Mapping[str, Any],
        exit_code: int,
        tail: Callable[[int, int], str],
        containers: int,
    ) -> str:
        """What the run left to say; *tail* reads the end of its log, *containers* share the room of the pod."""
        said = _end_of(self._directory / run, min(_MOST, _MOST_OF_POD // max(1, containers)))
        if said or not exit_code or spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return said
        return tail(_LOG_LINES, _LOG_BYTES)


def _end_of(path: Path, most: int) -> str:
    """The last *most* bytes of the file; nothing if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - most))
        return file.read(most).decode(errors="replace")
