"""
What the logs of all runs of one shim may use: bytes on disk, bytes per second, and a reserve of the disk.

A run whose log has used up its rate is not read for a moment. Its pipe fills up, and the container waits in its write,
as with every container runtime. So a container that writes as fast as it can delays itself and no other.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from launcher.node.shim.run_records import Json

#: A log file is at least so long before it is rotated, however many containers share a budget.
LEAST_FILE_BYTES = 64 * 1024
#: Of a small disk at most this part is reserved; it is more than the store needs to take new objects.
_RESERVED_PART = 10
#: The free space of the disk is read again after so many bytes at most, or seconds.
_CHECK_BYTES = 4 * 1024 * 1024
_CHECK_SECONDS = 1.0


class TokenBucket:
    """Bytes that may be written: so many per second, saved up to a burst."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._at = burst, now

    def take(self, count: int, now: float) -> None:
        """Use *count* bytes, also such as are not there yet: then others wait until they are."""
        self._refill(now)
        self._tokens -= count

    def wait_seconds(self, now: float) -> float:
        """Seconds until bytes are there; 0 when some are."""
        self._refill(now)
        return max(0.0, -self._tokens / self._rate)

    def is_half_full(self) -> bool:
        return self._tokens >= self._burst / 2

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now


class LogLimits:
    """The limits of all logs, and how many runs share them."""

    def __init__(self, options: Json, now: float) -> None:
        self._options = options
        self._live = 0
        #: How many runs write logs, by the Framework that they belong to.
        self._live_of: dict[str, int] = {}
        self._rate = TokenBucket(options["log_rate"], options["log_burst"], now)
        self._has_room = True
        self._unchecked_bytes = self._check_bytes = 0
        self._checked_at = -_CHECK_SECONDS

    @property
    def files(self) -> int:
        """How many rotated files of a run are kept."""
        files: int = self._options["log_files"]
        return files

    def configure(self, options: Json, now: float) -> None:
        """These options replace those before, for running containers too."""
        self._options = options
        self._rate = TokenBucket(options["log_rate"], options["log_burst"], now)

    def run_bucket(self, now: float) -> TokenBucket:
        """The rate of one run: half of the whole, so that one alone never uses up all of it."""
        return TokenBucket(self._options["log_rate"] / 2, self._options["log_burst"] / 2, now)

    def join(self, group: str) -> None:
        """Another run of that Framework writes a log."""
        self._live += 1
        self._live_of[group] = self._live_of.get(group, 0) + 1

    def leave(self, group: str) -> None:
        """A run of that Framework writes no log any more."""
        self._live -= 1
        self._live_of[group] -= 1
        if not self._live_of[group]:
            del self._live_of[group]

    def file_bytes(self, group: str) -> int:
        """At so many bytes a log is rotated: the running containers of a budget share it evenly."""
        options, each = self._options, self.files + 1
        most: int = min(
            options["log_bytes"],
            options["log_budget"] // (max(1, self._live) * each),
            options["log_budget_framework"] // (self._live_of.get(group, 1) * each),
        )
        return max(min(LEAST_FILE_BYTES, int(options["log_bytes"])), most)

    def wrote(self, count: int, own: TokenBucket, now: float) -> float:
        """Count bytes that a run has written. Seconds for which it must not be read; 0 for none."""
        self._unchecked_bytes += count
        self._rate.take(count, now)
        own.take(count, now)
        shared = 0.0 if own.is_half_full() else self._rate.wait_seconds(now)
        return max(shared, own.wait_seconds(now))

    def has_room(self, file: int, now: float) -> bool:
        """Whether the disk of *file* has more left than the reserve, as of a moment ago."""
        is_recent = 0 <= now - self._checked_at < _CHECK_SECONDS
        if not (self._has_room and is_recent and self._unchecked_bytes < self._check_bytes):
            disk = os.fstatvfs(file)
            reserve = min(self._options["log_reserve"], disk.f_blocks * disk.f_frsize // _RESERVED_PART)
            self._has_room = disk.f_bavail * disk.f_frsize >= reserve
            self._unchecked_bytes, self._checked_at = 0, now
            # Not so seldom that the reserve could be used up in between.
            self._check_bytes = min(_CHECK_BYTES, reserve // 8)
        return self._has_room
