"""How parts of an object are read that may lack anything and have any shape."""

from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """The object, or an empty one where there is none."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The list, or an empty one where there is none."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    """The text, or an empty one where there is none."""
    return value if isinstance(value, str) else ""
