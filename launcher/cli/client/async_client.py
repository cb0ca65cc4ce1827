"""An asynchronous client of the HTTP API, for commands that stay connected: watches, followed logs, attach."""

import asyncio
from argparse import Namespace
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from launcher.cli.client import connection_errors
from launcher.cli.client.api_path import FRAMEWORKS, PODS, ApiPath, selector_parameters
from launcher.cli.client.connection_errors import CONNECT_TIMEOUT_SECONDS, REQUEST_TIMEOUT_SECONDS
from launcher.cli.client.server_config import ServerConfig, server_config
from launcher.cli.client.status_errors import error_of, warnings_of
from launcher.cli.errors import command_errors, print_error
from launcher.core.errors import NotFound
from launcher.core.pods.log_options import POD_UID_HEADER

Json = dict[str, Any]

_REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS, sock_connect=CONNECT_TIMEOUT_SECONDS)
#: A watch has no end, but the server sends a bookmark every minute.
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=150)
_FOLLOW_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_SECONDS)
_NO_CONTENT = 204
#: Subprotocols that carry several streams over one WebSocket, in order of preference.
_CHANNEL_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch."""

    type: str
    object: Json


def run_with_client(args: Namespace, work: "Callable[[AsyncApiClient], Coroutine[Any, Any, int]]") -> int:
    """The exit code of *work*, called with a client of the server that *args* name. Raises CommandError."""
    return run_on_server(server_config(args), work)


def run_on_server(config: ServerConfig, work: "Callable[[AsyncApiClient], Coroutine[Any, Any, int]]") -> int:
    """The exit code of *work*, called with a client of that server. Raises CommandError."""

    async def run() -> int:
        async with connected(config) as api:
            return await work(api)

    with command_errors():
        return asyncio.run(run())


@asynccontextmanager
async def connected(config: ServerConfig) -> "AsyncIterator[AsyncApiClient]":
    """A client of that server. It connects with the first request."""
    headers = {"User-Agent": "launcher", "Accept": "application/json"}
    if config.token is not None:
        headers["Authorization"] = f"Bearer {config.token}"
    connector: aiohttp.BaseConnector
    if config.socket is None:
        tls = True if config.ca_file is None else connection_errors.client_tls(config)
        connector = aiohttp.TCPConnector(limit=0, ssl=tls)
    else:
        connector = aiohttp.UnixConnector(config.socket, limit=0)
    async with aiohttp.ClientSession(
        connector=connector, headers=headers, timeout=_REQUEST_TIMEOUT
    ) as session:
        yield AsyncApiClient(session, config)


class AsyncApiClient:
    """One server. Every method raises the error of the response, and Unavailable when there is none."""

    def __init__(self, session: aiohttp.ClientSession, config: ServerConfig) -> None:
        self._session, self._config = session, config

    @property
    def namespace(self) -> str:
        return self._config.namespace

    @property
    def url(self) -> str:
        return self._config.url

    def in_namespace(self, namespace: str) -> "AsyncApiClient":
        """The same session with another namespace."""
        return AsyncApiClient(self._session, self._config.in_namespace(namespace))

    async def create(
        self, data: bytes, media_type: str, *, namespace: str, resource: ApiPath = FRAMEWORKS
    ) -> Json:
        """The object in *data* as it was stored."""
        return await self._object("POST", resource.path(namespace), {}, data, media_type)

    async def get(self, resource: ApiPath, name: str) -> Json:
        return await self._object("GET", resource.path(self.namespace, name))

    async def diagnosis(self, name: str) -> Json:
        """The findings for a Framework."""
        return await self._object("GET", FRAMEWORKS.path(self.namespace, name, "diagnosis"))

    async def list(self, resource: ApiPath, *, labels: str = "", fields: str = "") -> tuple[list[Json], str]:
        """Every object that matches, and the resource version to watch from."""
        listed = await self._object("GET", resource.path(self.namespace), selector_parameters(labels, fields))
        return listed["items"], listed["metadata"]["resourceVersion"]

    async def watch(
        self, resource: ApiPath, since: str, *, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent]:
        """Yields every change after *since* until the server ends the stream. Raises Expired when that is too old."""
        parameters = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since}
        path = resource.path(self.namespace)
        parameters |= selector_parameters(labels, fields)
        async with self._response("GET", path, parameters, timeout=_WATCH_TIMEOUT) as response:
            async for line in response_lines(response):
                event = connection_errors.decoded(line, self._config, orjson.loads)
                if event["type"] == "ERROR":
                    raise error_of(event["object"], event["object"].get("code", 500))
                yield WatchEvent(event["type"], event["object"])

    async def merge(self, resource: ApiPath, name: str, changes: Json) -> Json:
        """The object after a merge patch."""
        path, media_type = resource.path(self.namespace, name), "application/merge-patch+json"
        async with self._response("PATCH", path, {}, orjson.dumps(changes), media_type) as response:
            warnings = warnings_of(response.headers.getall("Warning", []))
            print_error(*(f"warning: {warning}" for warning in warnings))
            return connection_errors.decoded(await response.read(), self._config, orjson.loads)

    async def delete(self, resource: ApiPath, name: str, options: Json) -> Json:
        """The object that is being deleted, or a Status when it no longer exists."""
        path = resource.path(self.namespace, name)
        return await self._object("DELETE", path, {}, orjson.dumps(options), "application/json")

    @asynccontextmanager
    async def log(
        self, pod: str, parameters: Mapping[str, str], *, exact_uid: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """
        The lines of a container's log, without their ends; with *exact_uid*, only of the pod with the uid requested.

        Raises NotFound, BadRequest when there is none.
        """
        path = PODS.path(self.namespace, pod, "log")
        async with self._response("GET", path, parameters, timeout=_FOLLOW_TIMEOUT) as response:
            if response.status == _NO_CONTENT:
                raise NotFound(f"{pod} is not scheduled to a node yet and has no logs")
            if exact_uid and response.headers.get(POD_UID_HEADER) != parameters["uid"]:
                # kube-apiserver ignores the uid and returns the log of the current pod.
                raise NotFound(
                    f"the log of an earlier pod {pod} no longer exists: the cluster deletes logs with their pods"
                )
            yield response_lines(response)

    @asynccontextmanager
    async def execute(
        self, pod: str, parameters: Sequence[tuple[str, str]]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """The streams of a command in a container, in Kubernetes' channels."""
        path = PODS.path(self.namespace, pod, "exec")
        with _our_errors(self._config):
            try:
                socket = await self._session.ws_connect(
                    self._config.base_url + path,
                    params=list(parameters),
                    protocols=_CHANNEL_PROTOCOLS,
                    # kube-apiserver has no media type for a stream, and rejects all others with 406.
                    headers={"Accept": "*/*"},
                )
            except aiohttp.WSServerHandshakeError:
                # The body of the failed handshake is lost; a plain request returns the reason.
                await self._object("GET", path, dict(parameters))
                raise
            async with socket:
                yield socket

    async def _object(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] = {},
        data: bytes | None = None,
        media_type: str | None = None,
    ) -> Json:
        async with self._response(method, path, parameters, data, media_type) as response:
            return connection_errors.decoded(await response.read(), self._config, orjson.loads)

    @asynccontextmanager
    async def _response(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        data: bytes | None = None,
        media_type: str | None = None,
        timeout: aiohttp.ClientTimeout | None = None,  # noqa: ASYNC109 - aiohttp's own limits
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful response."""
        with _our_errors(self._config):
            async with self._session.request(
                method,
                self._config.base_url + path,
                params=parameters,
                data=data,
                headers={} if media_type is None else {"Content-Type": media_type},
                timeout=timeout or self._session.timeout,
                allow_redirects=False,
            ) as response:
                if response.status >= 300:
                    raise connection_errors.failed_response(
                        self._config, response.status, response.reason or "", path, await response.read()
                    )
                yield response


async def response_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The lines of a body as they arrive, of any length, without their ends."""
    rest: list[bytes] = []
    async for chunk in response.content.iter_any():
        first, *others = chunk.split(b"\n")
        rest.append(first)
        for other in others:
            yield b"".join(rest)
            rest = [other]
    if last := b"".join(rest):
        yield last


@contextmanager
def _our_errors(config: ServerConfig) -> Iterator[None]:
    """Inside, aiohttp's exceptions; outside, only ours."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise connection_errors.untrusted_certificate(config, error.certificate_error) from error
    except aiohttp.ClientSSLError as error:
        raise connection_errors.tls_failed(config, error) from error
    except aiohttp.ClientConnectorDNSError as error:
        raise connection_errors.unknown_host(config, error.host, error) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise connection_errors.connect_timeout(config, CONNECT_TIMEOUT_SECONDS) from error
    except aiohttp.ClientConnectorError as error:
        raise connection_errors.connect_failed(config, error.os_error) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientResponseError, aiohttp.ClientOSError) as error:
        raise connection_errors.connection_lost(config, error, may_need_tls=True) from error
    except aiohttp.InvalidURL as error:
        raise connection_errors.invalid_url(config) from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise connection_errors.connection_lost(config, error) from error
