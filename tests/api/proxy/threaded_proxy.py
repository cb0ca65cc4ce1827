"""A proxy in a thread of its own, for clients that block."""

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from launcher.store.kubernetes.cluster_config import ClusterConfig
from tests.api.proxy.proxies import run_proxy
from tests.eventually import TIMEOUT_SECONDS


@contextmanager
def run_proxy_in_thread(
    access: ClusterConfig, listen: ssl.SSLContext | None = None, **parts: Any
) -> Iterator[str]:
    """Yields the URL of a proxy to *access* that runs during the block."""
    urls: list[str] = []
    began = threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with run_proxy(access, listen=listen, **parts) as proxy:
            urls.append(proxy.url)
            began.set()
            await stop.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            began.set()
            loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert began.wait(TIMEOUT_SECONDS)
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()
