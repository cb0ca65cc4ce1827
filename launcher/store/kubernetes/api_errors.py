"""Translates error responses of the API server into our errors, with the server's messages."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from launcher.core.api_status import invalid_object
from launcher.core.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    LauncherError,
    NotFound,
    NotServed,
    OutcomeUnknown,
    TooLarge,
    TooManyRequests,
    Unavailable,
)

#: Length of the message taken from a body that is not a Status.
_MAX_MESSAGE_LENGTH = 500
#: Errors reported as internal although etcd was not called.
_NOT_STORED = ("failed calling webhook",)
#: Messages of etcd for an object over its limit, reported as an internal error.
_ETCD_SIZE_ERRORS = ("request is too large", "trying to send message larger than max")


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response: HTTP code, body, and Retry-After."""

    code: int
    status: Mapping[str, Any]
    #: Seconds, from the header, or None.
    retry_after: float | None = None

    @property
    def message(self) -> str:
        return str(self.status.get("message") or f"the API server responded with {self.code}")

    @property
    def details(self) -> Mapping[str, Any]:
        details = self.status.get("details")
        return details if isinstance(details, dict) else {}


def error_response(code: int, body: bytes, retry_after: str | None) -> ErrorResponse:
    """Parses an error response. The body may be a page of a proxy instead of a Status."""
    return ErrorResponse(code, _status_in(body), _seconds(retry_after))


def _status_in(body: bytes) -> Mapping[str, Any]:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return status
    return {"message": body[:_MAX_MESSAGE_LENGTH].decode(errors="replace").strip()}


def _seconds(text: str | None) -> float | None:
    # The header may also be a date, which no API server sends.
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def to_error(response: ErrorResponse, *, mutates: bool) -> LauncherError:
    """Translates an error response. *mutates* is whether the request could have changed anything."""
    factory = _BY_CODE.get(response.code)
    if factory is not None:
        return factory(response)
    if 400 <= response.code < 500:
        return BadRequest(response.message)
    return _server_error(response, mutates=mutates)


def _server_error(response: ErrorResponse, *, mutates: bool) -> LauncherError:
    """Translates a server error: the request may have been applied unless it is known that it was not."""
    if any(text in response.message for text in _ETCD_SIZE_ERRORS):
        return TooLarge(response.message)
    # A server that sends Retry-After has not started, which its own clients rely on; nor has one that redirects.
    not_begun = response.code < 400 or (response.code == 503 and response.retry_after is not None)
    if mutates and not not_begun and not any(text in response.message for text in _NOT_STORED):
        return OutcomeUnknown(response.message)
    return Unavailable(response.message)


def _unauthorized(response: ErrorResponse) -> LauncherError:
    # The launcher's problem, solved by new credentials; the request is not at fault.
    return Unavailable(f"the API server does not accept the launcher's credentials: {response.message}")


def _not_found(response: ErrorResponse) -> LauncherError:
    if response.details.get("name"):
        return NotFound(response.message)
    # The kind is missing, not the object, so nothing is known about the object.
    return NotServed(f"the API server does not serve this kind (is its CRD applied?): {response.message}")


def _conflict(response: ErrorResponse) -> LauncherError:
    return (AlreadyExists if response.status.get("reason") == "AlreadyExists" else Conflict)(response.message)


def _expired(response: ErrorResponse) -> LauncherError:
    metadata = response.status.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else None
    return Expired(response.message, token or None)


def _invalid(response: ErrorResponse) -> LauncherError:
    return invalid_object(response.status, response.message)


def _too_many(response: ErrorResponse) -> LauncherError:
    seconds = response.retry_after or response.details.get("retryAfterSeconds")
    return TooManyRequests(response.message, float(seconds) if isinstance(seconds, int | float) else 1.0)


def _with_message(error: Callable[[str], LauncherError]) -> Callable[[ErrorResponse], LauncherError]:
    return lambda response: error(response.message)


_BY_CODE: Mapping[int, Callable[[ErrorResponse], LauncherError]] = {
    401: _unauthorized,
    403: _with_message(Forbidden),
    404: _not_found,
    409: _conflict,
    410: _expired,
    413: _with_message(TooLarge),
    422: _invalid,
    429: _too_many,
}
