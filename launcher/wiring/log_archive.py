"""The parts of the log archive: the archive, the copier of logs, and their metrics."""

import asyncio
import logging
from collections.abc import Iterator

from launcher.api.middleware.metrics import CallbackCounter, CallbackGauge
from launcher.controller.log_copier import (
    ArchiveFault,
    ContainerLogCopier,
    LogArchiveCounts,
    LogArchiveOptions,
    PodLogSource,
)
from launcher.core.errors import LauncherError
from launcher.log_archive.interface import ArchivedPod, LogArchive
from launcher.settings.cluster import LogArchiveSettings
from launcher.settings.values import InvalidSetting

log = logging.getLogger(__name__)

#: A pod that does not exist, to check the access to the archive.
_NO_POD = ArchivedPod("launcher", "access", "check")


class LogArchiveParts:
    """The configured log archive."""

    def __init__(self, source: PodLogSource, settings: LogArchiveSettings) -> None:
        """*source* reads logs in the cluster. Raises InvalidSetting."""
        self._url, options = settings.url, LogArchiveOptions(settings.tail_bytes, settings.timeout_seconds)
        self.archive = _open(settings.url)
        self.copier = ContainerLogCopier(source, self.archive, options)

    async def check_access(self) -> None:
        """Logs a warning if the archive cannot be listed."""
        try:
            async with asyncio.timeout(self.copier.options.timeout_seconds):
                await self.archive.runs(_NO_POD)
        except (LauncherError, TimeoutError) as error:
            message = str(error) or "no response in time"
            log.warning("log archive not accessible", extra={"url": self._url, "error": message})
        else:
            log.info("log archive accessible", extra={"url": self._url})

    def metrics(self) -> Iterator[CallbackGauge]:
        return log_archive_metrics(self.copier.counts)


def _open(url: str) -> LogArchive:
    # obstore, which it imports, takes 30 ms and is used with an archive only.
    from launcher.log_archive.object_store import open_archive

    try:
        return open_archive(url)
    except ValueError as error:
        raise InvalidSetting(f"log-archive: {error}") from error


def log_archive_metrics(counts: LogArchiveCounts) -> Iterator[CallbackGauge]:
    """Returns the metrics of the archive. Replicas that do not lead store nothing."""
    yield CallbackCounter(
        "launcher_log_archive_stored_total", "Logs stored in the archive.", lambda: [((), counts.stored)]
    )
    yield CallbackCounter(
        "launcher_log_archive_stored_bytes_total",
        "Bytes of logs stored in the archive.",
        lambda: [((), counts.stored_bytes)],
    )
    yield CallbackCounter(
        "launcher_log_archive_failures_total",
        "Failed attempts to archive a log, by reason.",
        lambda: [((("reason", fault),), counts.failures[fault]) for fault in ArchiveFault],
    )
    yield CallbackCounter(
        "launcher_log_archive_lost_total",
        "Logs that were not archived before their pod was deleted, or that cannot be read.",
        lambda: [((), counts.lost)],
    )
    yield CallbackGauge(
        "launcher_log_archive_pending", "Logs to archive.", lambda: [((), float(counts.pending))]
    )
