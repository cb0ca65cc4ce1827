"""Where the logs of containers are on this machine, and what they say: ``NAMESPACE/POD/UID/CONTAINER/RESTART.log``."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeVar

from launcher.core.errors import BadRequest, NotFound
from launcher.core.pods.log_options import PodLogOptions
from launcher.node.file_names import is_file_name
from launcher.node.logs.log_reader import LogLineDecoder, LogReader

#: A log of more bytes is read by a thread, so that nobody waits for the disk meanwhile.
_MUCH = 256 * 1024
#: Seconds between two looks at a log that is followed: short after a line has come, longer the longer none comes.
_SOON, _LATE, _SLOWER = 0.01, 0.25, 1.5

_T = TypeVar("_T")


class ContainerLogs:
    """The logs below one directory."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, namespace: str, pod: str, uid: str, container: str, restart: int) -> Path:
        """The log of one run. Raises ValueError for a name that would lead out of the directory of all logs."""
        for name in (namespace, pod, uid, container):
            if not is_file_name(name):
                raise ValueError(f"{name!r} cannot be a part of a path")
        return self._root / namespace / pod / uid / container / f"{restart}.log"

    def containers(self, namespace: str, pod: str, uid: str | None) -> Sequence[str]:
        """The containers of that pod that have a log; of the newest pod of that name when *uid* is None."""
        folder = self._folder(namespace, pod, uid)
        return sorted(_names(folder)) if folder is not None else ()

    async def read(
        self, namespace: str, pod: str, uid: str | None, container: str, view: PodLogOptions
    ) -> AsyncIterator[bytes]:
        """
        What *view* shows of a container's log; when it is followed, until the run has ended.

        Raises NotFound when there is no such log, BadRequest when there was no run before the last one.
        """
        files = self._open(namespace, pod, uid, container, previous=view.previous)
        with closing(files):
            left = view.limit_bytes
            async for text in _texts(files, view):
                yield text if left is None else text[:left]
                if left is not None:
                    left -= len(text)
                    if left <= 0:
                        return

    def begin(self, namespace: str, pod: str, uid: str) -> None:
        """Give a pod its directory, so that it counts among the pods of its name also if it never writes a log."""
        if all(map(is_file_name, (namespace, pod, uid))):
            # Without it, only the order of the logs is lost.
            with suppress(OSError):
                (self._root / namespace / pod / uid).mkdir(parents=True, exist_ok=True)

    def uid_before(self, namespace: str, pod: str, uid: str | None) -> str | None:
        """The uid of the pod of that name before the one with *uid*; None is the newest pod of that name."""
        if not (is_file_name(namespace) and is_file_name(pod)):
            return None
        folder = self._root / namespace / pod
        uids = sorted(_names(folder), key=lambda name: (folder / name).stat().st_mtime_ns)
        at = uids.index(uid) if uid in uids else len(uids) - (uid is None)
        return uids[at - 1] if at > 0 else None

    def tail(self, path: Path, lines: int, most: int) -> str:
        """The last *lines* of the log of one run, and of those the last *most* bytes; nothing when there is none."""
        try:
            files = LogReader(path)
        except FileNotFoundError:
            return ""
        with closing(files):
            files.skip_to_last(lines)
            text, said = b"", LogLineDecoder()
            while records := files.read():
                text = (text + said.of(records))[-most:]
        return text.decode(errors="replace")

    def remove(self, namespace: str, pod: str) -> None:
        """No log of any pod of that name is left."""
        if is_file_name(namespace) and is_file_name(pod):
            shutil.rmtree(self._root / namespace / pod, ignore_errors=True)

    def _folder(self, namespace: str, pod: str, uid: str | None) -> Path | None:
        """Where the logs of that pod are, if there are any."""
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
            raise NotFound(f'there is no log of container "{container}" in pod "{pod}"')
        if previous and len(runs) < 2:
            raise BadRequest(f'previous terminated container "{container}" in pod "{pod}" not found')
        try:
            return LogReader(runs[-2] if previous else runs[-1])
        except FileNotFoundError as error:
            raise NotFound(
                f'the log of container "{container}" in pod "{pod}" has just been removed'
            ) from error


async def _texts(files: LogReader, view: PodLogOptions) -> AsyncIterator[bytes]:
    lines = LogLineDecoder(timestamps=view.timestamps, since=view.since)
    much = files.size() > _MUCH
    if view.tail_lines is not None:
        await _done(much, lambda: files.skip_to_last(view.tail_lines or 0))
    pause = _SOON
    while True:
        # Looked at before the last read: what was written before the end is then still seen.
        over = not view.follow or files.finished()
        seen = False
        while records := await _done(much, files.read):
            seen = True
            if text := lines.of(records):
                yield text
                # A client that reads as fast as a container writes never makes its sender wait.
                await asyncio.sleep(0)
        if over:
            return
        # After the first time through, only what is new is left to read.
        much = False
        pause = _SOON if seen else min(_LATE, pause * _SLOWER)
        await asyncio.sleep(pause)


async def _done(much: bool, work: Callable[[], _T]) -> _T:
    return await asyncio.to_thread(work) if much else work()


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir() if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _runs(folder: Path) -> list[Path]:
    """The logs of a container's runs, the first run's first."""
    found = [path for path in folder.glob("*.log") if path.stem.isdecimal()]
    return sorted(found, key=lambda path: int(path.stem))
