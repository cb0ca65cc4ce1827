"""A podFailureSpec out of configuration data: which end of a pod means what, or all that is wrong with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeGuard, TypeVar

from launcher.core.completion_codes import Attribute, Attributes, is_reserved
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.failures.patterns import ConditionPattern, ContainerPattern, PodPattern, Range
from launcher.core.failures.regex import Regex

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class Rule:
    """A pod whose end fits one of *patterns* has failed with this code."""

    code: int
    phrase: str
    attributes: Attributes
    patterns: tuple[PodPattern, ...]


def rules_from_json(entries: Sequence[Any]) -> tuple[Rule, ...]:
    """The rules in their order. Raises InvalidObject with everything that is wrong."""
    reader = _Reader()
    rules = reader.each(entries, "podFailureSpec", _Reader.rule)
    if reader.problems:
        raise InvalidObject(tuple(reader.problems))
    return rules


class _Reader:
    """Reads on after a problem, so that all are told at once; what it returns then is only to go on with."""

    def __init__(self) -> None:
        self.problems: list[FieldError] = []
        self._codes: set[int] = set()

    def rule(self, entry: object, field: str) -> Rule:
        given = self._members(entry, field, "code", "phrase", "type", "podPatterns")
        kind = self._members(given.get("type"), f"{field}.type", "name", "attributes", optional=True)
        if kind.get("name") not in (None, "Failed"):
            self._tell(
                f"{field}.type.name", f"Unsupported value: {kind['name']!r}: only Failed can be configured"
            )
        if not given.get("podPatterns"):
            self._required(f"{field}.podPatterns", "at least one pattern")
        return Rule(
            self._code(given.get("code"), f"{field}.code"),
            self._text(given.get("phrase"), f"{field}.phrase"),
            frozenset(self.each(kind.get("attributes"), f"{field}.type.attributes", _Reader._attribute)),
            self.each(given.get("podPatterns"), f"{field}.podPatterns", _Reader._pod),
        )

    def each(
        self, values: object, field: str, read: "Callable[[_Reader, object, str], Read]"
    ) -> tuple[Read, ...]:
        if values is None:
            return ()
        if not isinstance(values, list | tuple):
            self._tell(field, "Invalid value: must be a list")
            return ()
        return tuple(read(self, value, f"{field}[{number}]") for number, value in enumerate(values))

    def _code(self, code: object, field: str) -> int:
        if code is None:
            self._required(field, "a number that no other rule has")
        elif not _is_int(code):
            self._tell(field, f"Invalid value: {code!r}: must be a whole number")
        elif is_reserved(code):
            self._tell(field, f"Invalid value: {code}: -999 to 0 and 200 to 219 are the launcher's own")
        elif code in self._codes:
            self.problems.append(FieldError(field, f"Duplicate value: {code}", "FieldValueDuplicate"))
        else:
            self._codes.add(code)
            return code
        return 0

    def _attribute(self, name: object, field: str) -> Attribute:
        try:
            return Attribute(str(name))
        except ValueError:
            self._tell(field, f"Unsupported value: {name!r}: must be one of {', '.join(Attribute)}")
            return Attribute.TRANSIENT

    def _pod(self, pattern: object, field: str) -> PodPattern:
        given = self._members(
            pattern, field, "nameRegex", "reasonRegex", "messageRegex", "containers", "conditions"
        )
        return PodPattern(
            name=self._regex(given, field, "nameRegex"),
            reason=self._regex(given, field, "reasonRegex"),
            message=self._regex(given, field, "messageRegex"),
            containers=self.each(given.get("containers"), f"{field}.containers", _Reader._container),
            conditions=self.each(given.get("conditions"), f"{field}.conditions", _Reader._condition),
        )

    def _container(self, pattern: object, field: str) -> ContainerPattern:
        given = self._members(
            pattern, field, "nameRegex", "reasonRegex", "messageRegex", "signalRange", "codeRange"
        )
        return ContainerPattern(
            name=self._regex(given, field, "nameRegex"),
            reason=self._regex(given, field, "reasonRegex"),
            message=self._regex(given, field, "messageRegex"),
            signal=self._range(given.get("signalRange"), f"{field}.signalRange"),
            code=self._range(given.get("codeRange"), f"{field}.codeRange"),
        )

    def _condition(self, pattern: object, field: str) -> ConditionPattern:
        given = self._members(pattern, field, "typeRegex", "reasonRegex", "messageRegex")
        return ConditionPattern(
            type=self._regex(given, field, "typeRegex"),
            reason=self._regex(given, field, "reasonRegex"),
            message=self._regex(given, field, "messageRegex"),
        )

    def _regex(self, given: Mapping[str, Any], field: str, name: str) -> Regex | None:
        if given.get(name) is None:
            return None
        text = self._text(given[name], f"{field}.{name}")
        try:
            return Regex.of(text)
        except InvalidObject as error:
            self._tell(f"{field}.{name}", f"Invalid value: {text!r}: {error}")
            return None

    def _range(self, bounds: object, field: str) -> Range | None:
        given = self._members(bounds, field, "min", "max", optional=True)
        least = self._bound(given.get("min"), f"{field}.min")
        most = self._bound(given.get("max"), f"{field}.max")
        if least is None and most is None:
            return None
        if least is not None and most is not None and least > most:
            self._tell(field, f"Invalid value: {least} to {most}: min must not be above max")
        return Range(-inf if least is None else least, inf if most is None else most)

    def _bound(self, bound: object, field: str) -> int | None:
        if bound is None or _is_int(bound):
            return bound
        self._tell(field, f"Invalid value: {bound!r}: must be a whole number")
        return None

    def _text(self, text: object, field: str) -> str:
        if text is None:
            return ""
        if not isinstance(text, str):
            self._tell(field, f"Invalid value: {text!r}: must be a string")
            return ""
        return text

    def _members(self, value: object, field: str, *known: str, optional: bool = False) -> Mapping[str, Any]:
        if value is None and optional:
            return {}
        if value is None:
            self._required(field, f"with {', '.join(known)}")
            return {}
        if not isinstance(value, Mapping):
            self._tell(field, f"Invalid value: {value!r}: must have {', '.join(known)}")
            return {}
        # A misspelt field would leave a pattern that fits more than was meant.
        for name in value:
            if name not in known:
                self._tell(f"{field}.{name}", f"unknown field; there are {', '.join(known)}")
        return value

    def _required(self, field: str, what: str) -> None:
        self.problems.append(FieldError(field, f"Required value: {what}", "FieldValueRequired"))

    def _tell(self, field: str, message: str) -> None:
        self.problems.append(FieldError(field, message))


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
