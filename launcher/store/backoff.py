"""Exponential back-off between failed calls."""

import asyncio
from contextlib import suppress


async def wait_or_timeout(event: asyncio.Event, seconds: float | None) -> None:
    """Waits until the event is set or *seconds* have passed; None waits without a limit."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


class ExponentialBackoff:
    """Delays in seconds: *initial*, then doubled after every failure, up to *maximum*."""

    def __init__(self, initial: float, maximum: float) -> None:
        self._initial, self._maximum = initial, maximum
        self.failures = 0

    def next_delay(self) -> float:
        """Counts one more failure and returns the delay before the next call."""
        # The cap is reached long before 2**30; the bound keeps the number small.
        delay = min(self._maximum, self._initial * (1 << min(self.failures, 30)))
        self.failures += 1
        return delay

    def reset(self) -> None:
        """Resets the count after a success."""
        self.failures = 0
