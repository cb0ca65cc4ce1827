"""Durations as Go writes and reads them, and as Arena shows them."""

import re

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def seconds_in(text: str) -> float:
    """The seconds that ``5s``, ``1m`` or ``2h22m`` say; fractions and a sign are allowed. Raises ValueError."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        raise ValueError("write a number and a unit, such as 30s, 5m or 2h22m")
    return sign * sum(float(number) * _UNITS[unit] for number, unit in parts)


def short(seconds: float) -> str:
    """``59s``, ``1m``, ``23h``, ``1d``, ``1y``: the largest unit alone."""
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
