"""The YAML reader: values of JSON, without the ambiguities of YAML 1.1."""

from typing import Any

import pytest
import yaml

from launcher.core.errors import BadRequest
from launcher.core.parsing.decoder import MAX_NESTING_DEPTH, MAX_VALUES
from launcher.core.parsing.json_reader import read_json
from launcher.core.parsing.yaml_reader import read_yaml
from tests.core.manifests import samples


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in samples()])
def test_samples_are_read_as_by_pyyaml(data: bytes) -> None:
    assert read_yaml(data.decode()).value == yaml.safe_load(data)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("No", "No"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("12", 12),
        ("-7", -7),
        ("+7", 7),
        ("0", 0),
        ("0644", 0o644),
        ("0o644", 0o644),
        ("0x1F", 31),
        ("-0x1F", -31),
        ("08", 8),
        ("1e3", 1000),
        ("1.5", 1.5),
        (".5", 0.5),
        ("1.0", 1),
        ("-0.0", 0),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("12:30:45", "12:30:45"),
        ("2020-01-31", "2020-01-31"),
        ("2020-01-31T10:00:00Z", "2020-01-31T10:00:00Z"),
        ("1.2.3", "1.2.3"),
        ("10.151.40.241", "10.151.40.241"),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("NaN", "NaN"),
        ("infinity", "infinity"),
        ("=", "="),
        ("'12'", "12"),
        ('"yes"', "yes"),
        ("! 12", "12"),
        ("!!str 12", "12"),
        ('!!int "12"', 12),
        ("!!float 2", 2),
        ("!!bool 'true'", True),
        ("!!null ''", None),
        ("|\n  12\n", "12\n"),
    ],
)
def test_a_scalar_is_read_as_kubernetes_reads_it(scalar: str, value: Any) -> None:
    read = read_yaml(f"a: {scalar}").value["a"]

    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(
            "on: 1\n8080: 2\ntrue: 3\nnull: 4", {"on": 1, "8080": 2, "true": 3, "null": 4}, id="keys are text"
        ),
        pytest.param("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}, id="an alias"),
        pytest.param("a: &x b\n*x : 1", {"a": "b", "b": 1}, id="an alias as a key"),
        pytest.param("&x a: 1\nb: *x", {"a": 1, "b": "a"}, id="an anchor on a key"),
        pytest.param("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}, id="an anchor that is set again"),
        pytest.param(
            "a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}",
            {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}},
            id="a merge",
        ),
        pytest.param(
            "a: &x {k: 1}\nb: &y {k: 2, l: 3}\nc: {<<: [*x, *y]}",
            {"a": {"k": 1}, "b": {"k": 2, "l": 3}, "c": {"k": 1, "l": 3}},
            id="a merge of several",
        ),
        pytest.param("'<<': 1", {"<<": 1}, id="quoted, << is a key like any other"),
        pytest.param("---\n---\na: 1\n---\n# no more\n", {"a": 1}, id="empty documents do not count"),
        pytest.param("\ufeffa: 1", {"a": 1}, id="a byte order mark"),
        pytest.param("%YAML 1.2\n---\na: 1", {"a": 1}, id="a directive"),
        pytest.param("a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}, id="line ends of Windows"),
        pytest.param('{"a": [1, "\\u00e9"]}', {"a": [1, "é"]}, id="JSON"),
    ],
)
def test_a_document_is_converted_to_json_values(text: str, value: Any) -> None:
    assert read_yaml(text).value == value


@pytest.mark.parametrize(
    ("text", "duplicates"),
    [
        pytest.param("a: 1\nb: 2\na: 3", ("a",), id="at the top"),
        pytest.param("a: [{b: 1}, {b: 1, b: 2}]", ("a[1].b",), id="deep inside"),
        pytest.param("a: {b: {c: 1}, b: {d: 1, d: 2}}", ("a.b", "a.b.d"), id="inside a duplicate"),
        pytest.param("a: &x {b: 1}\nc: {<<: *x, b: 2}", (), id="a merged key is overridden, not doubled"),
        pytest.param("x: {a: {b: 1}, c: 1, a: {b: 1, b: 2}}", ("x.a", "x.a.b"), id="out of order"),
    ],
)
def test_duplicate_keys_are_reported_and_the_last_counts(text: str, duplicates: tuple[str, ...]) -> None:
    decoded = read_yaml(text)

    assert decoded.duplicates == duplicates
    assert decoded.value.get("a") != 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: b\n\tc: d", "line 2, column 1: .*indent with spaces, not with tabs", id="a tab"),
        pytest.param(
            "a:\n\t- b", "line 2, column 1: .*indent with spaces, not with tabs", id="a tab before a list"
        ),
        pytest.param("a: 1\nb: 'x", "line 2, column 6: .*indentation and quotes", id="an open quote"),
        pytest.param("a: 1\nb: @x", "line 2, column 4: .*", id="a reserved sign"),
        pytest.param(
            "apiVersion: launcher.microsoft.com/v1kind: Frameworkmetadata:  name: a",
            "use --data-binary instead of -d",
            id="lost line breaks",
        ),
        pytest.param("a: 1\n--- \nb: 2", "line 3, column 1: second document", id="two documents"),
        pytest.param("a: 1\n---\n[]", "line 3, column 1: second document", id="a list as second document"),
        pytest.param("", "the document is empty", id="nothing"),
        pytest.param("# only a remark\n", "the document is empty", id="a comment"),
        pytest.param("a: é\x01", "line 1, column 5: .*control characters", id="a control character"),
        pytest.param("a: .inf", "line 1, column 4: .inf is not a JSON number", id="infinity"),
        pytest.param("a: -.Inf", "line 1, column 4: -.Inf is not a JSON number", id="minus infinity"),
        pytest.param("a: .NaN", "line 1, column 4: .NaN is not a JSON number", id="not a number"),
        pytest.param("a: 1e999", "line 1, column 4: 1e999 .*64 bits", id="beyond any fraction"),
        pytest.param("a: 9223372036854775808", "64 bits; quote it", id="beyond 64 bits"),
        pytest.param("a: 0xFFFFFFFFFFFFFFFFF", "64 bits; quote it", id="beyond 64 bits in hexadecimal"),
        pytest.param("a: 1e19", "64 bits; quote it", id="a fraction beyond 64 bits"),
        pytest.param("? [a]\n: b", "line 1, column 3: a key must be a string", id="a list as key"),
        pytest.param("? {a: 1}\n: b", "line 1, column 3: a key must be a string", id="an object as key"),
        pytest.param(
            "a: &x [1]\n*x : b", "line 2, column 1: a key must be a string", id="an alias of a list as key"
        ),
        pytest.param("?\n: b", "line 1, column 2: missing key", id="a null key"),
        pytest.param(
            "a: *x", r"line 1, column 4: alias \*x: there is no complete anchor", id="an alias of nothing"
        ),
        pytest.param(
            "a: &x [*x]",
            r"line 1, column 8: alias \*x: there is no complete anchor",
            id="a list inside itself",
        ),
        pytest.param("a: {<<: 1}", "<< must be an alias of an object", id="a merge of a number"),
        pytest.param(
            "a: {<<: [{b: 1}, 1]}", "<< must be an alias of an object", id="a merge of a list with a number"
        ),
        pytest.param("a: !!binary aGk=", "tag:yaml.org,2002:binary does not match", id="binary"),
        pytest.param("a: !!timestamp 2020-01-31", "2002:timestamp does not match", id="a timestamp tag"),
        pytest.param(
            "a: !!python/object/apply:os.system [x]", "line 1, column 4: the tag .* not supported", id="code"
        ),
        pytest.param("a: !!set {b}", "2002:set is not supported", id="a set"),
        pytest.param("a: !mine b", "the tag !mine does not match", id="a private tag"),
        pytest.param("a: !!int b", "2002:int does not match", id="text with the tag of a number"),
    ],
)
def test_invalid_yaml_is_rejected_with_position_and_hint(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=f"(?s){message}"):
        read_yaml(text)


@pytest.mark.parametrize("read", [read_yaml, read_json])
def test_yaml_and_json_have_the_same_limits(read: Any) -> None:
    read("[" * MAX_NESTING_DEPTH + "]" * MAX_NESTING_DEPTH)
    with pytest.raises(BadRequest, match="nested"):
        read("[" * (MAX_NESTING_DEPTH + 1) + "]" * (MAX_NESTING_DEPTH + 1))

    read("[" + "1," * (MAX_VALUES - 2) + "1]")
    with pytest.raises(BadRequest, match="values"):
        read("[" + "1," * (MAX_VALUES - 1) + "1]")


def test_empty_documents_count_as_values() -> None:
    with pytest.raises(BadRequest, match="values"):
        read_yaml("---\n" * (MAX_VALUES + 2))


def test_an_alias_counts_with_the_depth_of_its_anchor() -> None:
    half = MAX_NESTING_DEPTH // 2
    inner = "[" * half + "]" * half

    read_yaml(f"[&x {inner}, " + "[" * (half - 1) + "*x" + "]" * (half - 1) + "]")
    with pytest.raises(BadRequest, match="nested"):
        read_yaml(f"[&x {inner}, " + "[" * half + "*x" + "]" * half + "]")


def test_nesting_through_a_chain_of_aliases_is_counted() -> None:
    links = [f"- &a{n} " + "[" * 50 + (f"*a{n - 1}" if n else "1") + "]" * 50 for n in range(6)]

    with pytest.raises(BadRequest, match="nested"):
        read_yaml("\n".join(links))
