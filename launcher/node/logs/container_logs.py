"""The logs of containers on disk, at ``NAMESPACE/POD/UID/CONTAINER/RESTART.log``."""

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, closing
from pathlib import Path
from typing import TypeVar

from launcher.core.errors import BadRequest, NotFound
from launcher.core.pods.log_options import PodLogOptions
from launcher.node.file_names import is_file_name
from launcher.node.logs.log_reader import LogLineDecoder, LogReader
from launcher.store.interface import Key

#: Longer logs are read in a thread, so that the event loop does not wait for the disk.
_THREAD_BYTES = 256 * 1024
#: The interval at which a followed log is polled, which grows while nothing is written.
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS, _POLL_FACTOR = 0.01, 0.25, 1.5

_T = TypeVar("_T")


class ContainerLogs:
    """The logs below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, namespace: str, pod: str, uid: str, container: str, restart: int) -> Path:
        """The log of one run. Raises ValueError for a name that is not a single path component."""
        for name in (namespace, pod, uid, container):
            if not is_file_name(name):
                raise ValueError(f"{name!r} cannot be a part of a path")
        return self._root / namespace / pod / uid / container / f"{restart}.log"

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        """The containers of the pod that have a log; of the newest pod of that name if *uid* is None."""
        folder = self._folder(namespace, pod, uid)
        return sorted(_names(folder)) if folder is not None else ()

    async def read(
        self, namespace: str, pod: str, uid: str | None, container: str, options: PodLogOptions
    ) -> AsyncGenerator[bytes, None]:
        """
        Yield the part of a container's log that *options* select; with ``follow``, until the run has ended.

        Raises NotFound if there is no such log, BadRequest if there was no previous run.
        """
        files = self._open(namespace, pod, uid, container, previous=options.previous)
        with closing(files):
            remaining = options.limit_bytes
            async for text in _texts(files, options):
                yield text if remaining is None else text[:remaining]
                if remaining is not None:
                    remaining -= len(text)
                    if remaining <= 0:
                        return

    @asynccontextmanager
    async def open_log(
        self, namespace: str, pod: str, container: str, *, previous: bool, follow: bool, tail_lines: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens the last lines of the newest pod's log, with timestamps. Raises NotFound, BadRequest."""
        options = PodLogOptions(follow=follow, previous=previous, timestamps=True, tail_lines=tail_lines)
        async with aclosing(self.read(namespace, pod, None, container, options)) as chunks:
            yield chunks

    def tail(self, path: Path, lines: int, max_bytes: int) -> str:
        """The last *lines* of the log at *path*, and of those the last *max_bytes*; empty if there is none."""
        try:
            files = LogReader(path)
        except FileNotFoundError:
            return ""
        with closing(files):
            files.skip_to_last(lines)
            text, decoder = b"", LogLineDecoder()
            while records := files.read():
                text = (text + decoder.decode(records))[-max_bytes:]
        return text.decode(errors="replace")

    def last_written(self, namespace: str, pod: str, uid: str) -> float | None:
        """The system time at which a container of the pod last wrote to its log; None if there is no log."""
        folder = self._folder(namespace, pod, uid)
        newest = [_runs(folder / name)[-1:] for name in _names(folder)] if folder is not None else []
        times = [_modification_time(path) for paths in newest for path in paths]
        return max((each for each in times if each is not None), default=None)

    def pods(self) -> list[Key]:
        """The namespace and name of every pod that has logs."""
        return [(path.parent.name, path.name) for path in self._root.glob("*/*") if path.is_dir()]

    def remove(self, namespace: str, pod: str) -> None:
        """Removes the logs of all pods of that name."""
        if is_file_name(namespace) and is_file_name(pod):
            shutil.rmtree(self._root / namespace / pod, ignore_errors=True)

    def _folder(self, namespace: str, pod: str, uid: str | None) -> Path | None:
        """The directory of the pod's logs, if it has any."""
        if not (is_file_name(namespace) and is_file_name(pod) and (uid is None or is_file_name(uid))):
            return None
        folder = self._root / namespace / pod
        if uid is not None:
            return folder / uid
        pods = [folder / name for name in _names(folder)]
        return max(pods, key=lambda path: path.stat().st_mtime_ns, default=None)

    def _open(
        self, namespace: str, pod: str, uid: str | None, container: str, *, previous: bool
    ) -> LogReader:
        folder = self._folder(namespace, pod, uid)
        runs = _runs(folder / container) if folder is not None and is_file_name(container) else []
        if not runs:
            raise NotFound(f'no log of container "{container}" in pod "{pod}"')
        if previous and len(runs) < 2:
            raise BadRequest(f'previous terminated container "{container}" in pod "{pod}" not found')
        try:
            return LogReader(runs[-2] if previous else runs[-1])
        except FileNotFoundError as error:
            raise NotFound(f'the log of container "{container}" in pod "{pod}" was removed') from error


async def _texts(files: LogReader, options: PodLogOptions) -> AsyncIterator[bytes]:
    decoder = LogLineDecoder(timestamps=options.timestamps, since=options.since)
    in_thread = files.size() > _THREAD_BYTES
    if options.tail_lines is not None:
        await _call(lambda: files.skip_to_last(options.tail_lines or 0), in_thread=in_thread)
    interval = _MIN_POLL_SECONDS
    while True:
        # Checked before the last read, which then includes everything that was written before the end.
        is_complete = not options.follow or files.finished()
        has_new = False
        while records := await _call(files.read, in_thread=in_thread):
            has_new = True
            if text := decoder.decode(records):
                yield text
                # Yields to the event loop: sending to a fast client never blocks.
                await asyncio.sleep(0)
        if is_complete:
            return
        # After the first pass only new lines remain to be read.
        in_thread = False
        interval = _MIN_POLL_SECONDS if has_new else min(_MAX_POLL_SECONDS, interval * _POLL_FACTOR)
        await asyncio.sleep(interval)


async def _call(function: Callable[[], _T], *, in_thread: bool) -> _T:
    return await asyncio.to_thread(function) if in_thread else function()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _runs(folder: Path) -> list[Path]:
    """The logs of a container's runs, the oldest first."""
    logs = [path for path in folder.glob("*.log") if path.stem.isdecimal()]
    return sorted(logs, key=lambda path: int(path.stem))


def _modification_time(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None  # removed meanwhile
