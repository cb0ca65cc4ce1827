"""Parses a podFailureSpec, in FrameworkController's format, into rules, or reports every error in it."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from launcher.core.completion_codes import Attribute, Attributes, is_reserved
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.failures.patterns import ConditionPattern, ContainerPattern, PodPattern, Range
from launcher.core.failures.regex import CLUSTER_LIMITS, ROLE_LIMITS, Regex, RegexLimits

Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class Rule:
    """A failed pod that matches one of *patterns* completes its attempt with this code."""

    code: int
    phrase: str
    attributes: Attributes
    patterns: tuple[PodPattern, ...]
    #: Where the rule is defined: ``podFailureSpec[0]``.
    field: str = dataclasses.field(default="", compare=False)


def rules_from_json(
    entries: Sequence[Any], field: str = "podFailureSpec", limits: RegexLimits = CLUSTER_LIMITS
) -> tuple[Rule, ...]:
    """The rules in their order. Raises InvalidObject with every error in *entries*."""
    rules, errors = _parse(entries, field, limits)
    if errors:
        raise InvalidObject(errors)
    return rules


def role_rules(entries: Sequence[Any]) -> tuple[Rule, ...]:
    """The rules of a task role. Raises InvalidObject with every error in *entries*."""
    return rules_from_json(entries, "task.podFailureSpec", ROLE_LIMITS)


def role_rule_errors(entries: object, field: str) -> tuple[FieldError, ...]:
    """Every error in the podFailureSpec of a task role, which is at *field*."""
    return _parse(entries, field, ROLE_LIMITS)[1]


def _parse(
    entries: object, field: str, limits: RegexLimits
) -> tuple[tuple[Rule, ...], tuple[FieldError, ...]]:
    parser = _SpecParser(limits)
    rules = parser.parse_list(entries, field, _SpecParser.rule)
    if parser.patterns > limits.max_patterns:
        parser.reject(
            field,
            f"Too many: {parser.patterns}: must have at most {limits.max_patterns} regular expressions",
        )
    return rules, tuple(parser.errors)


class _SpecParser:
    """Continues after an error, to report all of them; its result is used only if there was none."""

    def __init__(self, limits: RegexLimits) -> None:
        self.errors: list[FieldError] = []
        self.patterns = 0
        self._limits = limits
        self._codes: set[int] = set()

    def rule(self, entry: object, field: str) -> Rule:
        fields = self._members(entry, field, "code", "phrase", "type", "podPatterns")
        kind = self._members(fields.get("type"), f"{field}.type", "name", "attributes", optional=True)
        if kind.get("name") not in (None, "Failed"):
            self.reject(
                f"{field}.type.name", f"Unsupported value: {kind['name']!r}: only Failed can be configured"
            )
        if not fields.get("podPatterns"):
            self._required(f"{field}.podPatterns", "must have at least one pattern")
        return Rule(
            self._code(fields.get("code"), f"{field}.code"),
            self._text(fields.get("phrase"), f"{field}.phrase"),
            frozenset(
                self.parse_list(kind.get("attributes"), f"{field}.type.attributes", _SpecParser._attribute)
            ),
            self.parse_list(fields.get("podPatterns"), f"{field}.podPatterns", _SpecParser._pod),
            field,
        )

    def parse_list(
        self, values: object, field: str, parse: "Callable[[_SpecParser, object, str], Parsed]"
    ) -> tuple[Parsed, ...]:
        if values is None:
            return ()
        if not isinstance(values, list | tuple):
            self.reject(field, "Invalid value: must be a list")
            return ()
        return tuple(parse(self, value, f"{field}[{number}]") for number, value in enumerate(values))

    def _code(self, code: object, field: str) -> int:
        if code is None:
            self._required(field, "must be a number that no other rule has")
            return 0
        number = self._integer(code, field)
        if number is None:
            return 0
        if is_reserved(number):
            self.reject(field, f"Invalid value: {number}: -999 to 0 and 200 to 219 are reserved")
        elif number in self._codes:
            self.errors.append(FieldError(field, f"Duplicate value: {number}", "FieldValueDuplicate"))
        self._codes.add(number)
        return number

    def _attribute(self, name: object, field: str) -> Attribute:
        try:
            return Attribute(str(name))
        except ValueError:
            self.reject(field, f"Unsupported value: {name!r}: must be one of {', '.join(Attribute)}")
            return Attribute.TRANSIENT

    def _pod(self, pattern: object, field: str) -> PodPattern:
        fields = self._members(
            pattern, field, "nameRegex", "reasonRegex", "messageRegex", "containers", "conditions"
        )
        return PodPattern(
            name=self._regex(fields, field, "nameRegex"),
            reason=self._regex(fields, field, "reasonRegex"),
            message=self._regex(fields, field, "messageRegex"),
            containers=self.parse_list(
                fields.get("containers"), f"{field}.containers", _SpecParser._container
            ),
            conditions=self.parse_list(
                fields.get("conditions"), f"{field}.conditions", _SpecParser._condition
            ),
        )

    def _container(self, pattern: object, field: str) -> ContainerPattern:
        fields = self._members(
            pattern, field, "nameRegex", "reasonRegex", "messageRegex", "signalRange", "codeRange"
        )
        return ContainerPattern(
            name=self._regex(fields, field, "nameRegex"),
            reason=self._regex(fields, field, "reasonRegex"),
            message=self._regex(fields, field, "messageRegex"),
            signal=self._range(fields.get("signalRange"), f"{field}.signalRange"),
            code=self._range(fields.get("codeRange"), f"{field}.codeRange"),
        )

    def _condition(self, pattern: object, field: str) -> ConditionPattern:
        fields = self._members(pattern, field, "typeRegex", "reasonRegex", "messageRegex")
        return ConditionPattern(
            type=self._regex(fields, field, "typeRegex"),
            reason=self._regex(fields, field, "reasonRegex"),
            message=self._regex(fields, field, "messageRegex"),
        )

    def _regex(self, fields: Mapping[str, Any], field: str, name: str) -> Regex | None:
        if fields.get(name) is None:
            return None
        text = self._text(fields[name], f"{field}.{name}")
        self.patterns += 1
        try:
            return Regex.compile(text, self._limits)
        except InvalidObject as error:
            self.reject(f"{field}.{name}", f"Invalid value: {text!r}: {error}")
            return None

    def _range(self, bounds: object, field: str) -> Range | None:
        fields = self._members(bounds, field, "min", "max", optional=True)
        minimum = self._integer(fields.get("min"), f"{field}.min")
        maximum = self._integer(fields.get("max"), f"{field}.max")
        if minimum is None and maximum is None:
            return None
        if minimum is not None and maximum is not None and minimum > maximum:
            self.reject(field, f"Invalid value: {minimum} to {maximum}: min must not be greater than max")
        return Range(-inf if minimum is None else minimum, inf if maximum is None else maximum)

    def _integer(self, value: object, field: str) -> int | None:
        # As elsewhere in a Framework, 1.0 is the integer 1.
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        self.reject(field, f"Invalid value: {value!r}: must be an integer")
        return None

    def _text(self, text: object, field: str) -> str:
        if text is None:
            return ""
        if not isinstance(text, str):
            self.reject(field, f"Invalid value: {text!r}: must be a string")
            return ""
        return text

    def _members(self, value: object, field: str, *names: str, optional: bool = False) -> Mapping[str, Any]:
        if value is None and optional:
            return {}
        if value is None:
            self._required(field, f"must be an object with {', '.join(names)}")
            return {}
        if not isinstance(value, Mapping):
            self.reject(field, f"Invalid value: {value!r}: must be an object with {', '.join(names)}")
            return {}
        # Without its misspelled field, a pattern would match more pods than intended.
        for name in value:
            if name not in names:
                self.reject(f"{field}.{name}", f"unknown field; supported fields: {', '.join(names)}")
        return value

    def _required(self, field: str, must: str) -> None:
        self.errors.append(FieldError(field, f"Required value: {must}", "FieldValueRequired"))

    def reject(self, field: str, message: str) -> None:
        self.errors.append(FieldError(field, message))
