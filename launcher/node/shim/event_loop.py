"""Waits for many descriptors at once, and calls who waits for each."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT


class Loop:
    """Descriptors, and what is to be called with the events of each."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[int], None]] = {}

    def watch(self, file: int, call: Callable[[int], None], events: int = READABLE) -> None:
        self._epoll.register(file, events)
        self._calls[file] = call

    def change(self, file: int, events: int) -> None:
        self._epoll.modify(file, events)

    def leave(self, file: int) -> None:
        """Do not wait for it any more; it must still be open."""
        if self._calls.pop(file, None) is not None:
            self._epoll.unregister(file)

    def turn(self, within: float) -> None:
        """Wait for something to happen, at most *within* seconds, and call who waits for it."""
        for file, events in self._epoll.poll(within, 256):
            # An earlier call of this turn may have closed it.
            if (call := self._calls.get(file)) is not None:
                call(events)
