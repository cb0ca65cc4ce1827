"""
The least that an HTTP server on aiohttp does: it reads the request and answers bytes it was given.

``python -m tests.rig.bare_http``, with those bytes on its input; its first line says where it listens.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from tests.local.server import PROJECT


@contextmanager
def answering(body: bytes) -> Iterator[str]:
    """The address of a server that answers *body*, whatever it is asked."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.rig.bare_http"],
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
    # Ended before by whoever started it; by itself, should that one have been killed.
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(_serve(sys.stdin.buffer.read()))
