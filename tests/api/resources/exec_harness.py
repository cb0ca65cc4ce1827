"""A server with pods whose containers are real processes, and WebSocket clients of its sessions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
from aiohttp import WSMsgType

from launcher.node.agent.container_exec import ContainerExec
from launcher.node.container_runtime import RunId
from launcher.node.pods.pod_spec import run_id
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.store.interface import PODS, MergePatch
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.builders import a_pod
from tests.eventually import TIMEOUT_SECONDS
from tests.node.runtimes import a_config, a_runtime

EXEC = "/api/v1/namespaces/default/pods/a/exec"
ATTACH = "/api/v1/namespaces/default/pods/a/attach"
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
SUCCESS = {"metadata": {}, "status": "Success"}


class ExecClient:
    """The client's side of a session: sends input, and collects the output of each channel."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.channels: dict[int, bytes] = {}

    async def send(self, channel: int, data: bytes) -> None:
        await self.socket.send_bytes(bytes([channel]) + data)

    async def until(self, text: bytes, channel: int = 1) -> None:
        """Waits until *text* is in the output."""
        while text not in self.channels.get(channel, b""):
            assert await self._receive(), self.channels

    async def end(self) -> Any:
        """Waits until the server closes the connection, and returns the Status."""
        while await self._receive():
            pass
        return orjson.loads(self.channels[3])

    def abort(self) -> None:
        """Closes the connection as a killed client does."""
        connection = self.socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()

    async def _receive(self) -> bool:
        message = await self.socket.receive(TIMEOUT_SECONDS)
        if message.type is not WSMsgType.BINARY:
            return False
        channel = message.data[0]
        self.channels[channel] = self.channels.get(channel, b"") + message.data[1:]
        return True


class ExecHarness:
    """A server with one pod, whose container is a real process."""

    def __init__(self, api: Api, runtime: ProcessRuntime, data: Path) -> None:
        self.api, self.runtime, self._data = api, runtime, data

    async def create_pod(self, *containers: str, name: str = "a", state: str = "running", **spec: Any) -> str:
        """Creates a pod whose containers have fields of *spec*, and returns its uid."""
        names = containers or ("main",)
        pod = await self.api.store.create(
            PODS, a_pod(name, *({"name": each, **spec} for each in names), nodeName="here")
        )
        statuses = [{"name": each, "state": {state: {"reason": "Completed"}}} for each in names]
        change = MergePatch({"status": {"phase": "Running", "containerStatuses": statuses}})
        await self.api.store.patch(PODS, "default", name, change, subresource="status")
        return str(pod["metadata"]["uid"])

    async def run_pod(self, name: str = "a") -> RunId:
        """A pod with a running process. Returns the id of its run."""
        run = run_id(await self.create_pod(name=name), "main", 0)
        await self.runtime.start_container(
            a_config(
                self._data, "sleep", "600", run=run, environment={"PATH": "/usr/bin:/bin", "MINE": "yes"}
            )
        )
        return run

    async def run_script(self, script: str, **spec: Any) -> RunId:
        """A pod whose process runs *script*, with ``stdin``, ``stdinOnce`` and ``tty`` of *spec*."""
        run = run_id(await self.create_pod(**spec), "main", 0)
        streams = {"stdin": "stdin", "stdinOnce": "stdin_once", "tty": "tty"}
        config = {streams[name]: value for name, value in spec.items()}
        await self.runtime.start_container(a_config(self._data, "sh", "-c", script, run=run, **config))
        return run

    @asynccontextmanager
    async def session(self, *command: str, protocol: str = V5, **flags: str) -> AsyncIterator[ExecClient]:
        query = [*(("command", word) for word in command), *{"stdout": "1", "stderr": "1", **flags}.items()]
        async with self.connection(f"{EXEC}?{urlencode(query)}", protocol) as client:
            yield client

    @asynccontextmanager
    async def connection(self, path: str, protocol: str = V5) -> AsyncIterator[ExecClient]:
        """A WebSocket."""
        async with (
            asyncio.timeout(TIMEOUT_SECONDS),
            self.api.session.ws_connect(f"{self.api.url}{path}", protocols=[protocol]) as socket,
        ):
            assert socket.protocol == protocol
            yield ExecClient(socket)


@asynccontextmanager
async def exec_harness(data: Path) -> AsyncIterator[ExecHarness]:
    """A server whose processes have their files in *data*."""
    async with (
        a_runtime(data) as runtime,
        serving(api_dependencies(memory_store(), exec_sessions=ContainerExec(runtime))) as api,
    ):
        yield ExecHarness(api, runtime, data)
