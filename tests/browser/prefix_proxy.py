"""A reverse proxy that serves another server below a path prefix, as an ingress does."""

import asyncio
import threading
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import web

from tests.cluster.ports import free_port


class PrefixProxy:
    """Runs in a thread; the Host header is forwarded unchanged."""

    def __init__(self, target: str, prefix: str) -> None:
        self._target, self._prefix, self._port = target, prefix, free_port()
        self.url = f"http://127.0.0.1:{self._port.number}{prefix}"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        self._loop.close()
        self._port.release()

    async def _run(self) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(auto_decompress=False, timeout=timeout) as self._session:
            app = web.Application()
            app.router.add_route("*", f"{self._prefix}/{{path:.*}}", self._forward)
            runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port.number).start()
            self._ready.set()
            await self._stop.wait()
            await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        path = request.raw_path.removeprefix(self._prefix)
        body = await request.read()
        async with self._session.request(
            request.method, self._target + path, headers=request.headers, data=body or None
        ) as answer:
            headers = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in ("transfer-encoding", "connection")
            }
            response = web.StreamResponse(status=answer.status, headers=headers)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
