"""The HTTP API from Python: requests as any client makes them, answers as plain JSON, failures as our errors."""

import asyncio
import errno
import os
import ssl
from argparse import Namespace
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from launcher.api.http.unix_socket import UNIX
from launcher.cli.arguments import DEFAULT_SERVER
from launcher.cli.client.status_errors import error_of, warnings_of
from launcher.cli.errors import CommandError, UsageError, print_error
from launcher.cli.names import namespace_segment, path_segment
from launcher.core.errors import (
    BadRequest,
    InvalidObject,
    LauncherError,
    NotFound,
    NotServed,
    TooLarge,
    Unavailable,
)
from launcher.core.pods.log_options import POD_UID_HEADER

Json = dict[str, Any]

#: A request that has no answer by then will not get one. The server itself gives up after 60 seconds.
_PATIENCE = aiohttp.ClientTimeout(total=75, sock_connect=10)
#: A stream may be silent for long, but a watch brings a bookmark every minute.
_WATCHING = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=150)
_NO_CONTENT = 204
#: Verify codes of OpenSSL: the host or the address is not in the certificate; the certificate has expired.
_ANOTHER_HOST, _EXPIRED = (62, 64), 10
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
#: The body of kube-apiserver's answer at the path of an API group that it does not have.
_PAGE_NOT_FOUND = b"404 page not found"
#: How several streams share a socket, the best way first.
_CHANNELS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_FOLLOWING = aiohttp.ClientTimeout(total=None, sock_connect=10)


@dataclass(frozen=True, slots=True)
class ApiPath:
    """A kind of object: where the API has it."""

    prefix: str
    plural: str

    def path(self, namespace: str | None, name: str | None = None, part: str | None = None) -> str:
        """
        ``/api/v1/namespaces/default/pods/p/log``; without a namespace or a name, the path of all of them.

        Raises UsageError for an empty or malformed name, which would lead to another object, or to all of them.
        """
        segments = [self.prefix, self.plural]
        if namespace is not None:
            segments.insert(1, f"namespaces/{namespace_segment(namespace)}")
        if name is not None:
            segments.append(path_segment(name))
        return "/".join(segments if part is None else [*segments, part])


FRAMEWORKS = ApiPath("/apis/launcher.microsoft.com/v1", "frameworks")
PODS = ApiPath("/api/v1", "pods")
EVENTS = ApiPath("/api/v1", "events")
NODES = ApiPath("/api/v1", "nodes")
SERVICES = ApiPath("/api/v1", "services")
CONFIG_MAPS = ApiPath("/api/v1", "configmaps")


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """Which server, who we are to it, and which namespace is meant."""

    url: str
    namespace: str = "default"
    token: str | None = None
    ca: Path | None = None

    @property
    def socket(self) -> str | None:
        """The path of a unix socket; None for a server that has an address."""
        return self.url.removeprefix(UNIX) if self.url.startswith(UNIX) else None

    @property
    def base(self) -> str:
        """What stands before the path of each request's URL."""
        return self.url if self.socket is None else "http://localhost"


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch."""

    type: str
    object: Json


def target_of(given: Namespace, environment: Mapping[str, str] = os.environ) -> ServerConfig:
    """The server that the options name, or else the environment. Raises UsageError."""
    url = (_setting("--server", given.server, "LAUNCHER_SERVER", environment) or DEFAULT_SERVER).rstrip("/")
    if not url.startswith(("http://", "https://", f"{UNIX}/", f"{UNIX}.")):
        raise UsageError(
            f"--server: {url!r} has to begin with http://, https:// or unix:/; for instance {DEFAULT_SERVER}"
        )
    token_file = _setting("--token-file", given.token_file, "LAUNCHER_TOKEN_FILE", environment)
    ca = _setting("--ca", given.ca, "LAUNCHER_CA_FILE", environment)
    return ServerConfig(
        url,
        given.namespace or "default",
        _token(Path(token_file)) if token_file else None,
        Path(ca) if ca else None,
    )


def _setting(option: str, value: str | None, variable: str, environment: Mapping[str, str]) -> str | None:
    """The value of the option, or of the variable; None when neither is set. Raises UsageError for an empty one."""
    if value == "":
        raise UsageError(f"{option}: the value is empty; set one, or leave the option out")
    if value is None and environment.get(variable) == "":
        raise UsageError(f"{variable}: the value is empty; set one, or unset the variable")
    return value or environment.get(variable)


def run_with_client(given: Namespace, work: "Callable[[ApiClient], Coroutine[Any, Any, int]]") -> int:
    """The exit code of *work*, done with the server that *given* names. Raises CommandError."""
    target = target_of(given)

    async def talking() -> int:
        async with connected(target) as api:
            return await work(api)

    with complaints():
        return asyncio.run(talking())


@contextmanager
def complaints() -> Iterator[None]:
    """Inside, our errors, also in groups; outside, what the user is told."""
    try:
        yield
    except (LauncherError, BaseExceptionGroup) as raised:
        error = _first(raised)
        if isinstance(error, LauncherError):
            told = UsageError if isinstance(error, BadRequest | InvalidObject | TooLarge) else CommandError
            raise told(*str(error).splitlines()) from raised
        raise error from raised


@asynccontextmanager
async def connected(target: ServerConfig) -> "AsyncIterator[ApiClient]":
    """A client of that server; nothing is sent yet."""
    headers = {"User-Agent": "launcher", "Accept": "application/json"}
    if target.token is not None:
        headers["Authorization"] = f"Bearer {target.token}"
    connector: aiohttp.BaseConnector
    if target.socket is None:
        connector = aiohttp.TCPConnector(limit=0, ssl=_trust(target))
    else:
        connector = aiohttp.UnixConnector(target.socket, limit=0)
    async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=_PATIENCE) as session:
        yield ApiClient(session, target)


class ApiClient:
    """One server. Every method raises the errors of the answer, and Unavailable when there is none."""

    def __init__(self, session: aiohttp.ClientSession, target: ServerConfig) -> None:
        self._session, self._target = session, target

    @property
    def namespace(self) -> str:
        return self._target.namespace

    @property
    def url(self) -> str:
        return self._target.url

    def within(self, namespace: str) -> "ApiClient":
        """The same server, with another namespace in mind."""
        return ApiClient(self._session, replace(self._target, namespace=namespace))

    async def create(
        self,
        data: bytes,
        media: str,
        *,
        namespace: str,
        resource: ApiPath = FRAMEWORKS,
        dry_run: bool = False,
        strict: bool = False,
    ) -> tuple[Json, list[str]]:
        """The object that the bytes spell, as it was stored, and the warnings; *strict* refuses unknown fields."""
        parameters = {"dryRun": "All"} if dry_run else {}
        if strict:
            parameters["fieldValidation"] = "Strict"
        path = resource.path(namespace)
        async with self._asked("POST", path, parameters, data, media) as response:
            return _decoded(await response.read(), self._target), warnings_of(
                response.headers.getall("Warning", [])
            )

    async def make(self, resource: ApiPath, obj: Json) -> Json:
        """The object of another kind, as it was stored."""
        return await self._object(
            "POST", resource.path(self.namespace), {}, orjson.dumps(obj), "application/json"
        )

    async def get(self, resource: ApiPath, name: str) -> Json:
        """The object as it is now."""
        return await self._object("GET", resource.path(self.namespace, name))

    async def list(
        self, resource: ApiPath, *, labels: str = "", fields: str = "", everywhere: bool = False
    ) -> tuple[list[Json], str]:
        """Every object that matches, and the version to watch from."""
        path = resource.path(None if everywhere else self.namespace)
        listed = await self._object("GET", path, _selecting(labels, fields))
        return listed["items"], listed["metadata"]["resourceVersion"]

    async def watch(
        self, resource: ApiPath, since: str, *, labels: str = "", fields: str = ""
    ) -> AsyncGenerator[WatchEvent]:
        """Every change after *since*, until the server ends the stream. Raises Expired when that is too long ago."""
        parameters = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": since}
        path, parameters = resource.path(self.namespace), parameters | _selecting(labels, fields)
        async with self._asked("GET", path, parameters, timeout=_WATCHING) as response:
            async for line in lines_of(response):
                change = _decoded(line, self._target)
                if change["type"] == "ERROR":
                    raise error_of(change["object"], change["object"].get("code", 500))
                yield WatchEvent(change["type"], change["object"])

    async def merge(self, resource: ApiPath, name: str, changes: Json) -> Json:
        """The object after a merge patch."""
        return await self._patch(resource, name, changes, "application/merge-patch+json")

    async def edit(self, resource: ApiPath, name: str, operations: Sequence[Json]) -> Json:
        """The object after a JSON patch, all of it or nothing."""
        return await self._patch(resource, name, operations, "application/json-patch+json")

    async def delete(self, resource: ApiPath, name: str, options: Json) -> Json:
        """The object as it now waits for its end, or a Status when it is gone already."""
        path = resource.path(self.namespace, name)
        return await self._object("DELETE", path, {}, orjson.dumps(options), "application/json")

    @asynccontextmanager
    async def log(
        self, pod: str, parameters: Mapping[str, str], *, previous_pod: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """
        The lines of a container's log, without their ends; with *previous_pod*, of the pod of that name before it.

        Raises NotFound, BadRequest when there is none.
        """
        path = PODS.path(self.namespace, pod, "log")
        if previous_pod:
            parameters = {**parameters, "previousPod": "true"}
        async with self._asked("GET", path, parameters, timeout=_FOLLOWING) as response:
            if response.status == _NO_CONTENT:
                raise NotFound(f"{pod} has not been given a node yet, so it has written nothing")
            if previous_pod and POD_UID_HEADER not in response.headers:
                # A cluster does not know this parameter, and answers with the log of the current pod.
                raise NotFound(
                    f"the log of the pod before {pod} is gone: this cluster keeps none of deleted pods"
                )
            yield lines_of(response)

    @asynccontextmanager
    async def execute(
        self, pod: str, parameters: Sequence[tuple[str, str]]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """The streams of a command in a container, in Kubernetes' channels. Raises what the server says no with."""
        path = PODS.path(self.namespace, pod, "exec")
        with _our_errors(self._target):
            try:
                socket = await self._session.ws_connect(
                    self._target.base + path, params=list(parameters), protocols=_CHANNELS
                )
            except aiohttp.WSServerHandshakeError:
                # It answered, but not with a socket: asked plainly, it says why.
                await self._object("GET", path, dict(parameters))
                raise
            async with socket:
                yield socket

    async def version(self) -> str:
        """What the server calls itself."""
        return str((await self._object("GET", "/version"))["gitVersion"])

    async def _patch(self, resource: ApiPath, name: str, patch: Any, media: str) -> Json:
        path = resource.path(self.namespace, name)
        async with self._asked("PATCH", path, {}, orjson.dumps(patch), media) as response:
            print_error(*(f"warning: {each}" for each in warnings_of(response.headers.getall("Warning", []))))
            return _decoded(await response.read(), self._target)

    async def _object(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] = {},
        data: bytes | None = None,
        media: str | None = None,
    ) -> Json:
        async with self._asked(method, path, parameters, data, media) as response:
            return _decoded(await response.read(), self._target)

    @asynccontextmanager
    async def _asked(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        data: bytes | None = None,
        media: str | None = None,
        timeout: aiohttp.ClientTimeout = _PATIENCE,  # noqa: ASYNC109 - aiohttp's own limits
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer, if it is one of success."""
        with _our_errors(self._target):
            async with self._session.request(
                method,
                self._target.base + path,
                params=parameters,
                data=data,
                headers={} if media is None else {"Content-Type": media},
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                if response.status >= 300:
                    raise await _failure(response, self._target)
                yield response


async def lines_of(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The lines of a body as they come, of any length, without their ends."""
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
def _our_errors(target: ServerConfig) -> Iterator[None]:
    """Inside, the client's exceptions; outside, only ours."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise Unavailable(_untrusted(target, error.certificate_error)) from error
    except aiohttp.ClientSSLError as error:
        plain = f"http://{target.url.removeprefix('https://')}"
        raise Unavailable(
            f"{target.url} does not speak TLS ({error.strerror or error}); if it serves plain HTTP, write --server "
            f"{plain}"
        ) from error
    except aiohttp.ClientConnectorDNSError as error:
        raise Unavailable(
            f"there is no host {error.host} ({error.strerror}); correct --server {target.url}"
        ) from error
    except aiohttp.ConnectionTimeoutError as error:
        raise Unavailable(
            f"{target.url} does not answer within {_PATIENCE.sock_connect:g} s; check the host, the port and firewalls"
        ) from error
    except aiohttp.ClientConnectorError as error:
        if target.socket is not None or error.os_error.errno in _UNREACHABLE:
            raise Unavailable(f"{target.url} cannot be reached: {error.os_error.strerror}") from error
        raise Unavailable(
            f"no server answers at {target.url}; start one with: launcher serve, or name yours with --server"
        ) from error
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientResponseError, aiohttp.ClientOSError) as error:
        raise Unavailable(
            f"the connection to {target.url} was lost: {str(error) or 'no answer'}{_maybe_tls(target)}"
        ) from error
    except aiohttp.InvalidURL as error:
        raise BadRequest(f"--server: {target.url} is no address of a server") from error
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unavailable(f"the connection to {target.url} was lost: {str(error) or 'no answer'}") from error


def _untrusted(target: ServerConfig, error: Exception) -> str:
    """Why the certificate is not accepted, and the way out."""
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    why = getattr(error, "verify_message", "") or str(error)
    if code in _ANOTHER_HOST:
        return f"the certificate of {target.url} is for another host ({why}); write --server with a name that it has"
    if code == _EXPIRED:
        return f"the certificate of {target.url} has expired ({why}); renew it"
    return f"the certificate of {target.url} is not trusted ({why}); name its authority with --ca FILE"


def _maybe_tls(target: ServerConfig) -> str:
    """The way out where plain HTTP meets a server that may speak TLS."""
    if not target.url.startswith("http://"):
        return ""
    return f"; if it serves HTTPS, write --server https://{target.url.removeprefix('http://')}"


async def _failure(response: aiohttp.ClientResponse, target: ServerConfig) -> LauncherError:
    body = await response.read()
    status = _json_object(body)
    if status is None and response.status == 404 and body.startswith(_PAGE_NOT_FOUND):
        return NotServed(f"{target.url} does not serve {response.url.path}")
    if status is None or status.get("kind") != "Status":
        return _no_launcher(target, f"{response.status} {response.reason}")
    return error_of(status, response.status, had_token=target.token is not None)


def _decoded(data: bytes, target: ServerConfig) -> Json:
    value = _json_object(data)
    if value is None:
        raise _no_launcher(target, "its answer is no JSON object")
    return value


def _json_object(data: bytes) -> Json | None:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def _no_launcher(target: ServerConfig, why: str) -> Unavailable:
    return Unavailable(f"what answers at {target.url} is no launcher ({why}); name yours with --server")


def _selecting(labels: str, fields: str) -> dict[str, str]:
    selectors = {"labelSelector": labels, "fieldSelector": fields}
    return {name: selector for name, selector in selectors.items() if selector}


def _token(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise UsageError(f"--token-file: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--token-file: {path} is no text") from error


def _trust(target: ServerConfig) -> ssl.SSLContext | bool:
    """Which certificates are good: those of --ca, or this machine's own."""
    if target.ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=target.ca)
    except ssl.SSLError as error:
        raise UsageError(f"--ca: {target.ca}: holds no certificate in PEM") from error
    except OSError as error:
        raise UsageError(f"--ca: {target.ca}: {error.strerror}") from error


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
