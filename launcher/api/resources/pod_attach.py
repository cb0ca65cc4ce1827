"""``pods/attach``: the output of a running container from now on, from its log."""

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from launcher.api.http.query import flag
from launcher.api.resources.pod_exec import running_container, serve_session
from launcher.api.resources.pod_logs import PodLogReader
from launcher.core.errors import BadRequest
from launcher.core.pods.exec_session import OutputStream
from launcher.core.pods.log_options import PodLogOptions
from launcher.store.interface import PODS, Store


class PodAttachHandler:
    """Handles ``…/pods/{name}/attach``. *clock* returns seconds since 1970."""

    def __init__(self, store: Store, logs: PodLogReader, clock: Callable[[], float]) -> None:
        self._store, self._logs, self._clock = store, logs, clock

    async def handle(self, request: web.Request, namespace: str, name: str) -> web.StreamResponse:
        """Sends the output until the container terminates or the client disconnects."""
        pod = await self._store.get(PODS, namespace, name)
        container = running_container(pod, request.query.get("container", ""))
        # The log has both streams as one.
        stream: OutputStream | None = "stdout" if flag(request.query, "stdout") else None
        if stream is None and flag(request.query, "stderr"):
            stream = "stderr"
        if stream is None:
            raise BadRequest(
                "you must specify at least 1 of stdout, stderr: containers have no input in local mode"
            )
        uid, options = pod["metadata"]["uid"], PodLogOptions(follow=True, tail_lines=0)

        async def open_session() -> AttachSession:
            return AttachSession(self._logs.read(namespace, name, uid, container, options))

        logged = {"subresource": "attach", "pod": f"{namespace}/{name}", "container": container}
        return await serve_session(request, [stream], open_session, logged, self._clock)


class AttachSession:
    """The output of a container as an ``ExecSession``. It has no input, no terminal and no exit code."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._ended = asyncio.Event()

    async def read(self, stream: OutputStream) -> bytes:  # noqa: ARG002  # the log has both as one
        chunk = b""
        try:
            chunk = await anext(self._chunks, b"")
        finally:
            if not chunk:
                self._ended.set()
        return chunk

    async def write(self, data: bytes) -> None:
        """Drops *data*: containers have no input in local mode."""

    async def close_stdin(self) -> None:
        """Does nothing."""

    def resize(self, columns: int, rows: int) -> None:
        """Does nothing."""

    async def wait(self) -> int:
        """Waits until the container terminates."""
        await self._ended.wait()
        return 0

    async def close(self) -> None:
        if (close := getattr(self._chunks, "aclose", None)) is not None:
            await close()
