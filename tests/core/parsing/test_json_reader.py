"""The JSON reader."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import BadRequest
from launcher.core.parsing.json_reader import read_json
from tests.core.manifests import json_values


@given(value=json_values, spaced=st.booleans(), escaped=st.booleans())
def test_any_value_is_read_back_from_its_json(value: Any, spaced: bool, escaped: bool) -> None:
    text = json.dumps(value, indent=2 if spaced else None, ensure_ascii=escaped)

    decoded = read_json(text)

    assert decoded.value == value
    assert decoded.duplicates == ()


def test_a_number_without_a_fraction_is_an_integer() -> None:
    value = read_json('{"a": 1.0, "b": [2.0, 2.5]}').value

    assert orjson.dumps(value) == b'{"a":1,"b":[2,2.5]}'


@pytest.mark.parametrize(
    ("text", "duplicates"),
    [
        pytest.param('{"a": 1, "a": 2}', ("a",), id="at the top"),
        pytest.param('{"x": [{"b": 1}, {"b": {"c": 1, "c": 2}}]}', ("x[1].b.c",), id="deep inside"),
        pytest.param('{"a": {"b": 1}, "c": {"b": 1}}', (), id="the same name in two objects"),
        pytest.param('{"a": ":", "b": "::"}', (), id="colons in text"),
        pytest.param('{"a": "\\u003a", "a": 1}', ("a",), id="an escaped colon in a value that is lost"),
        pytest.param('{"a": "\\u003A", "b": 1, "b": 2}', ("b",), id="an escaped colon that hides a lost key"),
        pytest.param('{"a": "\\u003a"}', (), id="an escaped colon"),
        pytest.param('{"\\u0061": 1, "a": 2}', ("a",), id="the same key with an escape sequence"),
        pytest.param('{"a": 1, "a": 2, "a": 3}', ("a",), id="three times"),
        pytest.param('{"a.b": 1, "a.b": 2}', ('["a.b"]',), id="a key with special characters"),
    ],
)
def test_duplicate_keys_are_reported(text: str, duplicates: tuple[str, ...]) -> None:
    decoded = read_json(text)

    assert decoded.duplicates == duplicates
    assert decoded.value == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "line 1, column 1: .*the body is empty", id="nothing"),
        pytest.param('{"a": 1} x', "line 1, column 10: ", id="garbage at the end"),
        pytest.param('{"a": 1}{"a": 1}', "line 1, column 9: ", id="two values"),
        pytest.param('{\n  "a": 1,\n}', "line (2|3), column ", id="a comma too many"),
        pytest.param('{"a": ', "line 1, column 7: ", id="cut off"),
        pytest.param("{'a': 1}", "line 1, column 2: ", id="single quotes"),
        pytest.param('\ufeff{"a": 1}', "line 1, column 1: .*byte order mark", id="a byte order mark"),
        pytest.param('{"a": NaN}', "line 1, column 7: ", id="not a number"),
        pytest.param('{"a": Infinity}', "line 1, column 7: ", id="infinity"),
        pytest.param('{"a": 1e999}', "line 1, column ", id="beyond any fraction"),
        pytest.param('{"a": 9223372036854775808}', "9223372036854775808 .*64 bits", id="beyond 64 bits"),
        pytest.param('{"a": [1e19]}', "64 bits", id="a fraction beyond 64 bits"),
        pytest.param('"\\ud800"', "line 1, column ", id="half a character"),
        pytest.param("apiVersion: launcher.microsoft.com/v1", "Content-Type: application/yaml", id="YAML"),
        pytest.param(
            "---\nkind: Framework", "Content-Type: application/yaml", id="YAML with a document mark"
        ),
    ],
)
def test_invalid_json_is_rejected_with_position_and_hint(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match=f"(?s){message}"):
        read_json(text)
