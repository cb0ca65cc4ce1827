"""Completions of failed pods: by the first rule that matches, or by the exit code of the container that failed last."""

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
)
from launcher.core.errors import BadRequest, Forbidden, InvalidObject, LauncherError, TooLarge
from launcher.core.failures.default_spec import DEFAULT_SPEC
from launcher.core.failures.patterns import ContainerPattern, PodPattern, Range, failure_signature
from launcher.core.failures.pod_termination import PodTermination, pod_termination, stored_start
from launcher.core.failures.regex import Regex
from launcher.core.failures.spec_parser import Rule, role_rules, rules_from_json
from launcher.core.serialization.completion_json import pod_to_json

_ANYTHING = Regex.compile("(?s).*")

#: Exit codes with which a program reports the type of its failure. They precede all other rules.
_CONTRACT = tuple(
    Rule(
        int(code),
        PREDEFINED[code].phrase,
        PREDEFINED[code].attributes,
        # Name and message always match; they are given to appear in the diagnostics.
        (
            PodPattern(
                containers=(ContainerPattern(name=_ANYTHING, message=_ANYTHING, code=Range(code, code)),)
            ),
        ),
        "predefined exit codes",
    )
    for code in (Code.CONTAINER_TRANSIENT, Code.CONTAINER_TRANSIENT_CONFLICT, Code.CONTAINER_PERMANENT)
)

#: Line breaks that JSON does not escape; diagnostics must be one line.
_LINE_BREAKS = {ord(character): f"\\u{ord(character):04x}" for character in "\x85\u2028\u2029"}

#: Parts of transient rejections: a full quota, a type that is not served yet, a new namespace without its service
#: account, missing rights of the launcher, and an API server whose admission plugins are not ready.
_TRANSIENT_ERRORS = (
    "exceeded quota",
    "object provided is unrecognized",
    "error looking up service account",
    'cannot create resource "pods"',
    "not yet ready to handle request",
)

#: Kinds of pod failure for which the candidate rules are cached, and roles with rules of their own.
_MAX_CACHED_SIGNATURES = 1024
_MAX_CACHED_ROLES = 256

#: The built-in rules.
DEFAULT_RULES = rules_from_json(DEFAULT_SPEC, "built-in rules")


class FailureClassifier:
    """Classifies failed pods: by the predefined exit codes, then by the rules of the role, then by its own rules."""

    __slots__ = ("_patterns", "_possible", "_roles", "_rules")

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.replace_rules(rules)

    @classmethod
    def from_json(cls, entries: Sequence[Any]) -> "FailureClassifier":
        """A classifier with the rules of a podFailureSpec. Raises InvalidObject with every error in it."""
        return cls(rules_from_json(entries))

    def replace_rules(self, rules: Sequence[Rule]) -> None:
        """Use *rules* for every pod that is classified from now on."""
        self._rules = tuple(rules)
        self._patterns = [(rule, pattern) for rule in (*_CONTRACT, *rules) for pattern in rule.patterns]
        self._possible: dict[tuple[object, ...], list[tuple[Rule, PodPattern]]] = {}
        self._roles: dict[bytes, FailureClassifier] = {}

    def for_role(self, entries: Sequence[Mapping[str, Any]]) -> "FailureClassifier":
        """The classifier for the pods of a role: the rules of its podFailureSpec come before these."""
        if not entries:
            return self
        key = orjson.dumps(entries)
        classifier = self._roles.get(key)
        if classifier is None:
            if len(self._roles) >= _MAX_CACHED_ROLES:
                self._roles.clear()
            classifier = self._roles[key] = FailureClassifier((*role_rules(entries), *self._rules))
        return classifier

    def classify(self, pod_status: Mapping[str, Any], pod_name: str) -> Completion:
        """The completion of a pod in phase Succeeded or Failed."""
        phase = pod_status.get("phase")
        termination = pod_termination(pod_status, pod_name)
        if phase == "Succeeded":
            return completion_for(Code.SUCCEEDED, "Pod succeeded", termination.detail)
        if phase != "Failed":
            raise ValueError(f"pod {pod_name} is not terminated: its phase is {phase}")
        for rule, pattern in self._candidates(termination):
            fields = pattern.match(termination)
            if fields is not None:
                diagnostics = f"Pod failed: PodPattern matched: {_one_line(fields)}"
                return interned(
                    Completion(
                        rule.code,
                        rule.phrase,
                        True,
                        rule.attributes,
                        diagnostics,
                        termination.detail,
                        rule.field,
                    )
                )
        return _unmatched(termination)

    def _candidates(self, termination: PodTermination) -> list[tuple[Rule, PodPattern]]:
        """
        The patterns that the pod may match, in order.

        Cached by the failure signature, which rules out almost all patterns.
        """
        key = failure_signature(termination)
        candidates = self._possible.get(key)
        if candidates is None:
            if len(self._possible) >= _MAX_CACHED_SIGNATURES:
                self._possible.clear()
            candidates = [
                (rule, pattern) for rule, pattern in self._patterns if pattern.may_match(termination)
            ]
            self._possible[key] = candidates
        return candidates


DEFAULT_CLASSIFIER = FailureClassifier(DEFAULT_RULES)


def creation_failure(error: LauncherError) -> Completion | None:
    """The completion of a task attempt whose pod creation failed with *error*; None if a retry may succeed."""
    text = str(error)
    if any(part in text for part in _TRANSIENT_ERRORS):
        return None
    if isinstance(error, BadRequest | Forbidden):
        return completion_for(Code.POD_CREATION_UNKNOWN_ERROR, stored_start(f"Pod creation rejected: {text}"))
    if isinstance(error, InvalidObject | TooLarge):
        return completion_for(
            Code.POD_CREATION_PERMANENT_ERROR, stored_start(f"Pod creation rejected: {text}")
        )
    return None


def _unmatched(termination: PodTermination) -> Completion:
    failed = [container for container in termination.containers if container.code]
    if not failed:
        return _unrecognized(Code.POD_FAILED_WITHOUT_FAILED_CONTAINER, termination.detail)
    # Of several with the same time, max returns the first.
    last = failed[0] if len(failed) == 1 else max(failed, key=lambda container: container.finished_at)
    return _unrecognized(last.code, termination.detail)


@lru_cache(maxsize=512)
def _unrecognized(code: int, detail: PodDetail) -> Completion:
    """The Completion of a pod that no pattern matches; cached, since this is the most common failure."""
    diagnostics = f"Pod failed: PodPattern unmatched: {_one_line(pod_to_json(detail))}"
    if code == Code.POD_FAILED_WITHOUT_FAILED_CONTAINER:
        return completion_for(code, diagnostics, detail)
    return Completion(code, UNRECOGNIZED, True, frozenset(), diagnostics, detail)


def _one_line(value: Mapping[str, Any]) -> str:
    text = orjson.dumps(value).decode()
    return text if text.isascii() else text.translate(_LINE_BREAKS)
