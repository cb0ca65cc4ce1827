"""Errors in the Kubernetes API: the code and reason of each, and the error that a Status object reports."""

from collections.abc import Mapping
from typing import Any

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
    OutcomeUnknown,
    RequestError,
    StoreCorrupted,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from launcher.core.json_access import as_list, as_object

#: The HTTP code and the reason of each error, or of its nearest parent class; clients branch on the reason.
STATUS: Mapping[type[LauncherError], tuple[int, str]] = {
    BadRequest: (400, "BadRequest"),
    Forbidden: (403, "Forbidden"),
    NotFound: (404, "NotFound"),
    AlreadyExists: (409, "AlreadyExists"),
    Conflict: (409, "Conflict"),
    Expired: (410, "Expired"),
    TooLarge: (413, "RequestEntityTooLarge"),
    InvalidObject: (422, "Invalid"),
    TooManyRequests: (429, "TooManyRequests"),
    StoreCorrupted: (500, "InternalError"),
    Unavailable: (503, "ServiceUnavailable"),
    OutcomeUnknown: (504, "Timeout"),
}
_BY_REASON = {reason: error for error, (_, reason) in STATUS.items() if issubclass(error, RequestError)}


def error_with_reason(status: Mapping[str, Any], message: str) -> RequestError | None:
    """Returns the error of the caller that *status* reports; None for another one."""
    error = _BY_REASON.get(str(status.get("reason")))
    if error is InvalidObject:
        return invalid_object(status, message)
    return None if error is None else error(message)


def invalid_object(status: Mapping[str, Any], message: str) -> InvalidObject:
    """Returns the error with the fields that *status* names, or else with *message*."""
    causes = as_list(as_object(status.get("details")).get("causes"))
    errors = tuple(_field_error(cause) for cause in causes if isinstance(cause, dict))
    return InvalidObject(errors or message)


def _field_error(cause: Mapping[str, Any]) -> FieldError:
    reason = cause.get("reason") or "FieldValueInvalid"
    return FieldError(str(cause.get("field", "")), str(cause.get("message", "")), str(reason))
