"""An event loop on epoll."""

from __future__ import annotations

import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

READABLE = select.EPOLLIN
WRITABLE = select.EPOLLOUT


class Loop:
    """Calls a handler with the events of each watched descriptor."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}

    def watch(self, file: int, handler: Callable[[int], None], events: int = READABLE) -> None:
        self._epoll.register(file, events)
        self._handlers[file] = handler

    def set_events(self, file: int, events: int) -> None:
        self._epoll.modify(file, events)

    def unwatch(self, file: int) -> None:
        """Stops watching *file*, which must still be open."""
        if self._handlers.pop(file, None) is not None:
            self._epoll.unregister(file)

    def run_once(self, timeout: float) -> None:
        """Waits at most *timeout* seconds for events and calls their handlers."""
        for file, events in self._epoll.poll(timeout, 256):
            # An earlier handler of this turn may have closed it.
            if (handler := self._handlers.get(file)) is not None:
                handler(events)
