"""
Errors raised on purpose, grouped by who has to act.

* LauncherError
  * RequestError          the caller's: change the request
    * BadRequest            it cannot be parsed
    * Forbidden             not allowed by quota, policy or a terminating namespace
    * NotFound              there is no such object
    * AlreadyExists         there is already an object of that name
    * Conflict              the object is not the one, or not in the state, that the caller expects
    * Expired               the resource version is too old: list again
    * InvalidObject         validation errors, each a FieldError
    * TooLarge              it exceeds a limit
  * Unavailable           transient: nothing has changed, retry the same call later
    * TooManyRequests       retry the same call after a delay
    * DiskFull              the disk of the store is full
    * NotServed             the store does not serve this kind of object, or not yet
    * OutcomeUnknown        the call may or may not have taken effect: read the object before retrying
  * StoreCorrupted        the admin's: data on disk that must not be changed before an inspection
"""

from typing import NamedTuple


class LauncherError(Exception):
    """Every error raised on purpose."""


class RequestError(LauncherError):
    """The caller has to change the request: the same request cannot succeed."""


class BadRequest(RequestError):
    """The request cannot be parsed."""


class Forbidden(RequestError):
    """Not allowed by quota, policy or a terminating namespace."""


class NotFound(RequestError):
    """There is no such object."""


class AlreadyExists(RequestError):
    """An object of that name already exists; nothing has changed."""


class Conflict(RequestError):
    """The object is not in the state that the caller expects; nothing has changed."""


class Expired(RequestError):
    """The resource version is too old. *token*, if any, continues the list, which may then have gaps."""

    def __init__(self, message: str, token: str | None = None) -> None:
        super().__init__(message)
        self.token = token


class TooLarge(RequestError):
    """The request, or the object that it would store, exceeds a limit."""


#: The maximum number of errors that are reported for one object, to keep responses small.
MAX_REPORTED_ERRORS = 100


class FieldError(NamedTuple):
    """One validation error: the field, and a message that names the remedy."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """``spec.taskRoles[0].taskNumber: Invalid value: -1: must be at least 0``."""
        return f"{self.field}: {self.message}" if self.field else self.message


class InvalidObject(RequestError):
    """The object is invalid; all errors are reported at once."""

    def __init__(self, errors: "tuple[FieldError, ...] | str") -> None:
        self.errors = (FieldError("", errors),) if isinstance(errors, str) else errors
        super().__init__("; ".join(map(str, self.errors)))


class Unavailable(LauncherError):
    """Transient: nothing has changed, and the same call may succeed later."""


class TooManyRequests(Unavailable):
    """The same call may succeed after *retry_after* seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DiskFull(Unavailable):
    """The disk of the store is full."""


class NotServed(Unavailable):
    """Objects of this kind are not served, or not yet: an admin has to install their definition."""


class OutcomeUnknown(Unavailable):
    """The call may or may not have taken effect: read the object before retrying."""


class StoreCorrupted(LauncherError):
    """The admin has to act: data on disk must not be changed before an inspection."""
