"""
Keeps the logs on disk within their budgets: one for each Framework and one for all of them.

Whole files go, the least useful first: rotated files of containers that have ended, then rotated files of running ones,
then what is left of ended ones. The file that a running container writes to is left to the shim, which makes it small
enough. A marker line stands in the log where something was removed.
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
from launcher.core.planning.actions import ObjectEvent
from launcher.node.shim.log_writer import FINISHED, WRITING, records
from launcher.store.event_recorder import EventRecorder
from launcher.store.interface import FRAMEWORKS, Store

log = logging.getLogger(__name__)

_OF_FRAMEWORK = re.compile(r"(.+)-[a-z0-9]{1,63}-[0-9]{1,10}")
_FILE = re.compile(r"(?P<restart>[0-9]+)\.log(?P<rotated>\.[0-9]+)?")
#: Seconds between two scans; a scan that takes long is followed by a pause of so many times its duration.
_INTERVAL, _PAUSE_FACTOR = 10.0, 50.0
#: Files of fewer bytes stay: a marker is not removed.
_LEAST_BYTES = 4096
#: A budget that is exceeded is freed to this part of it, so that not every line removes a file.
_FREED_PART = 0.9


@dataclass(frozen=True, slots=True)
class LogBudgets:
    """What logs may use on disk, in bytes."""

    total: int = 10 * 1024**3
    framework: int = 1024**3
    #: Left free on the disk of the logs.
    reserve: int = 256 * 1024**2


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log."""

    path: Path
    inode: int
    size: int
    #: Nanoseconds since 1970.
    modified: int
    #: Whose budget it shares.
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
    """Whose budget the logs of a pod share: its Framework's, after which it is named, or its own."""
    return f"{namespace}/{framework_name(pod) or pod}"


def framework_name(pod: str) -> str:
    """The name of the Framework whose pods are named like that; empty when no Framework's are."""
    found = _OF_FRAMEWORK.fullmatch(pod)
    return found[1] if found else ""


def removals(files: Iterable[LogFile], budgets: LogBudgets) -> list[Removal]:
    """The files that have to go, the first one first."""
    groups: dict[str, list[LogFile]] = {}
    for file in files:
        groups.setdefault(file.group, []).append(file)
    removed: list[Removal] = []
    for group in groups.values():
        removed += _over(group, budgets.framework, "log-budget-framework")
    gone = {removal.file.path for removal in removed}
    rest = [file for group in groups.values() for file in group if file.path not in gone]
    return removed + _over(rest, budgets.total, "log-budget")


def _over(files: list[LogFile], budget: int, setting: str) -> list[Removal]:
    used = sum(file.size for file in files)
    removed: list[Removal] = []
    if used <= budget:
        return removed
    # The newest file of a running container is its shim's.
    free = [file for file in files if (file.rotated or file.finished) and file.size >= _LEAST_BYTES]
    for file in sorted(free, key=lambda file: file.order):
        if used <= budget * _FREED_PART:
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
        return []  # removed in this moment


def _container_files(folder: Path, group: str) -> Iterator[LogFile]:
    found: list[tuple[re.Match[str], os.stat_result]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = _FILE.fullmatch(entry.name)
                if name and entry.is_file(follow_symlinks=False):
                    found.append((name, entry.stat(follow_symlinks=False)))
    except OSError:
        return  # removed in this moment
    running = {name["restart"] for name, facts in found if not name["rotated"] and facts.st_mode & 0o200}
    for name, facts in found:
        yield LogFile(
            folder / name.string,
            facts.st_ino,
            facts.st_size,
            facts.st_mtime_ns,
            group,
            finished=name["restart"] not in running,
            rotated=bool(name["rotated"]),
        )


def remove(removal: Removal) -> int:
    """Replace what is in the file by a marker. How many bytes that freed; 0 when the file is another by now."""
    file = removal.file
    words = f"launcher: {file.size} bytes of the log were removed here: its budget is exceeded ({removal.setting})\n"
    try:
        if not file.rotated:
            file.path.chmod(WRITING)
        opened = os.open(file.path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        facts = os.fstat(opened)
        # A running container's files may have been rotated since; a file with two names is just being rotated.
        if facts.st_ino != file.inode or facts.st_nlink != 1:
            return 0
        os.ftruncate(opened, 0)
        os.write(opened, records(b"stderr", words.encode(), file.modified))
        if not file.rotated:
            os.fchmod(opened, FINISHED)
        return file.size
    except OSError:
        return 0
    finally:
        os.close(opened)


class LogBudget:
    """Removes logs that exceed their budgets, until cancelled."""

    def __init__(
        self,
        store: Store,
        root: Path,
        budgets: LogBudgets,
        events: EventRecorder,
        *,
        interval: float = _INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._root, self._budgets, self._events = store, root, budgets, events
        self._interval, self._clock = interval, clock
        #: Bytes of all logs at the last scan, and those removed since the start.
        self.used_bytes = 0
        self.removed_bytes = 0

    async def run(self) -> None:
        """Scan again and again."""
        while True:
            began = self._clock()
            for group, settings in (await asyncio.to_thread(self.enforce)).items():
                await self._report(group, settings)
            await asyncio.sleep(max(self._interval, (self._clock() - began) * _PAUSE_FACTOR))

    def enforce(self) -> dict[str, set[str]]:
        """Remove what is too much. The settings that were exceeded, by the group that lost logs."""
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
            return  # a pod of its own, or already deleted
        self._events.record(
            framework,
            [
                ObjectEvent(
                    "LogsRemoved", f"The oldest logs were removed: {setting} is exceeded", warning=True
                )
                for setting in sorted(settings)
            ],
        )
