"""The values of flags, with defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.converters.arena.flags import FLAGS, FlagType
from launcher.core.errors import FieldError
from launcher.core.quantity import quantity
from launcher.core.timestamps import parse_go_duration
from launcher.core.validation.field_errors import forbidden, invalid, unsupported

#: By the name of the flag.
Values = Mapping[str, str | int | bool | Sequence[str]]


@dataclass(frozen=True, slots=True)
class FlagValues:
    """The values by name. Errors are added to *errors*."""

    values: Values
    errors: list[FieldError] = field(default_factory=list)

    def text(self, name: str) -> str:
        return str(self._value(name, FlagType.TEXT))

    def number(self, name: str) -> int:
        """An integer of at least 0."""
        value = self._value(name, FlagType.NUMBER)
        if not isinstance(value, int) or value < 0:
            self.add_error(invalid(f"--{name}", value, "must be at least 0"))
            return 0
        return value

    def is_on(self, name: str) -> bool:
        return bool(self._value(name, FlagType.SWITCH))

    def repeated(self, name: str) -> tuple[str, ...]:
        value = self._value(name, FlagType.REPEATED)
        return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of *choices*; the first of them if the value is invalid."""
        value = self.text(name)
        if value not in choices:
            self.add_error(unsupported(f"--{name}", value, choices))
            return choices[0]
        return value

    def seconds(self, name: str) -> int | None:
        """Whole seconds; None if absent or 0."""
        text = self.text(name)
        if not text:
            return None
        try:
            duration = parse_go_duration(text)
        except ValueError as error:
            self.add_error(invalid(f"--{name}", text, str(error)))
            return None
        if duration < 0:
            self.add_error(invalid(f"--{name}", text, "must be at least 0"))
            return None
        return int(duration) or None

    def amount(self, name: str) -> str | None:
        """A quantity as written; None if absent."""
        text = self.text(name)
        if not text:
            return None
        try:
            quantity(text)
        except ValueError as error:
            self.add_error(invalid(f"--{name}", text, str(error)))
            return None
        return text

    def reject_unsupported(self) -> None:
        """Adds an error for each unsupported flag."""
        for name in self.values:
            if (flag := FLAGS[name]).refused:
                self.add_error(forbidden(f"--{name}", flag.refused))

    def add_error(self, error: FieldError) -> None:
        self.errors.append(error)

    def has(self, name: str) -> bool:
        """Whether the flag is set."""
        return name in self.values

    def _value(self, name: str, kind: FlagType) -> str | int | bool | Sequence[str]:
        flag = FLAGS[name]
        if flag.kind is not kind:
            raise ValueError(f"--{name} is of another kind")
        return self.values.get(name, flag.default)
