"""A front door that stands beside a test in a thread of its own, for clients that block."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from launcher.store.kubernetes.cluster_config import ClusterConfig
from tests.api.client import PATIENCE
from tests.api.proxy.doors import door_to


@contextmanager
def standing_door(access: ClusterConfig, listen: ssl.SSLContext | None = None, **parts: Any) -> Iterator[str]:
    """The address of a front door to *access*, as long as the block lasts."""
    urls: list[str] = []
    began = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def stand() -> None:
        async with door_to(access, listen=listen, **parts) as door:
            urls.append(door.url)
            began.set()
            await stop.wait()

    def run() -> None:
        try:
            loop.run_until_complete(stand())
        finally:
            began.set()
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert began.wait(PATIENCE)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()
