"""A podFailureSpec out of configuration data."""

from typing import Any

import pytest

from launcher.core.completion_codes import Attribute
from launcher.core.errors import InvalidObject
from launcher.core.failures.patterns import ContainerPattern, PodPattern, Range
from launcher.core.failures.spec_parser import Rule, rules_from_json


def rule(code: object, *patterns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"code": code, "podPatterns": list(patterns), **more}


@pytest.mark.parametrize(
    ("entries", "problems"),
    [
        pytest.param(
            [rule(205, {})],
            ["podFailureSpec[0].code: Invalid value: 205: -999 to 0 and 200 to 219 are the launcher's own"],
            id="G22 code 205",
        ),
        pytest.param(
            [rule(-5, {})],
            ["podFailureSpec[0].code: Invalid value: -5: -999 to 0 and 200 to 219 are the launcher's own"],
            id="G22 code -5",
        ),
        pytest.param(
            [rule(300, {}), rule(300, {})],
            ["podFailureSpec[1].code: Duplicate value: 300"],
            id="G22 the same code twice",
        ),
        pytest.param(
            [{"podPatterns": [{}]}],
            ["podFailureSpec[0].code: Required value: a number that no other rule has"],
            id="no code",
        ),
        pytest.param(
            [rule(True, {}), rule("7", {})],
            [
                "podFailureSpec[0].code: Invalid value: True: must be a whole number",
                "podFailureSpec[1].code: Invalid value: '7': must be a whole number",
            ],
            id="codes that are no numbers",
        ),
        pytest.param(
            [rule(300)],
            ["podFailureSpec[0].podPatterns: Required value: at least one pattern"],
            id="no pattern",
        ),
        pytest.param(
            [rule(300, {"containers": [None]}), None],
            [
                "podFailureSpec[0].podPatterns[0].containers[0]: Required value: with nameRegex, reasonRegex,"
                " messageRegex, signalRange, codeRange",
                "podFailureSpec[1]: Required value: with code, phrase, type, podPatterns",
                "podFailureSpec[1].podPatterns: Required value: at least one pattern",
                "podFailureSpec[1].code: Required value: a number that no other rule has",
            ],
            id="nulls",
        ),
        pytest.param(
            [rule(300, {"reasonRegx": "x", "messageRegex": "("}, type={"name": "Succeeded"}, phrase=5)],
            [
                "podFailureSpec[0].type.name: Unsupported value: 'Succeeded': only Failed can be configured",
                "podFailureSpec[0].phrase: Invalid value: 5: must be a string",
                "podFailureSpec[0].podPatterns[0].reasonRegx: unknown field; there are nameRegex, reasonRegex,"
                " messageRegex, containers, conditions",
                "podFailureSpec[0].podPatterns[0].messageRegex: Invalid value: '(': not a regular expression:"
                " missing ), unterminated subpattern at position 0",
            ],
            id="several at once",
        ),
        pytest.param(
            [rule(300, {"containers": [{"codeRange": {"min": 5, "max": 4}, "signalRange": {"min": "9"}}]})],
            [
                "podFailureSpec[0].podPatterns[0].containers[0].signalRange.min: Invalid value: '9': must be a"
                " whole number",
                "podFailureSpec[0].podPatterns[0].containers[0].codeRange: Invalid value: 5 to 4: min must not"
                " be above max",
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
                "podFailureSpec[0].podPatterns: Required value: at least one pattern",
                "podFailureSpec[0].podPatterns: Invalid value: must be a list",
                "podFailureSpec[1]: Invalid value: 7: must have code, phrase, type, podPatterns",
                "podFailureSpec[1].podPatterns: Required value: at least one pattern",
                "podFailureSpec[1].code: Required value: a number that no other rule has",
            ],
            id="wrong shapes",
        ),
    ],
)
def test_bad_rules_are_refused_with_everything_that_is_wrong(entries: list[Any], problems: list[str]) -> None:
    with pytest.raises(InvalidObject) as refused:
        rules_from_json(entries)

    assert [str(problem) for problem in refused.value.errors] == problems


def test_null_fields_of_a_rule_mean_absent() -> None:
    pattern = {"nameRegex": None, "containers": None, "conditions": None}
    entry = rule(300, pattern, phrase=None, type={"name": None, "attributes": None})

    assert rules_from_json([entry]) == (Rule(300, "", frozenset(), (PodPattern(),)),)


def test_a_missing_bound_is_open_and_two_are_no_range_at_all() -> None:
    patterns = [{"codeRange": {"min": 3}, "signalRange": {}}, {"codeRange": {"min": None, "max": -1}}]

    (read,) = rules_from_json([rule(300, {"containers": patterns}, type={"attributes": ["Conflict"]})])

    assert read.attributes == {Attribute.CONFLICT}
    assert read.patterns[0].containers == (
        ContainerPattern(code=Range(3, float("inf"))),
        ContainerPattern(code=Range(float("-inf"), -1)),
    )
