"""What becomes of somebody else's object: a Framework, and what its user should know."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Mapped:
    """A Framework as a user would write it, and a line for everything that no longer means quite the same."""

    framework: dict[str, Any]
    notes: tuple[str, ...] = ()
