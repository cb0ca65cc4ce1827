"""How long something takes or is ago, in the words that kubectl uses, and what users write themselves."""

import re

#: In seconds.
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def shown(seconds: float) -> str:
    """``45s``, ``3m20s``, ``5h10m``, ``3d4h``: the less precise the longer."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole}s"
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


def seconds_in(text: str) -> float:
    """The seconds that ``90s``, ``5m``, ``1h30m``, ``2d`` or a plain number say. Raises ValueError."""
    parts = re.fullmatch(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text, re.ASCII)
    if not text or parts is None:
        raise ValueError(f"{text!r} is no duration; write it as 90s, 5m or 1h30m")
    return sum(
        float(count) * size
        for count, size in zip(parts.groups(), (_DAY, _HOUR, _MINUTE, 1), strict=True)
        if count
    )


def _two(seconds: int, big: int, big_name: str, small: int, small_name: str) -> str:
    rest = seconds % big // small
    return f"{seconds // big}{big_name}" + (f"{rest}{small_name}" if rest else "")
