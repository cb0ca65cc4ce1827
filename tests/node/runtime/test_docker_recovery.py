"""What a killed engine leaves behind is found, and removed, by the runtime: against a small engine over HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from launcher.core.errors import Unavailable
from launcher.node.runtime.docker_engine import DockerEngine
from launcher.node.runtime.docker_runtime import DockerRuntime
from launcher.node.runtime.process_runtime import ShimOptions
from tests.node.runtimes import shell

ID = "0123456789abcdef" * 4
NEVER = "0001-01-01T00:00:00Z"


class EngineWithOneContainer:
    """An engine that was killed while it started or removed its only container."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.socket = data / "engine"
        #: The body of the last request that created a container.
        self.created: dict[str, Any] = {}
        self.started = 0
        self.deleted: list[str] = []
        #: The state of the container; None if there is none.
        self.state: dict[str, Any] | None = None
        self.closed = asyncio.Event()
        #: The response to all lists until the container is deleted.
        self.list_error = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.path.removeprefix("/v1.41")
        if path.endswith(("/events", "/logs")):
            return await self._stream(request)
        if path == "/containers/json":
            return _error(500, self.list_error) if self.list_error else web.json_response([])
        if path == "/containers/create":
            if self.state is not None:
                return _error(409, "Conflict. The container name is already in use")
            self.created, self.state = await request.json(), {"Status": "created", "StartedAt": NEVER}
            return web.json_response({"Id": ID}, status=201)
        if request.method == "DELETE":
            self.state, self.list_error = None, ""
            self.deleted.append(path.rpartition("/")[2])
        elif path.endswith("/start"):
            self.started += 1
        elif path.endswith("/json") and self.state is not None:
            return web.json_response({"Id": ID, "Config": self.created, "State": self.state})
        return web.json_response({}, headers={"Server": "Libpod/4.3.1"})

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await self.closed.wait()
        return response

    @asynccontextmanager
    async def runtime(self) -> AsyncIterator[DockerRuntime]:
        async with AsyncExitStack() as stack:
            engine = await DockerEngine.connect(f"unix://{self.socket}")
            stack.push_async_callback(engine.close)
            runtime = await DockerRuntime.open(self._data, engine, clock=time.time, options=ShimOptions())
            stack.push_async_callback(runtime.close, stop_containers=False)
            yield runtime


def _error(status: int, message: str) -> web.Response:
    body = orjson.dumps({"message": message})
    return web.Response(body=body, status=status, content_type="application/json")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[EngineWithOneContainer]:
    engine = EngineWithOneContainer(tmp_path)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", engine.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(engine.socket)).start()
    yield engine
    engine.closed.set()
    await runner.cleanup()


async def test_a_container_that_podman_has_partly_removed_is_removed(engine: EngineWithOneContainer) -> None:
    engine.list_error = f'getting container from store "{ID}": container not known'

    async with engine.runtime() as runtime:
        assert not runtime.list_containers()

    assert engine.deleted == [ID]


@pytest.mark.parametrize("status", ["created", "running", "exited"])
async def test_a_container_without_a_time_of_its_start_is_started_again(
    engine: EngineWithOneContainer, tmp_path: Path, status: str
) -> None:
    config = shell(tmp_path, "true")
    async with engine.runtime() as runtime:
        await runtime.start_container(config)
    engine.state = {"Status": status, "StartedAt": NEVER}

    async with engine.runtime() as runtime:
        with pytest.raises(Unavailable):
            await runtime.start_container(config)
        assert (engine.deleted, engine.started) == ([ID], 1)
        await runtime.start_container(config)

    assert engine.started == 2
