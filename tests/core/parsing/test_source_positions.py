"""Lines and columns of fields in manifests."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import FieldError
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import Media
from launcher.core.parsing.source_positions import position_of, with_positions
from tests.core.manifests import full_framework, paths_in

YAML = """\
metadata:
  name: mnist
  labels: {a.b/c: "1"}
spec:
  taskRoles:
  - name: worker
    task:
      pod:
        spec: {hostNetwork: yes}
  - name: ps
"""
JSON = """{
  "spec": {"x": "\\ud83d\\ude00", "taskRoles": [
    {"name": "worker"},
    {"name": "ps", "n": [[1], {}]}
  ]},
\t"labels": {"a.b/c": "\\"1"}
}"""


@pytest.mark.parametrize(
    ("field", "position"),
    [
        ("metadata.name", (2, 3)),
        ('metadata.labels["a.b/c"]', (3, 12)),
        ("spec.taskRoles[0]", (6, 5)),
        ("spec.taskRoles[1].name", (10, 5)),
        ("spec.taskRoles[0].task.pod.spec.hostNetwork", (9, 16)),
        ("spec.taskRoles[1].task.pod", (10, 5)),
        ("spec.taskRoles[7].name", (5, 3)),
        ("status", (1, 1)),
        ("", (1, 1)),
    ],
)
def test_a_missing_field_of_yaml_has_the_position_of_its_parent(
    field: str, position: tuple[int, int]
) -> None:
    assert position_of(YAML.encode(), field, Media.YAML) == position


@pytest.mark.parametrize(
    ("field", "position"),
    [
        ("spec.taskRoles[1].name", (4, 6)),
        ("spec.taskRoles[1].n[0][0]", (4, 27)),
        ("spec.taskRoles[1].n[1]", (4, 31)),
        ("spec.taskRoles[2]", (2, 33)),
        ('labels["a.b/c"]', (6, 13)),
    ],
)
def test_the_position_of_a_field_in_json(field: str, position: tuple[int, int]) -> None:
    assert position_of(JSON.encode(), field, Media.JSON) == position


def test_a_field_inside_an_alias_has_the_position_of_the_alias() -> None:
    assert position_of(b"a: &x {b: 1}\nc:\n  d: *x\n", "c.d.b", Media.YAML) == (3, 3)


def test_a_byte_order_mark_does_not_change_positions() -> None:
    assert position_of(b"\xef\xbb\xbfa: 1\nb: 2", "b", Media.YAML) == (2, 1)


def test_every_error_gets_its_position() -> None:
    errors = (FieldError("metadata.name", "bad"), FieldError("spec.taskRoles[1].name", "bad"))

    positioned = with_positions(errors, YAML.encode(), Media.YAML)

    assert [(error.line, error.column) for error in positioned] == [(2, 3), (10, 5)]
    assert [error.message for error in positioned] == ["bad", "bad"]


def test_positions_in_json_are_the_same_for_the_json_and_the_yaml_reader() -> None:
    text = json.dumps(full_framework(), indent=2).encode()

    for path in paths_in(full_framework()):
        field = field_path.format_path(path)
        assert position_of(text, field, Media.JSON) == position_of(text, field, Media.YAML), field


@given(path=st.lists(st.text(max_size=20) | st.integers(0, 99)).map(tuple))
def test_a_formatted_path_is_parsed_back(path: tuple[Any, ...]) -> None:
    assert field_path.parse_path(field_path.format_path(path)) == path
