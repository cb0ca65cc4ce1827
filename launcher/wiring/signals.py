"""How a launcher hears that it shall end."""

import asyncio
import signal


def asked_to_stop() -> asyncio.Event:
    """Set by SIGTERM or SIGINT from now on."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
