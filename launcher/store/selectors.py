"""Label and field selectors, with the syntax and semantics of Kubernetes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from launcher.core.errors import BadRequest
from launcher.core.validation.names import label_key_error, label_value_error


class Operator(StrEnum):
    """Operator of a label requirement."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "absent"
    GREATER = ">"
    LESS = "<"


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """A requirement on one label."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels satisfy the requirement. A missing label satisfies NOT_IN."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value in self.values
            case Operator.NOT_IN:
                return value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return self._compare(value)

    def _compare(self, value: str | None) -> bool:
        if value is None or not _INTEGER.fullmatch(value):
            return False
        (bound,) = self.values
        return int(value) > int(bound) if self.operator is Operator.GREATER else int(value) < int(bound)


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """Requires that the field at a dotted path has, or does not have, a value. A missing field has the value ``""``."""

    path: str
    value: str
    equal: bool = True

    def matches(self, obj: Mapping[str, Any]) -> bool:
        return (_text_at(obj, self.path) == self.value) is self.equal


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Requires that the name of an object contains a text and, if *among* is set, that the object is one of these."""

    contains: str = ""
    #: Namespaces and names.
    among: frozenset[tuple[str, str]] | None = None

    def matches(self, key: tuple[str, str]) -> bool:
        """Whether the object with that namespace and name is selected."""
        return self.contains in key[1] and (self.among is None or key in self.among)


@dataclass(frozen=True, slots=True)
class Selector:
    """Label and field requirements. All must be satisfied."""

    labels: tuple[LabelRequirement, ...] = ()
    fields: tuple[FieldRequirement, ...] = ()
    #: For lists of the embedded store only: Kubernetes has no selector for parts of names.
    names: NameFilter | None = None

    @classmethod
    def for_labels(cls, labels: Mapping[str, str]) -> Self:
        """Selects objects that have all of these labels."""
        return cls(tuple(LabelRequirement(key, Operator.IN, frozenset({labels[key]})) for key in labels))

    @classmethod
    def for_name(cls, name: str) -> Self:
        """Selects the object with that name."""
        return cls(fields=(FieldRequirement("metadata.name", name),))

    def __and__(self, other: "Selector") -> "Selector":
        """Selects what both select."""
        return Selector(self.labels + other.labels, self.fields + other.fields)

    def matches(self, obj: Mapping[str, Any]) -> bool:
        labels = obj.get("metadata", {}).get("labels") or {}
        return self.matches_labels(labels) and self.matches_fields(obj)

    def matches_labels(self, labels: Mapping[str, str]) -> bool:
        """Whether the label requirements are satisfied; field requirements are not checked."""
        return all(requirement.matches(labels) for requirement in self.labels)

    def matches_fields(self, obj: Mapping[str, Any]) -> bool:
        """Whether the field requirements are satisfied; label requirements are not checked."""
        return all(requirement.matches(obj) for requirement in self.fields)

    def label_values(self) -> Iterator[tuple[str, str]]:
        """Yields labels and values that every matching object has."""
        for requirement in self.labels:
            if requirement.operator is Operator.IN and len(requirement.values) == 1:
                yield requirement.key, next(iter(requirement.values))

    def name(self) -> str | None:
        """Returns the only name that a matching object can have, or None."""
        for requirement in self.fields:
            if requirement.path == "metadata.name" and requirement.equal:
                return requirement.value
        return None


EVERYTHING = Selector()


def parse(labels: str = "", fields: str = "") -> Selector:
    """Parses selectors. Raises BadRequest that explains the syntax."""
    return Selector(tuple(_LabelParser(labels).requirements()), tuple(_field_requirements(fields)))


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_SIGNS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_COMPARISONS = {
    "=": Operator.IN,
    "==": Operator.IN,
    "!=": Operator.NOT_IN,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}
_LABEL_SYNTAX = (
    "use key, !key, key=value, key!=value, key in (a,b), key notin (a,b), key>1 or key<1, separated by commas"
)
_FIELD_SYNTAX = "use path=value or path!=value, separated by commas"


class _LabelParser:
    """Parses a label selector from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _TOKEN.findall(text)
        self._position = 0

    def requirements(self) -> Iterator[LabelRequirement]:
        while self._position < len(self._tokens):
            yield self._requirement()
            # Requirements are separated by commas, without a trailing comma.
            if self._position < len(self._tokens) and (
                self._take() != "," or self._position == len(self._tokens)
            ):
                raise self._error("a requirement is missing after a comma, or a comma before one")

    def _requirement(self) -> LabelRequirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._take()
        if error := label_key_error(key):
            raise self._error(f"{key!r} is not a valid label key: {error}")
        if absent or self._peek() in ("", ","):
            return LabelRequirement(key, Operator.ABSENT if absent else Operator.EXISTS)
        sign = self._take()
        if sign in ("in", "notin"):
            return LabelRequirement(key, Operator(sign), frozenset(self._set()))
        if (operator := _COMPARISONS.get(sign)) is None:
            raise self._error(f"{sign!r} is not an operator")
        value = self._value()
        if operator in (Operator.GREATER, Operator.LESS) and not _INTEGER.fullmatch(value):
            raise self._error(f"{value!r} is not an integer")
        return LabelRequirement(key, operator, frozenset({value}))

    def _set(self) -> Iterator[str]:
        if self._take() != "(":
            raise self._error("a set must be in parentheses")
        while True:
            yield self._value()
            if (sign := self._take()) == ")":
                return
            if sign != ",":
                raise self._error("a set is not closed")

    def _value(self) -> str:
        value = "" if self._peek() in _SIGNS else self._take()
        if error := label_value_error(value):
            raise self._error(f"{value!r} is not a valid label value: {error}")
        return value

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _error(self, message: str) -> BadRequest:
        return BadRequest(f"label selector {self._text[:200]!r}: {message}; {_LABEL_SYNTAX}")


#: A path, an operator, and a value in which backslash, comma and equals sign are escaped by a backslash.
_FIELD_TERM = re.compile(r"\s*([^\s=!,\\]+)\s*(==|!=|=)((?:[^\\,=]|\\[\\,=])*)")


def _field_requirements(text: str) -> Iterator[FieldRequirement]:
    position = 0
    while position < len(text):
        term = _FIELD_TERM.match(text, position)
        if term is None or text[term.end() : term.end() + 1] not in ("", ","):
            raise BadRequest(f"field selector {text[:200]!r}: {_FIELD_SYNTAX}")
        path, sign, value = term.groups()
        yield FieldRequirement(path, re.sub(r"\\(.)", r"\1", value), equal=sign != "!=")
        position = term.end() + 1


def _text_at(obj: Mapping[str, Any], path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return ""
        value = value.get(part)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else ""
