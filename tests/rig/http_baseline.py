"""
A minimal HTTP server on aiohttp: it reads each request and responds with the same bytes.

``python -m tests.rig.http_baseline``, with those bytes on its input; its first line names its address.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from tests.launcher_process import PROJECT


@contextmanager
def constant_server(body: bytes) -> Iterator[str]:
    """The address of a server that responds to every request with *body*."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rig.http_baseline"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(body)
        process.stdin.close()
        yield process.stdout.readline().decode().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _serve(body: bytes) -> None:
    async def handle(request: web.Request) -> web.Response:
        await request.read()
        return web.Response(body=body, content_type="application/json")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    print(f"http://{host}:{port}", flush=True)
    # Its parent ends it earlier; this is for a parent that was killed.
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(_serve(sys.stdin.buffer.read()))
