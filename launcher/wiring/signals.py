"""The signals that end a launcher or reload its settings."""

import asyncio
import signal
from collections.abc import Callable


def asked_to_stop() -> asyncio.Event:
    """Set by SIGTERM or SIGINT from now on; SIGHUP does nothing yet."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # A signal that is ignored would be ignored in pods, too; one that is handled is not.
    loop.add_signal_handler(signal.SIGHUP, lambda: None)
    return stop


def reload_on_hangup(reload: Callable[[], None]) -> None:
    """Call *reload* on each SIGHUP from now on."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)
