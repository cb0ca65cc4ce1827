"""
Limits the logs on disk to their budgets: one for each Framework and one for all of them.

Whole files are removed, the least useful first: rotated files of ended containers, then rotated files of running ones,
then the newest files of ended ones. The shim limits the file that a running container writes. A marker line in the log
shows where something was removed.
"""

import asyncio
import logging
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.core.errors import LauncherError
from launcher.core.events import ObjectEvent
from launcher.node.shim.log_writer import FINISHED, WRITING, records
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import FRAMEWORKS, Store

log = logging.getLogger(__name__)

_FRAMEWORK_POD = re.compile(r"(.+)-[a-z0-9]{1,63}-[0-9]{1,10}")
_FILE = re.compile(r"(?P<restart>[0-9]+)\.log(?P<rotated>\.[0-9]+)?")
#: Seconds between two scans, and the minimum as a multiple of the duration of a scan.
_INTERVAL_SECONDS, _PAUSE_FACTOR = 10.0, 50.0
#: Smaller files, such as those with a marker only, are not removed.
_MIN_BYTES = 4096
#: An exceeded budget is freed to this fraction, so that not every line removes a file.
_TARGET_FRACTION = 0.9


@dataclass(frozen=True, slots=True)
class LogBudgets:
    """The budgets of logs on disk, in bytes."""

    total: int = 10 * 1024**3
    framework: int = 1024**3
    #: The free space that logs leave on their disk.
    reserve: int = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log."""

    path: Path
    inode: int
    size: int
    #: Nanoseconds since 1970.
    modified: int
    #: Files of the same group share a budget.
    group: str
    #: Whether its container has ended.
    finished: bool
    rotated: bool

    @property
    def order(self) -> tuple[int, int]:
        """Files of a lower order are removed first."""
        return (0 if self.finished else 1) if self.rotated else 2, self.modified


@dataclass(frozen=True, slots=True)
class Removal:
    """A file to remove, and the setting whose budget is exceeded."""

    file: LogFile
    setting: str


def log_group(namespace: str, pod: str) -> str:
    """The budget of a pod's logs: that of its Framework, after which it is named, or its own."""
    return f"{namespace}/{framework_name(pod) or pod}"


def framework_name(pod: str) -> str:
    """The name of the Framework in a pod name of the form ``<framework>-<role>-<index>``; else empty."""
    match = _FRAMEWORK_POD.fullmatch(pod)
    return match[1] if match else ""


def removals(files: Iterable[LogFile], budgets: LogBudgets) -> list[Removal]:
    """The files to remove, in order."""
    groups: dict[str, list[LogFile]] = {}
    for file in files:
        groups.setdefault(file.group, []).append(file)
    removed: list[Removal] = []
    for group in groups.values():
        removed += _exceeding(group, budgets.framework, "log-budget-framework")
    removed_paths = {removal.file.path for removal in removed}
    rest = [file for group in groups.values() for file in group if file.path not in removed_paths]
    return removed + _exceeding(rest, budgets.total, "log-budget")


def _exceeding(files: list[LogFile], budget: int, setting: str) -> list[Removal]:
    used = sum(file.size for file in files)
    removed: list[Removal] = []
    if used <= budget:
        return removed
    # The shim limits the newest file of a running container.
    removable = [file for file in files if (file.rotated or file.finished) and file.size >= _MIN_BYTES]
    for file in sorted(removable, key=lambda file: file.order):
        if used <= budget * _TARGET_FRACTION:
            break
        removed.append(Removal(file, setting))
        used -= file.size
    return removed


def log_files(root: Path) -> Iterator[LogFile]:
    """Every file of every log below *root*: ``NAMESPACE/POD/UID/CONTAINER/RESTART.log[.N]``."""
    for namespace in _directories(root):
        for pod in _directories(namespace):
            group = log_group(namespace.name, pod.name)
            for uid in _directories(pod):
                for container in _directories(uid):
                    yield from _container_files(container, group)


def _directories(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # removed meanwhile


def _container_files(folder: Path, group: str) -> Iterator[LogFile]:
    files: list[tuple[re.Match[str], os.stat_result]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = _FILE.fullmatch(entry.name)
                if name and entry.is_file(follow_symlinks=False):
                    files.append((name, entry.stat(follow_symlinks=False)))
    except OSError:
        return  # removed meanwhile
    running = {name["restart"] for name, status in files if not name["rotated"] and status.st_mode & 0o200}
    for name, status in files:
        yield LogFile(
            folder / name.string,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            group,
            finished=name["restart"] not in running,
            rotated=bool(name["rotated"]),
        )


def remove(removal: Removal) -> int:
    """Replaces the content of the file by a marker. Returns the freed bytes; 0 if the file was replaced meanwhile."""
    file = removal.file
    message = f"launcher: {file.size} bytes of the log were removed here: its budget is exceeded ({removal.setting})\n"
    try:
        if not file.rotated:
            file.path.chmod(WRITING)
        descriptor = os.open(file.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        status = os.fstat(descriptor)
        # A running container's files may have been rotated since; a file with two names is being rotated.
        if status.st_ino != file.inode or status.st_nlink != 1:
            return 0
        os.ftruncate(descriptor, 0)
        os.write(descriptor, records(b"stderr", message.encode(), file.modified))
        if not file.rotated:
            os.fchmod(descriptor, FINISHED)
        return file.size
    except OSError:
        return 0
    finally:
        os.close(descriptor)


class LogBudget:
    """Removes logs that exceed their budgets, until cancelled."""

    def __init__(
        self,
        store: Store,
        root: Path,
        budgets: LogBudgets,
        events: EventRecorder,
        *,
        interval: float = _INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._root, self._budgets, self._events = store, root, budgets, events
        self._interval, self._clock = interval, clock
        #: Bytes of all logs at the last scan, and those removed since the start.
        self.used_bytes = 0
        self.removed_bytes = 0

    async def run(self) -> None:
        """Scans periodically."""
        while True:
            started_at = self._clock()
            for group, settings in (await asyncio.to_thread(self.enforce)).items():
                await self._report(group, settings)
            await asyncio.sleep(max(self._interval, (self._clock() - started_at) * _PAUSE_FACTOR))

    def enforce(self) -> dict[str, set[str]]:
        """Removes logs that exceed a budget. Returns the exceeded settings by group."""
        files = list(log_files(self._root))
        self.used_bytes = sum(file.size for file in files)
        freed: Counter[str] = Counter()
        exceeded: dict[str, set[str]] = {}
        for removal in removals(files, self._budgets):
            count = remove(removal)
            freed[removal.file.group] += count
            if count:
                exceeded.setdefault(removal.file.group, set()).add(removal.setting)
        self.used_bytes -= freed.total()
        self.removed_bytes += freed.total()
        return exceeded

    async def _report(self, group: str, settings: Iterable[str]) -> None:
        namespace, _, name = group.partition("/")
        log.warning("logs removed", extra={"framework": group, "exceeded": sorted(settings)})
        try:
            framework = await self._store.get(FRAMEWORKS, namespace, name)
        except LauncherError:
            return  # a pod without a Framework, or already deleted
        self._events.record(
            framework,
            [
                ObjectEvent(
                    "LogsRemoved", f"The oldest logs were removed: {setting} is exceeded", warning=True
                )
                for setting in sorted(settings)
            ],
        )
