"""Copies the end of a container's log from the cluster to the log archive."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from launcher.core.errors import Forbidden, LauncherError, NotFound, RequestError, Unavailable
from launcher.log_archive.interface import LogArchive, LogKey
from launcher.log_archive.log_text import LogTail, max_lines
from launcher.store.backoff import ExponentialBackoff

#: The response of the kubelet, without a time, if the runtime has removed the container.
_NO_LOG: Final = b"unable to retrieve container logs for "


class PodLogSource(Protocol):
    """Reads logs of containers in the cluster."""

    def open_log(
        self, namespace: str, pod: str, container: str, *, previous: bool, follow: bool, tail_lines: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """
        Opens the last lines of a log, with timestamps; with *follow* until the container ends.

        Raises NotFound if there is no such pod, another RequestError if it has no such log, and Unavailable, also while
        the log is read.
        """


class ArchiveFault(StrEnum):
    """Why a log is not archived."""

    ARCHIVE_UNAVAILABLE = "ArchiveUnavailable"
    ARCHIVE_FORBIDDEN = "ArchiveForbidden"
    ARCHIVE_TIMEOUT = "ArchiveTimeout"
    LOG_UNAVAILABLE = "LogUnavailable"
    LOG_FORBIDDEN = "LogForbidden"
    POD_DELETED = "PodDeleted"


class CopyFailed(Exception):
    """A log was not copied, for now or, if *is_final*, for ever."""

    def __init__(self, fault: ArchiveFault, message: str, *, is_final: bool = False) -> None:
        super().__init__(message)
        self.fault, self.is_final = fault, is_final


@dataclass(frozen=True, slots=True)
class LogArchiveOptions:
    """Limits of the log archive."""

    #: Bytes of each log that are archived.
    tail_bytes: int
    #: The longest time that the deletion of a pod waits, and the longest time that one call takes.
    timeout_seconds: float


@dataclass(slots=True)
class LogArchiveCounts:
    """What the archiver has done since the start of the process."""

    stored: int = 0
    stored_bytes: int = 0
    #: Attempts that failed; most are repeated.
    failures: Counter[ArchiveFault] = field(default_factory=Counter)
    #: Logs that were not archived before their pod was deleted, or that cannot be read.
    lost: int = 0
    #: Logs to archive.
    pending: int = 0


class ContainerLogCopier:
    """Reads logs and stores them. Every method takes a limited time and raises CopyFailed."""

    def __init__(self, source: PodLogSource, archive: LogArchive, options: LogArchiveOptions) -> None:
        self._source, self._archive, self.options = source, archive, options
        #: Of one call of the archive, so that one that hangs is repeated within the limit.
        self._call_seconds = options.timeout_seconds / 2
        self.counts = LogArchiveCounts()

    async def is_stored(self, key: LogKey) -> bool:
        """Returns whether the archive has the log."""
        try:
            async with asyncio.timeout(self._call_seconds):
                return await self._archive.exists(key)
        except (LauncherError, TimeoutError) as error:
            raise _archive_failure(error) from error

    async def read(
        self,
        key: LogKey,
        *,
        previous: bool,
        follow_seconds: float | None,
        is_replaced: Callable[[], Awaitable[bool]],
    ) -> bytes:
        """
        Returns the end of the log; with *follow_seconds*, when the container has ended or after so long.

        *is_replaced* returns whether another pod has the name: a log that is received then may be of that pod. It may
        raise LauncherError.
        """
        tail, pod = LogTail(self.options.tail_bytes), key.pod
        try:
            async with (
                asyncio.timeout(self.options.timeout_seconds + (follow_seconds or 0.0)),
                self._source.open_log(
                    pod.namespace,
                    pod.name,
                    key.container,
                    previous=previous,
                    follow=follow_seconds is not None,
                    tail_lines=max_lines(self.options.tail_bytes),
                ) as chunks,
            ):
                may_be_of_another = await is_replaced()
                async for chunk in chunks:
                    tail.add(chunk)
        except (LauncherError, TimeoutError) as error:
            raise _log_failure(error) from error
        text = tail.text()
        if text.startswith(_NO_LOG):
            raise CopyFailed(ArchiveFault.LOG_UNAVAILABLE, text.decode(errors="replace"), is_final=True)
        if text and may_be_of_another:
            raise CopyFailed(ArchiveFault.POD_DELETED, "another pod has its name", is_final=True)
        return text

    async def store(self, key: LogKey, text: bytes) -> bool:
        """Stores the log, with retries. Returns False if it is stored already."""
        backoff = ExponentialBackoff(initial=0.5, maximum=10.0)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.options.timeout_seconds
        while True:
            try:
                async with asyncio.timeout_at(min(deadline, loop.time() + self._call_seconds)):
                    return await self._archive.create(key, text)
            except (LauncherError, TimeoutError) as error:
                delay = backoff.next_delay()
                if loop.time() + delay >= deadline:
                    raise _archive_failure(error) from error
            await asyncio.sleep(delay)


def _archive_failure(error: LauncherError | TimeoutError) -> CopyFailed:
    match error:
        case Forbidden():
            return CopyFailed(ArchiveFault.ARCHIVE_FORBIDDEN, str(error))
        case TimeoutError():
            return CopyFailed(ArchiveFault.ARCHIVE_TIMEOUT, "no response in time")
        case _:
            return CopyFailed(ArchiveFault.ARCHIVE_UNAVAILABLE, str(error))


def _log_failure(error: LauncherError | TimeoutError) -> CopyFailed:
    match error:
        case NotFound():
            return CopyFailed(ArchiveFault.POD_DELETED, str(error), is_final=True)
        case Forbidden():
            return CopyFailed(ArchiveFault.LOG_FORBIDDEN, str(error), is_final=True)
        case RequestError():
            return CopyFailed(ArchiveFault.LOG_UNAVAILABLE, str(error), is_final=True)
        case Unavailable():
            return CopyFailed(ArchiveFault.LOG_UNAVAILABLE, str(error))
        case _:
            return CopyFailed(ArchiveFault.LOG_UNAVAILABLE, "not read in time")
