"""The flags that a user gave, each with its default where nothing was given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.converters.arena.flags import FLAGS, FlagType
from launcher.core.errors import FieldError
from launcher.core.quantity import quantity
from launcher.core.timestamps import parse_go_duration as seconds_in
from launcher.core.validation.field_errors import forbidden, invalid, unsupported

#: By the name of the flag.
Values = Mapping[str, str | int | bool | Sequence[str]]


@dataclass(frozen=True, slots=True)
class FlagValues:
    """Asked for by name. What is wrong with a flag is added to *problems*."""

    values: Values
    problems: list[FieldError] = field(default_factory=list)

    def text(self, name: str) -> str:
        return str(self._value(name, FlagType.TEXT))

    def number(self, name: str) -> int:
        """A number of at least 0."""
        value = self._value(name, FlagType.NUMBER)
        if not isinstance(value, int) or value < 0:
            self.complain(invalid(f"--{name}", value, "must be at least 0"))
            return 0
        return value

    def is_on(self, name: str) -> bool:
        return bool(self._value(name, FlagType.SWITCH))

    def each(self, name: str) -> tuple[str, ...]:
        value = self._value(name, FlagType.EACH)
        return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else ()

    def word(self, name: str, words: Sequence[str]) -> str:
        """One of these words; the first stands for one that is not."""
        value = self.text(name)
        if value not in words:
            self.complain(unsupported(f"--{name}", value, words))
            return words[0]
        return value

    def seconds(self, name: str) -> int | None:
        """Whole seconds; None where nothing or 0 is given."""
        text = self.text(name)
        if not text:
            return None
        try:
            found = seconds_in(text)
        except ValueError as error:
            self.complain(invalid(f"--{name}", text, str(error)))
            return None
        if found < 0:
            self.complain(invalid(f"--{name}", text, "must be at least 0"))
            return None
        return int(found) or None

    def amount(self, name: str) -> str | None:
        """A quantity as it is written; None where none is given."""
        text = self.text(name)
        if not text:
            return None
        try:
            quantity(text)
        except ValueError as error:
            self.complain(invalid(f"--{name}", text, str(error)))
            return None
        return text

    def refuse_the_impossible(self) -> None:
        """Complain about flags that ask for what cannot be had."""
        for name in self.values:
            if (flag := FLAGS[name]).refused:
                self.complain(forbidden(f"--{name}", flag.refused))

    def complain(self, problem: FieldError) -> None:
        self.problems.append(problem)

    def has(self, name: str) -> bool:
        """Whether the user gave it."""
        return name in self.values

    def _value(self, name: str, kind: FlagType) -> str | int | bool | Sequence[str]:
        flag = FLAGS[name]
        if flag.kind is not kind:
            raise ValueError(f"--{name} is of another kind")
        return self.values.get(name, flag.default)
