"""What becomes of somebody else's object: a Framework, and what its user should know."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from launcher.core.errors import FieldError
from launcher.core.validation.field_errors import forbidden, invalid, type_invalid, unsupported


@dataclass(frozen=True, slots=True)
class Conversion:
    """A Framework as a user would write it, and a line for everything that no longer means quite the same."""

    framework: dict[str, Any]
    notes: tuple[str, ...] = ()


T = TypeVar("T")

NO_COUNTERPART = "a Framework has nothing that does the same; leave it out"

_WORDS: Mapping[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer"}


class Fields:
    """The fields of one object that nobody has asked for yet. What is wrong with one is added to *problems*."""

    def __init__(self, obj: Mapping[str, Any], path: str, problems: list[FieldError]) -> None:
        self._left, self.path, self.problems = dict(obj), path, problems

    def at(self, name: str) -> str:
        """Where that field stands."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str, kind: type[T]) -> T | None:
        """The value, which is gone then; None if there is none, or none of that kind."""
        value = self._left.pop(name, None)
        if value is None:
            return None
        if type(value) is not kind:
            self.problems.append(type_invalid(self.at(name), value, f"must be of type {_WORDS[kind]}"))
            return None
        return value

    def text_or_number(self, name: str) -> str | None:
        """A word that may be a number, written as either."""
        return str(self.take(name, int)) if type(self._left.get(name)) is int else self.take(name, str)

    def count(self, name: str, maximum: int | None = None) -> int | None:
        """A number of at least 0, and of at most *maximum*."""
        value = self.take(name, int)
        if value is not None and value < 0:
            self.problems.append(invalid(self.at(name), value, "must be at least 0"))
            return None
        if value is not None and maximum is not None and value > maximum:
            self.problems.append(invalid(self.at(name), value, f"must be at most {maximum}"))
            return None
        return value

    def word(self, name: str, words: Sequence[str], default: str) -> str:
        """One of these words."""
        value = self.take(name, str)
        if value is None:
            return default
        if value not in words:
            self.problems.append(unsupported(self.at(name), value, filter(None, words)))
            return default
        return value

    def inner(self, name: str) -> "Fields":
        """The fields of an object inside; those of none if it is not there."""
        return Fields(self.take(name, dict) or {}, self.at(name), self.problems)

    def ignore(self, *names: str) -> None:
        """Pass over what means nothing to whoever writes such an object."""
        for name in names:
            self._left.pop(name, None)

    def complain(self, problem: FieldError) -> None:
        self.problems.append(problem)

    def __contains__(self, name: str) -> bool:
        return self._left.get(name) is not None

    def finish(self) -> None:
        """Refuse by name whatever has not been asked for."""
        for name, value in self._left.items():
            if value is not None:
                self.complain(forbidden(self.at(name), NO_COUNTERPART))
        self._left = {}
