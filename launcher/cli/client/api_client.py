"""
A synchronous client of the HTTP API on ``http.client``.

``import aiohttp`` takes longer than a whole ``launcher list``, so commands that make a few requests use this client.
Commands that stay connected (``run``, ``logs``, ``wait``) use ``async_client``.
"""

import http.client
import json
import socket
import ssl
import zlib
from argparse import Namespace
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import SplitResult, unquote, urlencode, urlsplit

from launcher.cli.client import connection_errors
from launcher.cli.client.api_path import FRAMEWORKS, PODS, ApiPath, selector_parameters
from launcher.cli.client.connection_errors import CONNECT_TIMEOUT_SECONDS, REQUEST_TIMEOUT_SECONDS
from launcher.cli.client.server_config import ServerConfig, server_config
from launcher.cli.client.status_errors import warnings_of
from launcher.cli.errors import command_errors, print_error

Json = dict[str, Any]

_JSON = "application/json"
#: Methods that are sent again when the server has closed an idle connection.
_IDEMPOTENT = ("GET", "DELETE")
#: Window size that makes zlib read the header of gzip.
_GZIP = 31


@contextmanager
def api_client(args: Namespace) -> "Iterator[ApiClient]":
    """A client of the server that *args* name. Inside, our errors; outside, CommandError."""
    with command_errors(), connected(server_config(args)) as api:
        yield api


@contextmanager
def connected(config: ServerConfig) -> "Iterator[ApiClient]":
    """A client of that server. It connects with the first request."""
    transport = _Transport(config)
    try:
        yield ApiClient(transport, config)
    finally:
        transport.close()


class ApiClient:
    """One server. Every method raises the error of the response, and Unavailable when there is none."""

    def __init__(self, transport: "_Transport", config: ServerConfig) -> None:
        self._transport, self.config = transport, config

    @property
    def namespace(self) -> str:
        return self.config.namespace

    @property
    def url(self) -> str:
        return self.config.url

    def in_namespace(self, namespace: str) -> "ApiClient":
        """The same connection with another namespace."""
        return ApiClient(self._transport, self.config.in_namespace(namespace))

    def create(
        self,
        data: bytes,
        media_type: str,
        *,
        namespace: str,
        resource: ApiPath = FRAMEWORKS,
        dry_run: bool = False,
        strict: bool = False,
    ) -> tuple[Json, Sequence[str]]:
        """The object in *data* as it was stored, and the warnings; *strict* rejects unknown fields."""
        parameters = {"dryRun": "All"} if dry_run else {}
        if strict:
            parameters["fieldValidation"] = "Strict"
        return self._request("POST", resource.path(namespace), parameters, data, media_type)

    def create_object(self, resource: ApiPath, obj: Json) -> Json:
        """The object as it was stored."""
        return self._request("POST", resource.path(self.namespace), {}, _dump(obj), _JSON)[0]

    def get(self, resource: ApiPath, name: str) -> Json:
        return self._request("GET", resource.path(self.namespace, name))[0]

    def list(
        self,
        resource: ApiPath,
        *,
        labels: str = "",
        fields: str = "",
        all_namespaces: bool = False,
        filters: Mapping[str, str] | None = None,
    ) -> list[Json]:
        """Every object that matches; *filters* are parameters of the launcher, such as ``nameContains``."""
        path = resource.path(None if all_namespaces else self.namespace)
        parameters = {**selector_parameters(labels, fields), **(filters or {})}
        items: list[Json] = []
        while True:
            page = self._request("GET", path, parameters)[0]
            items.extend(page["items"])
            # A list that the launcher filters itself may have pages although no limit was set.
            token = page.get("metadata", {}).get("continue")
            if not token:
                return items
            parameters["continue"] = token

    def merge(self, resource: ApiPath, name: str, changes: Json) -> Json:
        """The object after a merge patch."""
        return self._patch(resource, name, changes, "application/merge-patch+json")

    def json_patch(self, resource: ApiPath, name: str, operations: Sequence[Json]) -> Json:
        """The object after a JSON patch, which is applied as a whole or not at all."""
        return self._patch(resource, name, operations, "application/json-patch+json")

    def delete(self, resource: ApiPath, name: str, options: Json) -> Json:
        """The object that is being deleted, or a Status when it no longer exists."""
        path = resource.path(self.namespace, name)
        return self._request("DELETE", path, {}, _dump(options), _JSON)[0]

    def diagnosis(self, name: str, role: str | None = None, index: int | None = None) -> Json:
        """The findings for a Framework, or for the tasks of a role."""
        selected = {"role": role, "index": None if index is None else str(index)}
        parameters = {key: value for key, value in selected.items() if value is not None}
        return self._request("GET", FRAMEWORKS.path(self.namespace, name, "diagnosis"), parameters)[0]

    def last_line(self, pod: str, container: str) -> str:
        """The last line of a container's log, after its time; empty if there is none."""
        parameters = {"container": container, "tailLines": "1", "timestamps": "true"}
        _, body = self._response("GET", PODS.path(self.namespace, pod, "log"), parameters)
        return body.decode(errors="replace")

    def version(self) -> str:
        """The version that the server reports."""
        return str(self._request("GET", "/version")[0]["gitVersion"])

    def _patch(self, resource: ApiPath, name: str, patch: Any, media_type: str) -> Json:
        path = resource.path(self.namespace, name)
        obj, warnings = self._request("PATCH", path, {}, _dump(patch), media_type)
        print_error(*(f"warning: {warning}" for warning in warnings))
        return obj

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] = {},
        data: bytes | None = None,
        media_type: str | None = None,
    ) -> tuple[Json, Sequence[str]]:
        """The object and the warnings of a successful response."""
        response, body = self._response(method, path, parameters, data, media_type)
        warnings = warnings_of(response.headers.get_all("Warning", []))
        return connection_errors.decoded(body, self.config), warnings

    def _response(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str],
        data: bytes | None = None,
        media_type: str | None = None,
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """A successful response and its body."""
        headers = {} if media_type is None else {"Content-Type": media_type}
        query = f"?{urlencode(parameters)}" if parameters else ""
        response, body = self._transport.request(method, path + query, headers, data)
        if response.status >= 300:
            raise connection_errors.failed_response(self.config, response.status, response.reason, path, body)
        return response, body


class _Transport:
    """One connection to the server, kept open between requests."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._connection: http.client.HTTPConnection | None = None
        self._headers = {"User-Agent": "launcher", "Accept": _JSON, "Accept-Encoding": "gzip"}
        if config.token is not None:
            self._headers["Authorization"] = f"Bearer {config.token}"

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def request(
        self, method: str, path: str, headers: Mapping[str, str], data: bytes | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """The response and its body. Raises Unavailable, BadRequest."""
        is_reused = self._connection is not None
        try:
            return self._send(method, path, headers, data)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self.close()
            if not is_reused or method not in _IDEMPOTENT:
                raise connection_errors.connection_lost(self._config, error, may_need_tls=True) from error
        return self.request(method, path, headers, data)

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], data: bytes | None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        url = self._split_url()
        if self._connection is None or self._connection.sock is None:
            self._connection = self._connect(url)
        try:
            self._connection.request(method, url.path + path, data, {**self._headers, **headers})
            response = self._connection.getresponse()
            body = response.read()
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            raise
        except (http.client.HTTPException, OSError) as error:
            self.close()
            timed_out = isinstance(error, TimeoutError)
            raise connection_errors.connection_lost(
                self._config, error, may_need_tls=not timed_out
            ) from error
        return response, self._decompressed(response, body)

    def _decompressed(self, response: http.client.HTTPResponse, body: bytes) -> bytes:
        if response.headers.get("Content-Encoding") != "gzip":
            return body
        try:
            return zlib.decompress(body, _GZIP)
        except zlib.error as error:
            raise connection_errors.connection_lost(self._config, error) from error

    def _split_url(self) -> SplitResult:
        try:
            url = urlsplit(self._config.base_url)
            if not url.hostname or url.port == 0:
                raise connection_errors.invalid_url(self._config)
        except ValueError as error:
            raise connection_errors.invalid_url(self._config) from error
        if url.username is not None and self._config.token is None:
            credentials = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {b64encode(credentials).decode()}"
        return url

    def _connect(self, url: SplitResult) -> http.client.HTTPConnection:
        config, host = self._config, url.hostname or ""
        connection: http.client.HTTPConnection
        tls = connection_errors.client_tls(config) if config.ca_file or url.scheme == "https" else None
        if config.socket is not None:
            connection = _UnixConnection(config.socket)
        elif url.scheme == "https":
            connection = http.client.HTTPSConnection(
                host, url.port, timeout=CONNECT_TIMEOUT_SECONDS, context=tls
            )
        else:
            connection = http.client.HTTPConnection(host, url.port, timeout=CONNECT_TIMEOUT_SECONDS)
        try:
            _open(connection)
        except ssl.SSLCertVerificationError as error:
            raise connection_errors.untrusted_certificate(config, error) from error
        except ssl.SSLError as error:
            raise connection_errors.tls_failed(config, error) from error
        except socket.gaierror as error:
            raise connection_errors.unknown_host(config, host, error) from error
        except TimeoutError as error:
            raise connection_errors.connect_timeout(config, CONNECT_TIMEOUT_SECONDS) from error
        except OSError as error:
            raise connection_errors.connect_failed(config, error) from error
        except (UnicodeError, http.client.InvalidURL) as error:
            raise connection_errors.invalid_url(config) from error
        connection.sock.settimeout(REQUEST_TIMEOUT_SECONDS)
        return connection


def _open(connection: http.client.HTTPConnection) -> None:
    try:
        connection.connect()
    except BaseException:
        connection.close()
        raise


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(CONNECT_TIMEOUT_SECONDS)
        self.sock.connect(self._path)


def _dump(obj: Any) -> bytes:
    return json.dumps(obj).encode()
