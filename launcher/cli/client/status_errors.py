"""A ``Status`` of the API as one of our errors, and the warnings of a response."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.core.api_status import error_with_reason
from launcher.core.errors import BadRequest, Forbidden, LauncherError, Unavailable

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def error_of(status: Mapping[str, Any], code: int, *, had_token: bool = False) -> LauncherError:
    """The error that the Status describes."""
    message = status.get("message") or f"the server responded {code}"
    if code == 401:
        return Forbidden(
            "the server rejected the token; set --token-file to a file with a valid token"
            if had_token
            else "the server requires a token; set --token-file or LAUNCHER_TOKEN_FILE to a file with it"
        )
    if code == 403 and had_token:
        return Forbidden(f"{message}; set --token-file to a file with the token of another user")
    if (error := error_with_reason(status, message)) is not None:
        return error
    return BadRequest(message) if code < 500 and code != 429 else Unavailable(message)


def warnings_of(headers: Iterable[str]) -> list[str]:
    """The texts in ``Warning`` headers."""
    texts = (text for header in headers for text in _WARNING.findall(header))
    return [re.sub(r"\\(.)", r"\1", text) for text in texts]
