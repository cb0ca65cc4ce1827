"""Query parameters."""

from collections.abc import Mapping


def flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a query parameter is true: present, even if empty, and neither ``false`` nor ``0``."""
    value = query.get(name)
    return value is not None and value.lower() not in ("false", "0")
