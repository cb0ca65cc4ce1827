"""
The client of a container engine that serves the Docker Engine API: Docker or Podman.

Errors of aiodocker and of the connection are translated here. The streams of logs and events are read directly, because
aiodocker drops the stream of each log entry and does not end a stream of events when the engine does.
"""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

import aiodocker
import aiohttp
import orjson
from aiodocker.exceptions import DockerError

from launcher.core.errors import LauncherError, Unavailable
from launcher.node.runtime.pause_image import has_pause_program

Json = dict[str, Any]

#: Seconds for one call. An engine that starts a hundred containers at once takes long for each.
_CALL_SECONDS = 120.0
_PING_SECONDS = 10.0
_CONNECT_SECONDS = 5.0
#: Engines serve older versions too: this one is served by Docker 20.10 and later, and by Podman 4 and later.
_API_VERSION = "v1.41"
_PODMAN = "Libpod"
#: The first version whose Docker API creates CDI devices.
_PODMAN_WITH_GPUS = (5, 4)
#: The status in aiodocker's errors that are not responses of the engine.
_NOT_CONNECTED = 900


class EngineError(LauncherError):
    """An error response of the engine, with its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class NoEngine(LauncherError):
    """There is no container engine that can be used; the message names the remedy."""


async def find_engine(url: str, sockets: Sequence[str]) -> "DockerEngine":
    """Connects to the engine at *url*, the value of DOCKER_HOST, or to the first one at *sockets*. Raises NoEngine."""
    if url:
        if not url.startswith(("unix://", "tcp://", "http://", "https://")):
            raise NoEngine(f"DOCKER_HOST: {url} is not supported: use unix:///PATH or tcp://HOST:PORT")
        try:
            return await DockerEngine.connect(url)
        except (Unavailable, EngineError) as error:
            raise NoEngine(f"DOCKER_HOST: {error}; start the engine, or unset DOCKER_HOST") from error
    failures = []
    for path in filter(os.path.exists, sockets):
        try:
            return await DockerEngine.connect(f"unix://{path}")
        except (Unavailable, EngineError) as error:
            failures.append(str(error))
    if not failures:
        raise NoEngine(
            "runtime docker: no container engine found: install Docker (Debian: apt install docker.io) or Podman (apt "
            "install podman; then systemctl enable --now podman.socket, with --user for your own), or set DOCKER_HOST "
            f"to its socket; tried {', '.join(sockets)}"
        )
    raise NoEngine(
        f"runtime docker: {'; '.join(failures)}; start it (systemctl start docker, or podman.socket), or get access to "
        "its socket (usermod --append --groups docker USER, and log in again)"
    )


class DockerEngine:
    """A connected engine. Every call raises Unavailable if the engine does not respond, EngineError for its errors."""

    def __init__(self, url: str, client: aiodocker.Docker, server: str) -> None:
        """*server* is the engine's name and version, such as ``Libpod/4.3.1 (linux)``."""
        self.url, self.client = url, client
        name, _, version = server.partition(" ")[0].partition("/")
        self.is_podman = name == _PODMAN
        #: For instance ``20.10.24``.
        self.version = version

    @classmethod
    async def connect(cls, url: str) -> Self:
        """Connects to the engine at *url*. Raises Unavailable, EngineError."""
        connector: aiohttp.BaseConnector | None = None
        base = url
        if url.startswith("unix://"):
            # Each running container has a stream of its log: no limit of connections.
            connector = aiohttp.UnixConnector(url.removeprefix("unix://"), limit=0)
            base = "unix://localhost"
        # The version is not requested from the engine, because that takes Podman seconds.
        client = aiodocker.Docker(url=base, connector=connector, api_version=_API_VERSION)
        try:
            return cls(url, client, await _ping(url, client))
        except BaseException:
            await _close(client)
            raise

    @property
    def name(self) -> str:
        return "Podman" if self.is_podman else "Docker"

    def why_not_isolated(self) -> str:
        """Why its containers cannot use network namespaces of this machine; empty if they can."""
        if not self.url.startswith("unix://"):
            return f"{self.name} at {self.url} may be on another machine"
        if os.stat(self.url.removeprefix("unix://")).st_uid != 0:
            return f"{self.name} at {self.url} does not run as root"
        if os.geteuid() != 0:
            return "the launcher does not run as root"
        if not self.is_podman and not has_pause_program():
            return f"there is no sandbox program for {platform.machine()} processors"
        return ""

    def why_without_gpus(self) -> str:
        """Why it ignores requests for GPUs; empty if it creates them, or rejects the container."""
        if self.is_podman and tuple(map(int, self.version.split(".")[:2])) < _PODMAN_WITH_GPUS:
            return f"Podman {self.version} ignores GPUs in requests of its API: use Podman 5.4 or newer, or Docker"
        return ""

    async def close(self) -> None:
        await _close(self.client)

    @asynccontextmanager
    async def call(self, seconds: float = _CALL_SECONDS) -> AsyncIterator[aiodocker.Docker]:
        """The client, for calls that together take at most *seconds*."""
        with _engine_errors(self.url):
            async with asyncio.timeout(seconds):
                yield self.client

    async def ping(self) -> None:
        await _ping(self.url, self.client)

    async def info(self) -> Json:
        async with self.call() as client:
            return dict(await client.system.info())

    async def containers(self, labels: Mapping[str, str]) -> list[Json]:
        """All containers with these labels, as the engine lists them. An empty value stands for any."""
        filters = {"label": [f"{name}={value}" if value else name for name, value in labels.items()]}
        async with self.call() as client:
            found = await client.containers.list(all=True, filters=filters)
            return [dict(container._container) for container in found]  # noqa: SLF001 - it has no other way

    async def inspect(self, container: str) -> Json | None:
        """The container by its name or id; None if it does not exist."""
        try:
            async with self.call() as client:
                shown: Json = await client.containers.container(container).show()
                return shown
        except EngineError as error:
            if is_missing(error):
                return None
            raise

    async def stats(self, container: str) -> Json | None:
        """The statistics of a container; None if it does not exist or does not run."""
        parameters = {"stream": "false", "one-shot": "true"}
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                async with self.stream(f"containers/{container}/stats", parameters) as content:
                    read: Json = orjson.loads(await content.read())
                    return read
        except TimeoutError as error:
            raise Unavailable(f"{self.name} at {self.url} does not respond") from error
        except EngineError as error:
            if is_missing(error) or is_not_running(error):
                return None
            raise

    async def create(self, name: str, config: Json) -> str:
        """Creates the container, and returns its id."""
        async with self.call() as client:
            container_id: str = (await client.containers.create(config, name=name)).id
            return container_id

    async def import_image(self, image: str, files: bytes) -> None:
        """Creates the image of that name and tag with the files of a tar archive."""
        repository, _, tag = image.rpartition(":")
        async with self.call() as client:
            url = f"{client.docker_host}/{client.api_version}/images/create"
            params = {"fromSrc": "-", "repo": repository, "tag": tag}
            async with client.session.post(url, params=params, data=files) as response:
                body = await response.read()
        if response.status != 200 or b'"error"' in body:
            raise EngineError(response.status, _message(body))

    async def start(self, container: str) -> None:
        async with self.call() as client:
            await client.containers.container(container).start()

    async def kill(self, container: str, signal: str) -> None:
        """Sends the signal. Does nothing if the container is not running."""
        try:
            async with self.call() as client:
                await client.containers.container(container).kill(signal=signal)
        except EngineError as error:
            if is_missing(error) or is_not_running(error):
                return
            raise

    async def delete(self, container: str) -> None:
        """Kills and removes the container, if it exists."""
        # Podman 5 gives a running container ten seconds to stop.
        await self.kill(container, "SIGKILL")
        try:
            async with self.call() as client:
                await client.containers.container(container).delete(force=True, v=True)
        except EngineError as error:
            if not is_missing(error):
                raise

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[aiohttp.StreamReader]:
        """The body of a GET request without an end. Raises EngineError if it is rejected."""
        client = self.client
        url = f"{client.docker_host}/{client.api_version}/{path}"
        timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS)
        with _engine_errors(self.url):
            async with client.session.get(url, params=dict(params), timeout=timeout) as response:
                if response.status != 200:
                    raise EngineError(response.status, _message(await response.read()))
                yield response.content

    async def events(self, labels: Mapping[str, str], names: Sequence[str]) -> AsyncIterator[Json | None]:
        """
        Yield None when the stream is open, then events of containers with these labels.

        Also yields None when the engine has responded to a ping after a time without events.
        """
        selectors = [f"{name}={value}" for name, value in labels.items()]
        filters = {"type": ["container"], "event": list(names), "label": selectors}
        async with self.stream("events", {"filters": orjson.dumps(filters).decode()}) as content:
            yield None
            rest = b""
            while True:
                try:
                    async with asyncio.timeout(_PING_SECONDS / 2):
                        data = await content.readany()
                except TimeoutError:
                    await self.ping()
                    yield None
                    continue
                if not data:
                    raise Unavailable(f"{self.name} at {self.url} has closed the connection")
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield orjson.loads(line)


async def _ping(url: str, client: aiodocker.Docker) -> str:
    """The name and version of the engine. Raises Unavailable, EngineError."""
    timeout = aiohttp.ClientTimeout(total=_PING_SECONDS, connect=_CONNECT_SECONDS)
    with _engine_errors(url):
        async with client.session.get(f"{client.docker_host}/_ping", timeout=timeout) as response:
            if response.status != 200:
                raise EngineError(response.status, _message(await response.read()))
            return response.headers.get("Server", "")


async def _close(client: aiodocker.Docker) -> None:
    connector = client.session.connector
    await client.close()
    if connector is not None:
        # aiodocker leaves a connector open that it has not created.
        await connector.close()


def is_missing(error: EngineError) -> bool:
    """Whether the container does not exist. Podman returns 500 for one that is removed during the call, or partly."""
    text = str(error).lower()
    return error.status == 404 or "no such container" in text or "container not known" in text


def is_not_running(error: EngineError) -> bool:
    """Whether the call failed because the container has ended or is not started."""
    text = str(error)
    # Podman reports the last one for a container that ends during the call.
    return any(each in text for each in ("can only kill running", "not running", "container state improper"))


@contextmanager
def as_unavailable() -> Iterator[None]:
    """Inside, errors of the engine; outside, Unavailable: the same call is made again."""
    try:
        yield
    except EngineError as error:
        raise Unavailable(str(error)) from error


@contextmanager
def _engine_errors(url: str) -> Iterator[None]:
    """Inside, the exceptions of aiodocker and aiohttp; outside, only ours."""
    try:
        yield
    except DockerError as error:
        if error.status == _NOT_CONNECTED:
            raise Unavailable(f"the container engine at {url} does not respond: {error.message}") from error
        raise EngineError(error.status, str(error.message)) from error
    except TimeoutError as error:
        raise Unavailable(f"the container engine at {url} does not respond in time") from error
    except (aiohttp.ClientError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise Unavailable(f"the container engine at {url} does not respond: {reason}") from error


def _message(body: bytes) -> str:
    try:
        return str(orjson.loads(body)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body.decode(errors="replace").strip()
