"""Regular expressions of the configuration."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import InvalidObject
from launcher.core.failures.regex import Regex


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
    assert Regex.of(pattern).find(text) == found


@pytest.mark.parametrize(
    ("pattern", "because"),
    [
        pytest.param("(a+)+b", "itself repeats", id="a repeat in a repeat"),
        pytest.param("((a*)x)*", "itself repeats", id="deeper"),
        pytest.param("(?:a{2,}){3}", "itself repeats", id="counted"),
        pytest.param("(a?){40}", "itself repeats", id="an option in a repeat"),
        pytest.param(r"(.|\n)*x", "itself repeats or chooses", id="a choice in a repeat"),
        pytest.param("((a|b)c)+", "itself repeats or chooses", id="a choice deeper in a repeat"),
        pytest.param("a.*b.*c.*d", "has 3 open repeats", id="too many repeats"),
        pytest.param("a.{0,500}b.+c.+d", "has 3 open repeats", id="a wide range counts as open"),
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
def test_a_pattern_is_refused(pattern: str, because: str) -> None:
    with pytest.raises(InvalidObject, match=because):
        Regex.of(pattern)


def test_a_pattern_with_two_open_repeats_sees_only_the_end_of_a_text() -> None:
    padding = "x" * 2000

    assert Regex.of("a.*b").find("a" + padding + "b") is not None
    assert Regex.of("a.*b.*c").find("a" + padding + "bc") is None
    assert Regex.of("a.*b.*c").find(padding + "abc") == "abc"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("pattern", ["a.*a.*b", "a*a*b", r"\w+\s*:\d", "(?s).*b", "x(?:aa)+b"])
def test_hostile_text_is_searched_in_the_time_that_a_pattern_may_take(pattern: str) -> None:
    regex = Regex.of(pattern)

    for text in ("a" * 100_000, "a:" * 50_000, "xaa" * 30_000):
        regex.find(text)


@given(st.text(alphabet="ab(|)[]{}*+?.,\\12^$:P<>=!ims-", max_size=12), st.text(alphabet="ab1", max_size=30))
def test_any_text_is_a_pattern_or_refused(pattern: str, text: str) -> None:
    try:
        regex = Regex.of(pattern)
    except InvalidObject:
        return
    found = regex.find(text)

    assert found is None or found in text
