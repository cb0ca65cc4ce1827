"""Why a server cannot be used, and what the user can change: the messages of both clients."""

import errno
import json
import os
import ssl
from collections.abc import Callable
from typing import Any

from launcher.cli.client.server_config import ServerConfig
from launcher.cli.client.status_errors import error_of
from launcher.cli.errors import UsageError
from launcher.core.errors import BadRequest, LauncherError, NotServed, Unavailable

Json = dict[str, Any]

CONNECT_TIMEOUT_SECONDS = 10.0
#: The server itself ends a request after 60 seconds.
REQUEST_TIMEOUT_SECONDS = 75.0

#: Verify codes of OpenSSL: the certificate does not contain the host name or the address; it has expired.
_HOST_MISMATCH, _EXPIRED = (62, 64), 10
_UNREACHABLE = (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
#: The body of kube-apiserver's response at the path of an API group that it does not serve.
_PAGE_NOT_FOUND = b"404 page not found"


def untrusted_certificate(config: ServerConfig, error: Exception) -> Unavailable:
    code = error.verify_code if isinstance(error, ssl.SSLCertVerificationError) else None
    reason = getattr(error, "verify_message", "") or str(error)
    certificate = f"the certificate of {config.url}"
    if code in _HOST_MISMATCH:
        return Unavailable(
            f"{certificate} is for another host ({reason}); set --server to a name that it contains"
        )
    if code == _EXPIRED:
        return Unavailable(f"{certificate} has expired ({reason}); renew it")
    return Unavailable(f"{certificate} is not trusted ({reason}); set --ca to a file with its CA certificate")


def tls_failed(config: ServerConfig, error: OSError) -> Unavailable:
    plain = f"http://{config.url.removeprefix('https://')}"
    return Unavailable(
        f"{config.url} does not use TLS ({error.strerror or error}); if it serves plain HTTP, set --server {plain}"
    )


def unknown_host(config: ServerConfig, host: str | None, error: OSError) -> Unavailable:
    return Unavailable(f"unknown host {host} ({error.strerror}); correct --server {config.url}")


def connect_timeout(config: ServerConfig, seconds: float) -> Unavailable:
    return Unavailable(
        f"cannot connect to {config.url} within {seconds:g}s; check the host, the port and firewalls"
    )


def connect_failed(config: ServerConfig, error: OSError) -> Unavailable:
    # asyncio puts the address into strerror.
    reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
    if config.socket is not None or error.errno in _UNREACHABLE:
        return Unavailable(f"cannot connect to {config.url}: {reason}")
    return Unavailable(
        f'cannot connect to {config.url}: {reason}. Start a server with "launcher serve" or set --server.'
    )


def connection_lost(config: ServerConfig, error: BaseException, *, may_need_tls: bool = False) -> Unavailable:
    hint = ""
    if may_need_tls and config.url.startswith("http://"):
        hint = f"; if it serves HTTPS, set --server https://{config.url.removeprefix('http://')}"
    return Unavailable(f"the connection to {config.url} was lost: {str(error) or 'no response'}{hint}")


def invalid_url(config: ServerConfig) -> BadRequest:
    return BadRequest(f"--server: {config.url} is not a valid URL of a server")


def failed_response(
    config: ServerConfig, status_code: int, reason: str, path: str, body: bytes
) -> LauncherError:
    """The error of a response whose status code is not one of success."""
    status = _json_object(body, json.loads)
    if status is None and status_code == 404 and body.startswith(_PAGE_NOT_FOUND):
        return NotServed(f"{config.url} does not serve {path}")
    if status is None or status.get("kind") != "Status":
        return _not_a_launcher(config, f"{status_code} {reason}")
    return error_of(status, status_code, had_token=config.token is not None)


def decoded(data: bytes, config: ServerConfig, loads: Callable[[bytes], Any] = json.loads) -> Json:
    """The JSON object of a response's body. Raises Unavailable when it is not one."""
    value = _json_object(data, loads)
    if value is None:
        raise _not_a_launcher(config, "its response is not a JSON object")
    return value


def client_tls(config: ServerConfig) -> ssl.SSLContext:
    """Trusts the certificates of --ca, or those of this machine. Raises UsageError."""
    try:
        return ssl.create_default_context(cafile=config.ca_file)
    except ssl.SSLError as error:
        raise UsageError(f"--ca: {config.ca_file}: contains no certificate in PEM") from error
    except OSError as error:
        raise UsageError(f"--ca: {config.ca_file}: {error.strerror}") from error


def _json_object(data: bytes, loads: Callable[[bytes], Any]) -> Json | None:
    try:
        value = loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _not_a_launcher(config: ServerConfig, reason: str) -> Unavailable:
    return Unavailable(f"the server at {config.url} is not a launcher ({reason}); set yours with --server")
