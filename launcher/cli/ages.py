"""Durations as people write them."""

import re

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


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
