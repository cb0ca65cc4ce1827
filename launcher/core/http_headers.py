"""Values of HTTP headers."""

_ZERO_QUALITIES = ("0", "0.0", "0.00", "0.000")


def accepts_gzip(accept_encoding: str) -> bool:
    """Whether a client with that ``Accept-Encoding`` header accepts gzip."""
    for clause in accept_encoding.split(","):
        name, _, quality = clause.replace(" ", "").lower().partition(";q=")
        if name in ("gzip", "x-gzip") and quality not in _ZERO_QUALITIES:
            return True
    return False
