"""A proxy on loopback before an API server, which can say for it that it has too much to do."""

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

#: As kube-apiserver says it.
_BUSY = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too many requests, please try again later.",
    "reason": "TooManyRequests",
    "code": 429,
}
_SECONDS = 30.0


class BusyProxy:
    """Passes everything on, except for pods to be created while it is busy."""

    def __init__(self, cluster: ControlPlane, port: int) -> None:
        self._upstream, self._ca, self._port = cluster.url, cluster.ca, port
        #: Seconds after which to come again, as the next answers say; None lets everything pass.
        self.busy: int | None = None
        #: When a pod was to be created, and with what answer, on the clock ``time.monotonic``.
        self.pods: list[tuple[float, int]] = []
        self.url = ""

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        """Until *stop*."""
        context = ssl.create_default_context(cafile=str(self._ca))
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            self._session = session
            app = web.Application(client_max_size=2**25)
            app.router.add_route("*", "/{path:.*}", self._pass)
            runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", self._port).start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            started.set()
            await stop.wait()
            await runner.cleanup()

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        creates_pod = request.method == "POST" and request.path.endswith("/pods")
        if creates_pod and self.busy is not None:
            self.pods.append((time.monotonic(), 429))
            return web.json_response(_BUSY, status=429, headers={"Retry-After": str(self.busy)})
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        async with self._session.request(
            request.method, self._upstream + request.path_qs, headers=headers, data=await request.read()
        ) as answer:
            if creates_pod:
                self.pods.append((time.monotonic(), answer.status))
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            return response


@contextmanager
def busy_proxy(cluster: ControlPlane, port: int = 0) -> Iterator[BusyProxy]:
    """The proxy, in a thread of its own, at that port or at any that is free."""
    proxy, started = BusyProxy(cluster, port), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[proxy.serve(started, stop)])
    thread.start()
    try:
        assert started.wait(_SECONDS), "the proxy does not start"
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(_SECONDS)
        loop.close()


def kubeconfig_for(url: str, kubeconfig: Path, directory: Path) -> Path:
    """That kubeconfig, with what is at *url* in the place of the API server."""
    config = yaml.safe_load(kubeconfig.read_text())
    config["clusters"][0]["cluster"] = {"server": url}
    path = directory / "other.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path
