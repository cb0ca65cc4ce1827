"""The line and column of what is told about."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.errors import FieldError
from launcher.core.parsing import field_path
from launcher.core.parsing.decoder import Media
from launcher.core.parsing.source_positions import locate, placed
from tests.core.manifests import full_framework, places_in

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
    ("field", "place"),
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
def test_a_field_is_found_in_yaml_or_where_it_is_missing(field: str, place: tuple[int, int]) -> None:
    assert locate(YAML.encode(), field, Media.YAML) == place


@pytest.mark.parametrize(
    ("field", "place"),
    [
        ("spec.taskRoles[1].name", (4, 6)),
        ("spec.taskRoles[1].n[0][0]", (4, 27)),
        ("spec.taskRoles[1].n[1]", (4, 31)),
        ("spec.taskRoles[2]", (2, 33)),
        ('labels["a.b/c"]', (6, 13)),
    ],
)
def test_a_field_is_found_in_json(field: str, place: tuple[int, int]) -> None:
    assert locate(JSON.encode(), field, Media.JSON) == place


def test_inside_an_alias_the_alias_is_the_place() -> None:
    assert locate(b"a: &x {b: 1}\nc:\n  d: *x\n", "c.d.b", Media.YAML) == (3, 3)


def test_a_byte_order_mark_takes_no_place() -> None:
    assert locate(b"\xef\xbb\xbfa: 1\nb: 2", "b", Media.YAML) == (2, 1)


def test_all_problems_get_their_places_at_once() -> None:
    problems = (FieldError("metadata.name", "bad"), FieldError("spec.taskRoles[1].name", "bad"))

    found = placed(problems, YAML.encode(), Media.YAML)

    assert [(problem.line, problem.column) for problem in found] == [(2, 3), (10, 5)]
    assert [problem.message for problem in found] == ["bad", "bad"]


def test_json_is_found_alike_by_both_readers() -> None:
    text = json.dumps(full_framework(), indent=2).encode()

    for path in places_in(full_framework()):
        field = field_path.written(path)
        assert locate(text, field, Media.JSON) == locate(text, field, Media.YAML), field


@given(path=st.lists(st.text(max_size=20) | st.integers(0, 99)).map(tuple))
def test_a_path_can_be_read_back_from_how_it_is_written(path: tuple[Any, ...]) -> None:
    assert field_path.steps(field_path.written(path)) == path
