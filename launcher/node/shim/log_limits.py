"""
Limits of the logs of all runs of one shim: bytes on disk, bytes per second, and a reserve of the disk.

The output of a run whose log has used up its rate is not read for a moment. Its pipe fills up, and the container blocks
in its write, as with every container runtime. So a container that writes as fast as it can delays only itself.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.node.shim.run_records import Json

#: The minimum size of a log file before it is rotated, regardless of how many containers share a budget.
MIN_FILE_BYTES = 64 * 1024
#: At most a tenth of a small disk is reserved; that is more than the store needs to write new objects.
_MAX_RESERVE_DIVISOR = 10
#: The free disk space is read again after this many bytes or seconds.
_CHECK_BYTES = 4 * 1024 * 1024
_CHECK_SECONDS = 1.0


class TokenBucket:
    """A token bucket of bytes: *rate* per second, up to *burst*."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, count: int, now: float) -> None:
        """Takes *count* bytes, possibly more than are available; ``wait_seconds`` is then positive."""
        self._refill(now)
        self._tokens -= count

    def wait_seconds(self, now: float) -> float:
        """Seconds until bytes are available; 0 if some are."""
        self._refill(now)
        return max(0.0, -self._tokens / self._rate)

    def is_half_full(self) -> bool:
        return self._tokens >= self._burst / 2

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


class LogLimits:
    """The limits of all logs, shared by the runs that write them."""

    def __init__(self, options: Json, now: float) -> None:
        self._options = options
        self._live = 0
        #: The number of runs that write logs, by group.
        self._live_by_group: dict[str, int] = {}
        self._rate = TokenBucket(options["log_rate"], options["log_burst"], now)
        self._has_space = True
        self._unchecked_bytes = self._check_bytes = 0
        self._checked_at = -_CHECK_SECONDS

    @property
    def files(self) -> int:
        """The number of rotated files of a run that are retained."""
        files: int = self._options["log_files"]
        return files

    def configure(self, options: Json, now: float) -> None:
        """Replaces the options, for running containers too."""
        self._options = options
        self._rate = TokenBucket(options["log_rate"], options["log_burst"], now)

    def run_bucket(self, now: float) -> TokenBucket:
        """The token bucket of one run: half of the shared rate, so that one run never uses up all of it."""
        return TokenBucket(self._options["log_rate"] / 2, self._options["log_burst"] / 2, now)

    def join(self, group: str) -> None:
        """Counts another run of *group*."""
        self._live += 1
        self._live_by_group[group] = self._live_by_group.get(group, 0) + 1

    def leave(self, group: str) -> None:
        """Counts a run of *group* less."""
        self._live -= 1
        self._live_by_group[group] -= 1
        if not self._live_by_group[group]:
            del self._live_by_group[group]

    def file_bytes(self, group: str) -> int:
        """The size at which a log is rotated: the running containers share their budgets evenly."""
        options, files = self._options, self.files + 1
        maximum: int = min(
            options["log_bytes"],
            options["log_budget"] // (max(1, self._live) * files),
            options["log_budget_framework"] // (self._live_by_group.get(group, 1) * files),
        )
        return max(min(MIN_FILE_BYTES, int(options["log_bytes"])), maximum)

    def record_write(self, count: int, own: TokenBucket, now: float) -> float:
        """Counts bytes that a run has written. Returns the seconds for which its output must not be read."""
        self._unchecked_bytes += count
        self._rate.take(count, now)
        own.take(count, now)
        shared = 0.0 if own.is_half_full() else self._rate.wait_seconds(now)
        return max(shared, own.wait_seconds(now))

    def has_space(self, file: int, now: float) -> bool:
        """Whether the disk of *file* had more free space than the reserve when it was last checked."""
        is_recent = 0 <= now - self._checked_at < _CHECK_SECONDS
        if not (self._has_space and is_recent and self._unchecked_bytes < self._check_bytes):
            disk = os.fstatvfs(file)
            reserve = min(self._options["log_reserve"], disk.f_blocks * disk.f_frsize // _MAX_RESERVE_DIVISOR)
            self._has_space = disk.f_bavail * disk.f_frsize >= reserve
            self._unchecked_bytes, self._checked_at = 0, now
            # Often enough that the reserve is not used up in between.
            self._check_bytes = min(_CHECK_BYTES, reserve // 8)
        return self._has_space
