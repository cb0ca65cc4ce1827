"""Points in time: whole seconds since 1970 in the core, RFC 3339 on the wire."""

from datetime import UTC, datetime
from functools import lru_cache

#: Whole seconds since 1970-01-01T00:00:00Z.
Time = int


@lru_cache(maxsize=4096)
def to_wire(time: Time) -> str:
    """``2026-01-31T12:00:00Z``."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def from_wire(text: str) -> Time:
    """The whole second that *text* names. Raises ValueError when it is no RFC 3339 time."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write it as 2026-01-31T12:00:00Z")
    return int(moment.timestamp())
