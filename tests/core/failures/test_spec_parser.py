"""Parsing a podFailureSpec."""

from typing import Any

import pytest

from launcher.core.completion_codes import Attribute
from launcher.core.errors import InvalidObject
from launcher.core.failures.patterns import ContainerPattern, PodPattern, Range
from launcher.core.failures.regex import ROLE_LIMITS
from launcher.core.failures.spec_parser import Rule, role_rule_errors, rules_from_json


def rule(code: object, *patterns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"code": code, "podPatterns": list(patterns), **more}


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        pytest.param(
            [rule(205, {})],
            ["podFailureSpec[0].code: Invalid value: 205: -999 to 0 and 200 to 219 are reserved"],
            id="G22 code 205",
        ),
        pytest.param(
            [rule(-5, {})],
            ["podFailureSpec[0].code: Invalid value: -5: -999 to 0 and 200 to 219 are reserved"],
            id="G22 code -5",
        ),
        pytest.param(
            [rule(300, {}), rule(300, {})],
            ["podFailureSpec[1].code: Duplicate value: 300"],
            id="G22 the same code twice",
        ),
        pytest.param(
            [{"podPatterns": [{}]}],
            ["podFailureSpec[0].code: Required value: must be a number that no other rule has"],
            id="no code",
        ),
        pytest.param(
            [rule(True, {}), rule("7", {})],
            [
                "podFailureSpec[0].code: Invalid value: True: must be an integer",
                "podFailureSpec[1].code: Invalid value: '7': must be an integer",
            ],
            id="codes that are no numbers",
        ),
        pytest.param(
            [rule(300)],
            ["podFailureSpec[0].podPatterns: Required value: must have at least one pattern"],
            id="no pattern",
        ),
        pytest.param(
            [rule(300, {"containers": [None]}), None],
            [
                "podFailureSpec[0].podPatterns[0].containers[0]: Required value: must be an object with nameRegex,"
                " reasonRegex, messageRegex, signalRange, codeRange",
                "podFailureSpec[1]: Required value: must be an object with code, phrase, type, podPatterns",
                "podFailureSpec[1].podPatterns: Required value: must have at least one pattern",
                "podFailureSpec[1].code: Required value: must be a number that no other rule has",
            ],
            id="nulls",
        ),
        pytest.param(
            [rule(300, {"reasonRegx": "x", "messageRegex": "("}, type={"name": "Succeeded"}, phrase=5)],
            [
                "podFailureSpec[0].type.name: Unsupported value: 'Succeeded': only Failed can be configured",
                "podFailureSpec[0].phrase: Invalid value: 5: must be a string",
                "podFailureSpec[0].podPatterns[0].reasonRegx: unknown field; supported fields: nameRegex,"
                " reasonRegex, messageRegex, containers, conditions",
                "podFailureSpec[0].podPatterns[0].messageRegex: Invalid value: '(': not a regular expression:"
                " missing ), unterminated subpattern at position 0",
            ],
            id="several errors at once",
        ),
        pytest.param(
            [rule(300, {"containers": [{"codeRange": {"min": 5, "max": 4}, "signalRange": {"min": "9"}}]})],
            [
                "podFailureSpec[0].podPatterns[0].containers[0].signalRange.min: Invalid value: '9': must be"
                " an integer",
                "podFailureSpec[0].podPatterns[0].containers[0].codeRange: Invalid value: 5 to 4: min must not"
                " be greater than max",
            ],
            id="ranges",
        ),
        pytest.param(
            [rule(300, {"conditions": [{"typeRegex": ["x"]}]}, type={"attributes": ["Transiant"]})],
            [
                "podFailureSpec[0].type.attributes[0]: Unsupported value: 'Transiant': must be one of Transient,"
                " Permanent, Conflict",
                "podFailureSpec[0].podPatterns[0].conditions[0].typeRegex: Invalid value: ['x']: must be a"
                " string",
            ],
            id="an attribute and a type that do not exist",
        ),
        pytest.param(
            [rule(300, {}, podPatterns={}), 7],
            [
                "podFailureSpec[0].podPatterns: Required value: must have at least one pattern",
                "podFailureSpec[0].podPatterns: Invalid value: must be a list",
                "podFailureSpec[1]: Invalid value: 7: must be an object with code, phrase, type, podPatterns",
                "podFailureSpec[1].podPatterns: Required value: must have at least one pattern",
                "podFailureSpec[1].code: Required value: must be a number that no other rule has",
            ],
            id="wrong shapes",
        ),
    ],
)
def test_every_error_in_the_rules_is_reported(entries: list[Any], problems: list[str]) -> None:
    with pytest.raises(InvalidObject) as caught:
        rules_from_json(entries)

    assert [str(problem) for problem in caught.value.errors] == problems


def test_null_fields_of_a_rule_mean_absent() -> None:
    pattern = {"nameRegex": None, "containers": None, "conditions": None}
    entry = rule(300, pattern, phrase=None, type={"name": None, "attributes": None})

    assert rules_from_json([entry]) == (Rule(300, "", frozenset(), (PodPattern(),)),)


def test_a_range_with_one_bound_is_half_open_and_without_bounds_absent() -> None:
    patterns = [{"codeRange": {"min": 3}, "signalRange": {}}, {"codeRange": {"min": None, "max": -1}}]

    (parsed,) = rules_from_json([rule(300, {"containers": patterns}, type={"attributes": ["Conflict"]})])

    assert parsed.attributes == {Attribute.CONFLICT}
    assert parsed.patterns[0].containers == (
        ContainerPattern(code=Range(3, float("inf"))),
        ContainerPattern(code=Range(float("-inf"), -1)),
    )


def test_a_number_without_a_fraction_is_an_integer() -> None:
    (parsed,) = rules_from_json([rule(300.0, {"containers": [{"codeRange": {"min": 3.0, "max": 4}}]})])

    assert parsed == Rule(
        300, "", frozenset(), (PodPattern(containers=(ContainerPattern(code=Range(3, 4)),)),)
    )


def test_a_role_has_a_maximum_number_of_regular_expressions() -> None:
    patterns = [{"messageRegex": f"error {number}"} for number in range(ROLE_LIMITS.max_patterns + 1)]

    (error,) = role_rule_errors([rule(300, *patterns)], "spec.taskRoles[0].task.podFailureSpec")

    assert error.field == "spec.taskRoles[0].task.podFailureSpec"
    assert "at most 20 regular expressions" in error.message
    assert not role_rule_errors([rule(300, *patterns[1:])], "podFailureSpec")
    assert rules_from_json([rule(300, *patterns)])
