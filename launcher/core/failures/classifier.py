"""What the end of a pod means: the first rule that fits, or the exit code of the container that failed last."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from launcher.core.completion_codes import (
    PREDEFINED,
    UNRECOGNIZED,
    Code,
    Completion,
    PodDetail,
    completion_for,
    interned,
    pod_to_json,
)
from launcher.core.errors import BadRequest, Forbidden, InvalidObject, LauncherError, TooLarge
from launcher.core.failures.default_spec import DEFAULT_SPEC
from launcher.core.failures.patterns import ContainerPattern, PodPattern, Range, failure_signature
from launcher.core.failures.pod_termination import PodTermination, beginning, pod_end
from launcher.core.failures.regex import Regex
from launcher.core.failures.spec_parser import Rule, rules_from_json

_ANYTHING = Regex.of("(?s).*")

#: Exit codes by which a program tells the launcher what its failure means. They stand before all other rules.
_CONTRACT = tuple(
    Rule(
        int(code),
        PREDEFINED[code].phrase,
        PREDEFINED[code].attributes,
        # Name and message fit in any case; they are named to be found in the diagnostics.
        (
            PodPattern(
                containers=(ContainerPattern(name=_ANYTHING, message=_ANYTHING, code=Range(code, code)),)
            ),
        ),
    )
    for code in (Code.CONTAINER_TRANSIENT, Code.CONTAINER_TRANSIENT_CONFLICT, Code.CONTAINER_PERMANENT)
)

#: Line breaks that JSON leaves as they are; diagnostics are one line for every reader.
_LINE_BREAKS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}

#: Words of a refusal that time heals: quota is given back, a type becomes known, a new namespace gets its account, the
#: launcher its rights, and an API server that has just started what it checks pods by.
_PASSES = (
    "exceeded quota",
    "object provided is unrecognized",
    "error looking up service account",
    'cannot create resource "pods"',
    "not yet ready to handle request",
)

#: For how many ways to end the answer is remembered.
_REMEMBERED = 1024


class FailureClassifier:
    """The rules of one configuration, compiled; new configuration is a new value."""

    __slots__ = ("_patterns", "_possible")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._patterns = [(rule, pattern) for rule in (*_CONTRACT, *rules) for pattern in rule.patterns]
        self._possible: dict[tuple[object, ...], list[tuple[Rule, PodPattern]]] = {}

    @classmethod
    def of(cls, entries: Sequence[Any]) -> "FailureClassifier":
        """The rules of a podFailureSpec, in its order. Raises InvalidObject with everything that is wrong."""
        return cls(rules_from_json(entries))

    def classify(self, pod_status: Mapping[str, Any], pod_name: str) -> Completion:
        """How a pod ended whose phase is Succeeded or Failed."""
        phase = pod_status.get("phase")
        end = pod_end(pod_status, pod_name)
        if phase == "Succeeded":
            return completion_for(Code.SUCCEEDED, "Pod succeeded", end.detail)
        if phase != "Failed":
            raise ValueError(f"pod {pod_name} has not ended: its phase is {phase}")
        for rule, pattern in self._candidates(end):
            found = pattern.match(end)
            if found is not None:
                diagnostics = f"Pod failed: PodPattern matched: {_one_line(found)}"
                return interned(
                    Completion(rule.code, rule.phrase, True, rule.attributes, diagnostics, end.detail)
                )
        return _unmatched(end)

    def _candidates(self, end: PodTermination) -> list[tuple[Rule, PodPattern]]:
        """
        The patterns that the pod may match, in their order.

        Answers are remembered by the way in which a pod ended, and leave next to nothing to look at.
        """
        key = failure_signature(end)
        known = self._possible.get(key)
        if known is None:
            if len(self._possible) >= _REMEMBERED:
                self._possible.clear()
            known = [(rule, pattern) for rule, pattern in self._patterns if pattern.may_match(end)]
            self._possible[key] = known
        return known


#: What holds when the admin gives no rules.
DEFAULT_RULES = FailureClassifier.of(DEFAULT_SPEC)


def creation_failure(error: LauncherError) -> Completion | None:
    """How a task attempt ends whose pod was turned down with *error*; None if the same call may yet succeed."""
    text = str(error)
    if any(words in text for words in _PASSES):
        return None
    if isinstance(error, BadRequest | Forbidden):
        return completion_for(Code.POD_CREATION_UNKNOWN_ERROR, beginning(f"Pod creation refused: {text}"))
    if isinstance(error, InvalidObject | TooLarge):
        return completion_for(Code.POD_CREATION_PERMANENT_ERROR, beginning(f"Pod creation refused: {text}"))
    return None


def _unmatched(end: PodTermination) -> Completion:
    failed = [container for container in end.containers if container.code]
    if not failed:
        return _unrecognized(Code.POD_FAILED_WITHOUT_FAILED_CONTAINER, end.detail)
    # Of several with the same time the first one counts, which is what max returns.
    last = failed[0] if len(failed) == 1 else max(failed, key=lambda container: container.finished_at)
    return _unrecognized(last.code, end.detail)


@lru_cache(maxsize=512)
def _unrecognized(code: int, detail: PodDetail) -> Completion:
    """The Completion of a pod that no pattern fits; remembered, because it is the most common failure of all."""
    diagnostics = f"Pod failed: PodPattern unmatched: {_one_line(pod_to_json(detail))}"
    if code == Code.POD_FAILED_WITHOUT_FAILED_CONTAINER:
        return completion_for(code, diagnostics, detail)
    return Completion(code, UNRECOGNIZED, True, frozenset(), diagnostics, detail)


def _one_line(value: Mapping[str, Any]) -> str:
    text = orjson.dumps(value).decode()
    return text if text.isascii() else text.translate(_LINE_BREAKS)
