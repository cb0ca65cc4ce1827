"""What a cluster's answer means when it is not what was asked for: one of our errors, in the cluster's own words."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from launcher.core.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    FieldError,
    Forbidden,
    InvalidObject,
    LauncherError,
    NotFound,
    NotServed,
    OutcomeUnknown,
    TooLarge,
    TooManyRequests,
    Unavailable,
)

#: How much of an answer that is no Status is told.
_LONGEST = 500
#: Failures that the API server reports as its own although etcd was never asked to store anything.
_NOT_STORED = ("failed calling webhook",)
#: What etcd says of an object over its limit, by way of an internal error.
_OVER_ETCDS_LIMIT = ("request is too large", "trying to send message larger than max")


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An answer that refuses: its HTTP code, what its body says, and the pause that it asks for."""

    code: int
    status: Mapping[str, Any]
    #: Seconds, from the header; None when there is none.
    retry_after: float | None = None

    @property
    def message(self) -> str:
        return str(self.status.get("message") or f"the API server answered with {self.code}")

    @property
    def details(self) -> Mapping[str, Any]:
        details = self.status.get("details")
        return details if isinstance(details, dict) else {}


def refusal(code: int, body: bytes, retry_after: str | None) -> ErrorResponse:
    """The refusal in an answer, whatever its body is: a proxy on the way may answer with a page of its own."""
    return ErrorResponse(code, _status_in(body), _seconds(retry_after))


def _status_in(body: bytes) -> Mapping[str, Any]:
    try:
        status = orjson.loads(body)
    except orjson.JSONDecodeError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return status
    return {"message": body[:_LONGEST].decode(errors="replace").strip()}


def _seconds(text: str | None) -> float | None:
    # The header may also hold a date, which no API server sends.
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


def to_error(told: ErrorResponse, *, changes: bool) -> LauncherError:
    """What the refusal means to the caller; *changes* says whether the call could have changed anything."""
    make = _BY_CODE.get(told.code)
    if make is not None:
        return make(told)
    if 400 <= told.code < 500:
        return BadRequest(told.message)
    return _failure(told, changes=changes)


def _failure(told: ErrorResponse, *, changes: bool) -> LauncherError:
    """Of an API server in trouble: what it was asked to do may have been done, unless it is known that it was not."""
    if any(words in told.message for words in _OVER_ETCDS_LIMIT):
        return TooLarge(told.message)
    # A server that says when to come again has not begun, as its own clients rely upon; nor has one that sends
    # the caller elsewhere.
    not_begun = told.code < 400 or (told.code == 503 and told.retry_after is not None)
    if changes and not not_begun and not any(words in told.message for words in _NOT_STORED):
        return OutcomeUnknown(told.message)
    return Unavailable(told.message)


def _unauthenticated(told: ErrorResponse) -> LauncherError:
    # The launcher's own trouble, which new credentials mend; nobody's request is to blame.
    return Unavailable(f"the API server does not accept the launcher's credentials: {told.message}")


def _missing(told: ErrorResponse) -> LauncherError:
    if told.details.get("name"):
        return NotFound(told.message)
    # Not the object is missing but the whole kind, so nothing is known of the object.
    return NotServed(f"the API server does not serve this kind (is its CRD applied?): {told.message}")


def _clash(told: ErrorResponse) -> LauncherError:
    return (AlreadyExists if told.status.get("reason") == "AlreadyExists" else Conflict)(told.message)


def _too_old(told: ErrorResponse) -> LauncherError:
    metadata = told.status.get("metadata")
    token = metadata.get("continue") if isinstance(metadata, dict) else None
    return Expired(told.message, token or None)


def _invalid(told: ErrorResponse) -> LauncherError:
    causes = told.details.get("causes")
    problems = tuple(_problem(cause) for cause in causes if isinstance(cause, dict)) if causes else ()
    return InvalidObject(problems or told.message)


def _problem(cause: Mapping[str, Any]) -> FieldError:
    reason = cause.get("reason") or "FieldValueInvalid"
    return FieldError(str(cause.get("field", "")), str(cause.get("message", "")), str(reason))


def _too_many(told: ErrorResponse) -> LauncherError:
    seconds = told.retry_after or told.details.get("retryAfterSeconds")
    return TooManyRequests(told.message, float(seconds) if isinstance(seconds, int | float) else 1.0)


def _says(error: Callable[[str], LauncherError]) -> Callable[[ErrorResponse], LauncherError]:
    return lambda told: error(told.message)


_BY_CODE: Mapping[int, Callable[[ErrorResponse], LauncherError]] = {
    401: _unauthenticated,
    403: _says(Forbidden),
    404: _missing,
    409: _clash,
    410: _too_old,
    413: _says(TooLarge),
    422: _invalid,
    429: _too_many,
}
