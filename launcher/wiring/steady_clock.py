"""A clock with seconds since 1970 that is not affected by changes of the system time."""

import time
from collections.abc import Callable


def _since_boot() -> float:
    """Returns seconds since boot, including time in suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """
    The system time at creation plus the time elapsed since.

    Back-offs, grace periods and deadlines keep their duration when the system time changes. Displayed times follow a
    changed system time only after a restart.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _since_boot
    ) -> None:
        self._elapsed = elapsed
        self._offset = wall() - elapsed()

    def __call__(self) -> float:
        return self._offset + self._elapsed()
