import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import BadRequest
from launcher.store.selectors import EVERYTHING, FieldRequirement, LabelRequirement, Operator, Selector, parse


def requirement(key: str, operator: Operator, *values: str) -> LabelRequirement:
    return LabelRequirement(key, operator, frozenset(values))


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        ("  ", []),
        ("a", [requirement("a", Operator.EXISTS)]),
        ("!a", [requirement("a", Operator.ABSENT)]),
        ("a=b", [requirement("a", Operator.IN, "b")]),
        ("a==b", [requirement("a", Operator.IN, "b")]),
        (" a = b ", [requirement("a", Operator.IN, "b")]),
        ("a=", [requirement("a", Operator.IN, "")]),
        ("a=,b", [requirement("a", Operator.IN, ""), requirement("b", Operator.EXISTS)]),
        ("a!=b", [requirement("a", Operator.NOT_IN, "b")]),
        ("a in (b, c)", [requirement("a", Operator.IN, "b", "c")]),
        ("a in(b)", [requirement("a", Operator.IN, "b")]),
        ("a in (b,)", [requirement("a", Operator.IN, "b", "")]),
        ("a notin (b,c)", [requirement("a", Operator.NOT_IN, "b", "c")]),
        ("a>5", [requirement("a", Operator.GREATER, "5")]),
        ("a<5", [requirement("a", Operator.LESS, "5")]),
        (
            "example.com/a=b,!c",
            [requirement("example.com/a", Operator.IN, "b"), requirement("c", Operator.ABSENT)],
        ),
        ("in in (in)", [requirement("in", Operator.IN, "in")]),
    ],
)
def test_label_selectors_are_parsed(text: str, requirements: list[LabelRequirement]) -> None:
    assert parse(text).labels == tuple(requirements)


@pytest.mark.parametrize(
    "text",
    [
        ",",
        "a,",
        ",a",
        "a b",
        "a=b c=d",
        "=b",
        "!",
        "!=b",
        "a in",
        "a in b",
        "a in (b",
        "a in (b c)",
        "a in ((b))",
        "a=b=c",
        "a===b",
        "a>x",
        "a>",
        "a>1.5",
        "a!b",
        "!a=b",
        "-a=b",
        "a=-b",
        "a=" + "x" * 64,
        "/a",
        "a=é",
    ],
)
def test_an_invalid_label_selector_is_rejected_with_the_syntax(text: str) -> None:
    with pytest.raises(BadRequest, match=r"use key, !key, key=value"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        ("metadata.name=a", [FieldRequirement("metadata.name", "a")]),
        ("metadata.name==a", [FieldRequirement("metadata.name", "a")]),
        ("status.phase!=Running", [FieldRequirement("status.phase", "Running", equal=False)]),
        ("a.b=,c=d", [FieldRequirement("a.b", ""), FieldRequirement("c", "d")]),
        (r"a=x\,y\=z\\", [FieldRequirement("a", r"x,y=z" + "\\")]),
    ],
)
def test_field_selectors_are_parsed(text: str, requirements: list[FieldRequirement]) -> None:
    assert parse(fields=text).fields == tuple(requirements)


@pytest.mark.parametrize("text", ["a", "=b", "a=b=c", ",", "a=b,,c=d", "a=b c!d=e", "a in (b)", r"a=\x"])
def test_an_invalid_field_selector_is_rejected_with_the_syntax(text: str) -> None:
    with pytest.raises(BadRequest, match=r"use path=value or path!=value"):
        parse(fields=text)


@given(st.text(alphabet="ab!=<>(), \\.inot\n", max_size=30))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    for labels, fields in ((text, ""), ("", text)):
        try:
            where = parse(labels, fields)
        except BadRequest:
            continue
        assert isinstance(where.matches({"metadata": {"labels": {"a": "1"}}}), bool)


@pytest.mark.parametrize(
    ("fields", "matches"),
    [
        ("spec.flag=true", True),
        ("spec.flag=True", False),
        ("spec.count=3", True),
        ("spec.list=", True),
        ("spec.name.deeper=", True),
        ("spec.nothing=", True),
        ("spec.nothing!=x", True),
    ],
)
def test_fields_are_compared_as_text_and_absent_ones_are_empty(fields: str, matches: bool) -> None:
    obj = {"spec": {"flag": True, "count": 3, "list": [1], "name": "x", "nothing": None}}

    assert parse(fields=fields).matches(obj) is matches


def test_numeric_operators_compare_labels_as_numbers_and_never_match_text() -> None:
    where = parse("a>9")

    assert where.matches_labels({"a": "10"})
    assert not where.matches_labels({"a": "9"})
    assert not where.matches_labels({"a": "x"})
    assert not where.matches_labels({})


def test_selectors_built_in_code_equal_parsed_ones() -> None:
    assert Selector.for_labels({"a": "b", "c": "d"}) == parse("a=b,c=d")
    assert Selector.for_name("x") == parse(fields="metadata.name=x")
    assert Selector.for_labels({"a": "b"}) & Selector.for_name("x") == parse("a=b", "metadata.name=x")
    assert parse() == EVERYTHING
    assert len({parse("a in (b,c)"), parse("a in (c,b)")}) == 1
