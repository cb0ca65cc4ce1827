"""
What can go wrong, and whose turn it is then.

* LauncherError
  * RequestError          the caller's: change the request
    * BadRequest            it cannot be understood
    * Forbidden             a rule of the place says no (quota, policy, namespace going away)
    * NotFound              there is no such object
    * AlreadyExists         there is one already
    * Conflict              the object is not the one, or not in the state, that the caller had in mind
    * Expired               that version is no longer known: list again
    * InvalidObject         it breaks rules, each told as a Problem
    * TooLarge              it is over a limit
  * Unavailable           nobody's: nothing has changed, and the same call may work later
    * TooManyRequests       the same call may work after a pause
    * DiskFull              free space on the disk of the store
    * NotServed             the store does not know this kind of object, or not yet
    * OutcomeUnknown        the call may or may not have taken effect: read before calling again
  * StoreCorrupted           the admin's: data on disk that must not be touched before somebody has looked
"""

from dataclasses import dataclass


class LauncherError(Exception):
    """Every error raised on purpose."""


class RequestError(LauncherError):
    """The caller's turn: the same request can never succeed."""


class BadRequest(RequestError):
    """The request cannot be understood."""


class Forbidden(RequestError):
    """A rule of the place forbids it: quota, policy, a namespace that is going away."""


class NotFound(RequestError):
    """There is no such object."""


class AlreadyExists(RequestError):
    """An object of that name is there already; nothing has changed."""


class Conflict(RequestError):
    """The object is not in the state that the caller had in mind; nothing has changed."""


class Expired(RequestError):
    """That version is no longer known. *token*, if any, goes on with a list that may have gaps."""

    def __init__(self, message: str, token: str | None = None) -> None:
        super().__init__(message)
        self.token = token


class TooLarge(RequestError):
    """The request or what it would store is over a limit."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One broken rule: where, what is wrong, and the way out."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """``spec.taskRoles[0].taskNumber: Invalid value: -1: must be at least 0``."""
        return f"{self.field}: {self.message}" if self.field else self.message


class InvalidObject(RequestError):
    """The object breaks rules, all of them told at once."""

    def __init__(self, problems: "tuple[FieldError, ...] | str") -> None:
        self.errors = (FieldError("", problems),) if isinstance(problems, str) else problems
        super().__init__("; ".join(map(str, self.errors)))


class Unavailable(LauncherError):
    """Nobody's turn: nothing has changed, and the same call may work later."""


class TooManyRequests(Unavailable):
    """The same call may work after *retry_after* seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DiskFull(Unavailable):
    """The disk of the store has no room for what would be stored."""


class NotServed(Unavailable):
    """Objects of this kind are not known, or not yet: an admin installs what defines them."""


class OutcomeUnknown(Unavailable):
    """The call may or may not have taken effect: read before calling again."""


class StoreCorrupted(LauncherError):
    """The admin's turn: data on disk that must not be touched before somebody has looked."""
