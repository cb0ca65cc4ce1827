"""The result of a conversion to a Framework, and access to the fields of the converted object."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from launcher.core.errors import FieldError
from launcher.core.validation.field_errors import forbidden, invalid, type_invalid, unsupported


@dataclass(frozen=True, slots=True)
class Conversion:
    """A Framework as a user would write it, and a note for each difference in behaviour."""

    framework: dict[str, Any]
    notes: tuple[str, ...] = ()


T = TypeVar("T")

NO_COUNTERPART = "not supported by Frameworks; remove it"

_TYPE_NAMES: Mapping[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
}


class Fields:
    """The fields of one object that have not been read yet. Errors are added to *errors*."""

    def __init__(self, obj: Mapping[str, Any], path: str, errors: list[FieldError]) -> None:
        self._unread, self.path, self.errors = dict(obj), path, errors

    def path_of(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}.{name}" if self.path else name

    def take(self, name: str, kind: type[T]) -> T | None:
        """Removes and returns the value; None if it is absent or of another type."""
        value = self._unread.pop(name, None)
        if value is None:
            return None
        if type(value) is not kind:
            self.errors.append(
                type_invalid(self.path_of(name), value, f"must be of type {_TYPE_NAMES[kind]}")
            )
            return None
        return value

    def text_or_number(self, name: str) -> str | None:
        """A value that may be a string or an integer, as a string."""
        return str(self.take(name, int)) if type(self._unread.get(name)) is int else self.take(name, str)

    def count(self, name: str, maximum: int | None = None) -> int | None:
        """An integer of at least 0 and at most *maximum*."""
        value = self.take(name, int)
        if value is not None and value < 0:
            self.errors.append(invalid(self.path_of(name), value, "must be at least 0"))
            return None
        if value is not None and maximum is not None and value > maximum:
            self.errors.append(invalid(self.path_of(name), value, f"must be at most {maximum}"))
            return None
        return value

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """A value that must be one of *choices*."""
        value = self.take(name, str)
        if value is None:
            return default
        if value not in choices:
            self.errors.append(unsupported(self.path_of(name), value, filter(None, choices)))
            return default
        return value

    def inner(self, name: str) -> "Fields":
        """The fields of a nested object; empty if it is absent."""
        return Fields(self.take(name, dict) or {}, self.path_of(name), self.errors)

    def ignore(self, *names: str) -> None:
        """Removes fields that have no effect."""
        for name in names:
            self._unread.pop(name, None)

    def add_error(self, error: FieldError) -> None:
        self.errors.append(error)

    def __contains__(self, name: str) -> bool:
        return self._unread.get(name) is not None

    def finish(self) -> None:
        """Reports all fields that have not been read as unsupported."""
        for name, value in self._unread.items():
            if value is not None:
                self.add_error(forbidden(self.path_of(name), NO_COUNTERPART))
        self._unread = {}
