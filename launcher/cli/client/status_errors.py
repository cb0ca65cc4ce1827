"""What the server says when it says no: a Status into our errors, and its warnings."""

import re
from collections.abc import Iterable, Mapping
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
    RequestError,
    TooLarge,
    Unavailable,
)

#: What each reason of a Status means to us; others are judged by their code.
_MEANING: Mapping[str, type[RequestError]] = {
    "BadRequest": BadRequest,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "Conflict": Conflict,
    "Expired": Expired,
    "RequestEntityTooLarge": TooLarge,
}
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def error_of(status: Mapping[str, Any], code: int, *, had_token: bool = False) -> LauncherError:
    """The error that a Status tells of."""
    reason, message = str(status.get("reason")), status.get("message") or f"the server answered {code}"
    if code == 401:
        return Forbidden(
            "the server does not know this token; --token-file names the file of the right one"
            if had_token
            else "the server wants a token; name its file with --token-file or in LAUNCHER_TOKEN_FILE"
        )
    if code == 403 and had_token:
        return Forbidden(f"{message}; --token-file may name another token, which is allowed to")
    if reason == "Invalid":
        return _invalid(status, message)
    if reason in _MEANING:
        return _MEANING[reason](message)
    return BadRequest(message) if code < 500 and code != 429 else Unavailable(message)


def warnings_of(headers: Iterable[str]) -> list[str]:
    """The texts in ``Warning`` headers."""
    texts = (text for header in headers for text in _WARNING.findall(header))
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]


def _invalid(status: Mapping[str, Any], message: str) -> InvalidObject:
    causes = (status.get("details") or {}).get("causes") or ()
    problems = tuple(FieldError(cause.get("field", ""), cause.get("message", "")) for cause in causes)
    return InvalidObject(problems or message)
