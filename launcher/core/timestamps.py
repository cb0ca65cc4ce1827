"""Timestamps (whole seconds since 1970 in the core, RFC 3339 in JSON) and durations."""

import re
from datetime import UTC, datetime
from functools import lru_cache

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def seconds_in(text: str) -> float:
    """The seconds of ``90s``, ``5m``, ``1h30m``, ``2d`` or a plain number. Raises ValueError."""
    parts = re.fullmatch(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text, re.ASCII)
    if not text or parts is None:
        raise ValueError(f"{text!r} is not a duration; use a value such as 90s, 5m or 1h30m")
    return sum(
        float(count) * size
        for count, size in zip(parts.groups(), (_DAY, _HOUR, _MINUTE, 1), strict=True)
        if count
    )


#: Whole seconds since 1970-01-01T00:00:00Z.
Time = int


@lru_cache(maxsize=4096)
def format_rfc3339(time: Time) -> str:
    """``2026-01-31T12:00:00Z``."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=4096)
def parse_rfc3339(text: str) -> Time:
    """The time in whole seconds. Raises ValueError when *text* is not an RFC 3339 time."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; use a time such as 2026-01-31T12:00:00Z")
    return int(moment.timestamp())


def format_optional(time: Time | None) -> str | None:
    """The time as RFC 3339; None for None."""
    return None if time is None else format_rfc3339(time)


def parse_optional(text: str | None) -> Time | None:
    """The time in whole seconds; None for None. Raises ValueError."""
    return None if text is None else parse_rfc3339(text)


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def parse_go_duration(text: str) -> float:
    """The seconds of ``5s``, ``1m`` or ``2h22m``; fractions and a sign are allowed. Raises ValueError."""
    sign, unsigned = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if unsigned == "0":
        return 0.0
    parts = _PART.findall(unsigned)
    if not parts or "".join(number + unit for number, unit in parts) != unsigned:
        raise ValueError("must be a number with a unit, such as 30s, 5m or 2h22m")
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def format_short(seconds: float) -> str:
    """``59s``, ``1m``, ``23h``, ``1d``, ``1y``: the largest unit only."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    for size, unit, limit in (
        (1, "s", _MINUTE),
        (_MINUTE, "m", _HOUR),
        (_HOUR, "h", _DAY),
        (_DAY, "d", _YEAR),
    ):
        if whole < limit:
            return f"{max(whole, 0) // size}{unit}"
    return f"{whole // _YEAR}y"


def format_age(timestamp: object, now: float) -> str:
    """``3m20s`` for an RFC 3339 time; ``<unknown>`` if it is absent or invalid."""
    if not isinstance(timestamp, str) or not timestamp:
        return "<unknown>"
    try:
        return age(now - parse_rfc3339(timestamp))
    except ValueError:
        return "<unknown>"


def age(seconds: float) -> str:
    """One or two units, as kubectl prints an age: the longer, the less exact."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole, _MINUTE, "m", 1, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole, _HOUR, "h", _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole, _DAY, "d", _HOUR, "h")
    if whole < 2 * _YEAR:
        return f"{whole // _DAY}d"
    if whole < 8 * _YEAR:
        return _two(whole, _YEAR, "y", _DAY, "d")
    return f"{whole // _YEAR}y"


def _two(seconds: int, large: int, sign: str, small: int, small_sign: str) -> str:
    remainder = seconds % large // small
    return f"{seconds // large}{sign}{remainder}{small_sign}" if remainder else f"{seconds // large}{sign}"
