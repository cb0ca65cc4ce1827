"""A loopback proxy that can respond as a busy API server."""

import asyncio
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from tests.cluster.controlplane import ControlPlane

#: As kube-apiserver does.
_BUSY = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too many requests, please try again later.",
    "reason": "TooManyRequests",
    "code": 429,
}
_TIMEOUT_SECONDS = 30.0


class BusyProxy:
    """Forwards everything, except pod creations while it is busy, broken or slow."""

    def __init__(self, cluster: ControlPlane, port: int) -> None:
        self._upstream, self._ca, self._port = cluster.url, cluster.ca, port
        #: Retry-After of the next responses; None forwards everything.
        self.busy: int | None = None
        #: Whether it closes the connection of pod creations without a response.
        self.broken = False
        #: Whether it delays responses to pod creations until this is False again, and how many it delays.
        self.slow = False
        self.delayed = 0
        #: Times (``time.monotonic``) and status codes of pod creations.
        self.pods: list[tuple[float, int]] = []
        self.url = ""

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        """Serves until *stop*."""
        context = ssl.create_default_context(cafile=str(self._ca))
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            self._session = session
            app = web.Application(client_max_size=2**25)
            app.router.add_route("*", "/{path:.*}", self._forward)
            runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            started.set()
            await stop.wait()
            await runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        creates_pod = request.method == "POST" and request.path.endswith("/pods")
        if creates_pod and self.busy is not None:
            self.pods.append((time.monotonic(), 429))
            return web.json_response(_BUSY, status=429, headers={"Retry-After": str(self.busy)})
        if creates_pod and self.broken and request.transport is not None:
            request.transport.close()
            return web.Response()
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        async with self._session.request(
            request.method, self._upstream + request.path_qs, headers=headers, data=await request.read()
        ) as upstream_response:
            if creates_pod:
                await self._delay()
                self.pods.append((time.monotonic(), upstream_response.status))
            response = web.StreamResponse(
                status=upstream_response.status,
                headers={"Content-Type": upstream_response.headers["Content-Type"]},
            )
            await response.prepare(request)
            async for chunk in upstream_response.content.iter_any():
                await response.write(chunk)
            return response

    async def _delay(self) -> None:
        self.delayed += 1
        while self.slow:  # noqa: ASYNC110  another thread changes it
            await asyncio.sleep(0.1)
        self.delayed -= 1


@contextmanager
def busy_proxy(cluster: ControlPlane, port: int = 0) -> Iterator[BusyProxy]:
    """Runs the proxy in a thread, on that port or any free one."""
    proxy, started = BusyProxy(cluster, port), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[proxy.serve(started, stop)])
    thread.start()
    try:
        assert started.wait(_TIMEOUT_SECONDS), "the proxy does not start"
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_TIMEOUT_SECONDS)
        loop.close()


def kubeconfig_for(url: str, kubeconfig: Path, directory: Path) -> Path:
    """Returns the kubeconfig with *url* as API server."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": url}
    path = directory / "other.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
