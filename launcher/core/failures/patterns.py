"""Patterns of a podFailureSpec: whether the end of a pod fits, and which part of it did."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from launcher.core.failures.pod_termination import ContainerEnd, PodTermination, ending
from launcher.core.failures.regex import Regex

#: What a pattern found, by the fields that it names: part of the diagnostics of a failure.
Found = dict[str, Any]
Seen = TypeVar("Seen")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from *least* to *most*, both included."""

    least: float
    most: float

    def __contains__(self, number: int) -> bool:
        return self.least <= number <= self.most


@dataclass(frozen=True, slots=True)
class ContainerPattern:
    """All that is given must fit one container. All but its name is known only once it has terminated."""

    name: Regex | None = None
    reason: Regex | None = None
    message: Regex | None = None
    signal: Range | None = None
    code: Range | None = None

    def match(self, end: ContainerEnd) -> Found | None:
        """What fits, or None."""
        if self.code is not None and not (end.terminated and end.code in self.code):
            return None
        if self.signal is not None and not (end.terminated and end.signal in self.signal):
            return None
        if not end.terminated and (self.reason is not None or self.message is not None):
            return None
        found = _texts(
            ("name", self.name, end.name),
            ("reason", self.reason, end.reason),
            ("message", self.message, end.message),
        )
        if found is None:
            return None
        if self.signal is not None:
            found["signal"] = end.signal
        if self.code is not None:
            found["code"] = end.code
        return found

    def may_match(self, end: ContainerEnd) -> bool:
        """False when exit code and reason alone rule it out."""
        return ContainerPattern(reason=self.reason, code=self.code).match(end) is not None


@dataclass(frozen=True, slots=True)
class ConditionPattern:
    """All that is given must fit one condition that holds."""

    type: Regex | None = None
    reason: Regex | None = None
    message: Regex | None = None

    def match(self, condition: Mapping[str, Any]) -> Found | None:
        """What fits, or None."""
        return _texts(
            ("type", self.type, condition.get("type") or ""),
            ("reason", self.reason, condition.get("reason") or ""),
            ("message", self.message, condition.get("message") or ""),
        )

    def may_match(self, condition: Mapping[str, Any]) -> bool:
        """False when the type alone rules it out."""
        return ConditionPattern(type=self.type).match(condition) is not None


@dataclass(frozen=True, slots=True)
class PodPattern:
    """All that is given must fit; each part finds a container or condition of its own choice."""

    name: Regex | None = None
    reason: Regex | None = None
    message: Regex | None = None
    containers: tuple[ContainerPattern, ...] = ()
    conditions: tuple[ConditionPattern, ...] = ()

    def may_match(self, end: PodTermination) -> bool:
        """False when what all pods that end in this way have in common rules it out: see ``way``."""
        return (
            (self.reason is None or self.reason.find(end.reason) is not None)
            and all(any(map(pattern.may_match, end.containers)) for pattern in self.containers)
            and all(any(map(pattern.may_match, end.conditions)) for pattern in self.conditions)
        )

    def match(self, end: PodTermination) -> Found | None:
        """What fits, or None."""
        found = _texts(
            ("name", self.name, end.name),
            ("reason", self.reason, end.reason),
            ("message", self.message, end.message),
        )
        if found is None:
            return None
        if self.containers:
            containers = _each([pattern.match for pattern in self.containers], end.containers)
            if containers is None:
                return None
            found["containers"] = containers
        if self.conditions:
            conditions = _each([pattern.match for pattern in self.conditions], end.conditions)
            if conditions is None:
                return None
            found["conditions"] = conditions
        return found


def failure_signature(end: PodTermination) -> tuple[object, ...]:
    """What ``may_match`` looks at. There are few ways to end: a hundred thousand pods use some ten of them."""
    containers = [(one.terminated, one.code, one.reason) for one in end.containers]
    return (end.reason, tuple([one.get("type") for one in end.conditions]), *containers)


def _texts(*fields: tuple[str, Regex | None, str]) -> Found | None:
    """What each expression finds in its text, where that is not empty; None if one finds nothing."""
    found = {}
    for name, regex, text in fields:
        if regex is None:
            continue
        part = regex.find(text)
        if part is None:
            return None
        if part:
            found[name] = ending(part)
    return found


def _each(matches: Iterable[Callable[[Seen], Found | None]], seen: Iterable[Seen]) -> list[Found] | None:
    """For every match the first of *seen* that fits; None if one finds none."""
    found = []
    for match in matches:
        first = next((fit for one in seen if (fit := match(one)) is not None), None)
        if first is None:
            return None
        found.append(first)
    return found
