"""Access to JSON that has not been validated: a part of another type is read as an empty one."""

from typing import Any


def as_object(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The objects in the value if it is a list, else an empty list."""
    return [item for item in as_list(value) if isinstance(item, dict)]


def text(value: Any) -> str:
    """The value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""
