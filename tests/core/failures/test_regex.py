"""Regular expressions of a podFailureSpec."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import InvalidObject
from launcher.core.failures.regex import ROLE_LIMITS, Regex


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        pytest.param("b+", "abbc", "bb", id="anywhere in the text"),
        pytest.param("^b", "abb", None, id="anchored"),
        pytest.param("(?i)oom", "the OOM killer", "OOM", id="flags at the start"),
        pytest.param("out of (?i:MEMORY)", "out of memory", "out of memory", id="flags of a group"),
        pytest.param("(?s)a.*z", "a\nz", "a\nz", id="a dot over lines"),
        pytest.param("(foo|bar) (?P<what>lost)", "bar lost", "bar lost", id="choice and named group"),
        pytest.param("(?:ab)+c", "xababc", "ababc", id="a repeated group of fixed text"),
        pytest.param("(?:ab){2}c{1,3}", "ababcc", "ababcc", id="bounded repeats"),
        pytest.param(r"(\d+)?ms", "15ms", "15ms", id="an optional group may repeat inside"),
        pytest.param(r"[*+(|)]+\(\*", "++(*", "++(*", id="signs in a set and escaped"),
        pytest.param("a{b}", "a{b}", "a{b}", id="braces that count nothing"),
        pytest.param("", "text", "", id="nothing is found everywhere"),
    ],
)
def test_a_pattern_is_searched(pattern: str, text: str, found: str | None) -> None:
    assert Regex.compile(pattern).find(text) == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        pytest.param("(a+)+b", "contains a repeat", id="a repeat in a repeat"),
        pytest.param("((a*)x)*", "contains a repeat", id="deeper"),
        pytest.param("(?:a{2,}){3}", "contains a repeat", id="counted"),
        pytest.param("(a?){40}", "contains a repeat", id="an option in a repeat"),
        pytest.param(r"(.|\n)*x", "contains a repeat or a choice", id="a choice in a repeat"),
        pytest.param("((a|b)c)+", "contains a repeat or a choice", id="a choice deeper in a repeat"),
        pytest.param("a.*b.*c.*d", "has 3 open repeats", id="too many repeats"),
        pytest.param("a.{0,500}b.+c.+d", "has 3 open repeats", id="a wide range counts as open"),
        pytest.param("(?:a|a)" * 40 + "b", "too many optional parts", id="choices in a row"),
        pytest.param("a?" * 40 + "a" * 40, "too many optional parts", id="optional parts in a row"),
        pytest.param("(?:ab?c?|d)?" * 20, "too many optional parts", id="optional groups in a row"),
        pytest.param("a" * 20_000, "the maximum is 16384", id="a long pattern"),
        pytest.param("(?=a)b", "not part of the RE2 syntax", id="looking ahead"),
        pytest.param("(?<!a)b", "not part of the RE2 syntax", id="looking behind"),
        pytest.param(r"(a)\1", "not part of the RE2 syntax", id="a reference back"),
        pytest.param("(?P<x>a)(?P=x)", "not part of the RE2 syntax", id="a named reference back"),
        pytest.param("(?>a)", "not part of the RE2 syntax", id="an atomic group"),
        pytest.param("a++", "not part of the RE2 syntax", id="a possessive repeat"),
        pytest.param("(?x) a", "flags are none of i, m and s", id="another flag"),
        pytest.param("[[:alpha:]]", "write", id="a POSIX class"),
        pytest.param("a(?i)b", "not a regular expression", id="flags in the middle"),
        pytest.param("a{99999999999}", "not a regular expression", id="a number too large"),
        pytest.param("(" * 50, "not a regular expression", id="open groups"),
        pytest.param("a)", "not a regular expression", id="a group too much"),
        pytest.param("[a||b]", "not a regular expression", id="a set that may change its meaning"),
        pytest.param("[a", "not a regular expression", id="an open set"),
    ],
)
def test_a_pattern_is_rejected(pattern: str, message: str) -> None:
    with pytest.raises(InvalidObject, match=message):
        Regex.compile(pattern)


def test_a_pattern_with_two_unbounded_repeats_searches_only_the_end_of_a_text() -> None:
    padding = "x" * 2000

    assert Regex.compile("a.*b").find("a" + padding + "b") is not None
    assert Regex.compile("a.*b.*c").find("a" + padding + "bc") is None
    assert Regex.compile("a.*b.*c").find(padding + "abc") == "abc"


def test_an_unbounded_repeat_at_the_end_is_not_counted() -> None:
    regex = Regex.compile("(?msi)tensorflow.*ResourceExhausted.*OOM.*")

    assert regex.find("TensorFlow\nResourceExhausted: OOM when allocating") is not None


def test_a_pattern_may_have_many_alternatives() -> None:
    words = [f"word{number}" for number in range(500)]

    assert Regex.compile("|".join(words)).find("this is word77.") == "word7"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pattern", ["a.*a.*b", "(?:a|b|c)(?:a|d)a*b", "a?a?a?a*b", "a.*a.*b.*"])
def test_a_pattern_of_a_role_is_fast_on_malicious_text(pattern: str) -> None:
    regex = Regex.compile(pattern, ROLE_LIMITS)

    before = time.process_time()
    regex.find("a" * 100_000)

    assert time.process_time() - before < 2


def test_a_pattern_of_a_role_has_lower_limits() -> None:
    assert Regex.compile("a.*b.*c").visible_characters == 1024
    assert Regex.compile("a.*b.*c", ROLE_LIMITS).visible_characters == 512
    with pytest.raises(InvalidObject, match="the maximum is 1024"):
        Regex.compile("a" * 1025, ROLE_LIMITS)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pattern", ["a.*a.*b", "a*a*b", r"\w+\s*:\d", "(?s).*b", "x(?:aa)+b"])
def test_malicious_text_is_searched_within_the_time_limit(pattern: str) -> None:
    regex = Regex.compile(pattern)

    for text in ("a" * 100_000, "a:" * 50_000, "xaa" * 30_000):
        regex.find(text)


@given(st.text(alphabet="ab(|)[]{}*+?.,\\12^$:P<>=!ims-", max_size=12), st.text(alphabet="ab1", max_size=30))
def test_any_text_is_a_pattern_or_rejected(pattern: str, text: str) -> None:
    try:
        regex = Regex.compile(pattern)
    except InvalidObject:
        return
    found = regex.find(text)

    assert found is None or found in text
