"""Patterns of a podFailureSpec, which are matched against terminated pods."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from launcher.core.completion_codes import ContainerTermination
from launcher.core.failures.pod_termination import PodTermination, stored_end
from launcher.core.failures.regex import Regex

#: The matched texts by field, for the diagnostics.
MatchedFields = dict[str, Any]
Candidate = TypeVar("Candidate")


@dataclass(frozen=True, slots=True)
class Range:
    """An inclusive range of integers."""

    minimum: float
    maximum: float

    def __contains__(self, number: int) -> bool:
        return self.minimum <= number <= self.maximum


@dataclass(frozen=True, slots=True)
class ContainerPattern:
    """All given fields must match one container. Fields other than the name match only terminated containers."""

    name: Regex | None = None
    reason: Regex | None = None
    message: Regex | None = None
    signal: Range | None = None
    code: Range | None = None

    def match(self, termination: ContainerTermination) -> MatchedFields | None:
        """The matched fields, or None."""
        if self.code is not None and not (termination.terminated and termination.code in self.code):
            return None
        if self.signal is not None and not (termination.terminated and termination.signal in self.signal):
            return None
        if not termination.terminated and (self.reason is not None or self.message is not None):
            return None
        fields = _match_texts(
            ("name", self.name, termination.name),
            ("reason", self.reason, termination.reason),
            ("message", self.message, termination.message),
        )
        if fields is None:
            return None
        if self.signal is not None:
            fields["signal"] = termination.signal
        if self.code is not None:
            fields["code"] = termination.code
        return fields

    def may_match(self, termination: ContainerTermination) -> bool:
        """False when the exit code or the reason does not match."""
        return ContainerPattern(reason=self.reason, code=self.code).match(termination) is not None


@dataclass(frozen=True, slots=True)
class ConditionPattern:
    """All given fields must match one condition that is True."""

    type: Regex | None = None
    reason: Regex | None = None
    message: Regex | None = None

    def match(self, condition: Mapping[str, Any]) -> MatchedFields | None:
        """The matched fields, or None."""
        return _match_texts(
            ("type", self.type, condition.get("type") or ""),
            ("reason", self.reason, condition.get("reason") or ""),
            ("message", self.message, condition.get("message") or ""),
        )

    def may_match(self, condition: Mapping[str, Any]) -> bool:
        """False when the type does not match."""
        return ConditionPattern(type=self.type).match(condition) is not None


@dataclass(frozen=True, slots=True)
class PodPattern:
    """All given fields must match; each of *containers* and *conditions* must match any one."""

    name: Regex | None = None
    reason: Regex | None = None
    message: Regex | None = None
    containers: tuple[ContainerPattern, ...] = ()
    conditions: tuple[ConditionPattern, ...] = ()

    def may_match(self, termination: PodTermination) -> bool:
        """False when a part of ``failure_signature`` does not match."""
        return (
            (self.reason is None or self.reason.find(termination.reason) is not None)
            and all(any(map(pattern.may_match, termination.containers)) for pattern in self.containers)
            and all(any(map(pattern.may_match, termination.conditions)) for pattern in self.conditions)
        )

    def match(self, termination: PodTermination) -> MatchedFields | None:
        """The matched fields, or None."""
        fields = _match_texts(
            ("name", self.name, termination.name),
            ("reason", self.reason, termination.reason),
            ("message", self.message, termination.message),
        )
        if fields is None:
            return None
        if self.containers:
            containers = _match_each([pattern.match for pattern in self.containers], termination.containers)
            if containers is None:
                return None
            fields["containers"] = containers
        if self.conditions:
            conditions = _match_each([pattern.match for pattern in self.conditions], termination.conditions)
            if conditions is None:
                return None
            fields["conditions"] = conditions
        return fields


def failure_signature(termination: PodTermination) -> tuple[object, ...]:
    """The values that ``may_match`` uses. 100,000 pods have only about ten different ones."""
    containers = [(item.terminated, item.code, item.reason) for item in termination.containers]
    return (termination.reason, tuple([item.get("type") for item in termination.conditions]), *containers)


def _match_texts(*fields: tuple[str, Regex | None, str]) -> MatchedFields | None:
    """The non-empty matches of the expressions; None if one does not match."""
    matched = {}
    for name, regex, text in fields:
        if regex is None:
            continue
        text_match = regex.find(text)
        if text_match is None:
            return None
        if text_match:
            matched[name] = stored_end(text_match)
    return matched


def _match_each(
    matches: Iterable[Callable[[Candidate], MatchedFields | None]], candidates: Iterable[Candidate]
) -> list[MatchedFields] | None:
    """The first match of each pattern among *candidates*; None if one has none."""
    result = []
    for match in matches:
        first = next((fit for candidate in candidates if (fit := match(candidate)) is not None), None)
        if first is None:
            return None
        result.append(first)
    return result
