"""The clock of a launcher: seconds since 1970 that pass at the same rate whatever is done to the machine's clock."""

import time
from collections.abc import Callable


def _since_boot() -> float:
    """Seconds since the machine was started, those in which it was suspended among them; nothing sets it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SteadyClock:
    """
    The wall clock as it was when this was made, plus the time that has passed since.

    So a pause, a grace or a deadline lasts as long as it should when the wall clock is set back or forward. Times that
    are shown follow a wall clock that was set only after the launcher is started again.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _since_boot
    ) -> None:
        self._elapsed = elapsed
        self._offset = wall() - elapsed()

    def __call__(self) -> float:
        return self._offset + self._elapsed()
