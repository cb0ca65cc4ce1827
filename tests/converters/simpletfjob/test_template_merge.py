from typing import Any

import pytest

from launcher.converters.simpletfjob.template_merge import Difference, merge_templates

Json = dict[str, Any]


def a_template(**fields: Any) -> Json:
    return {"spec": {"containers": [{"name": "tensorflow", **fields}]}}


def test_the_template_of_one_pod_is_the_pod() -> None:
    assert merge_templates([a_template(image="tf:0")]) == a_template(image="tf:0")


def test_an_index_in_text_becomes_a_placeholder_and_other_numbers_stay() -> None:
    pods = [a_template(args=[f"--index={index}", f"w{index}:2222", "--steps=0"]) for index in range(12)]

    assert merge_templates(pods) == a_template(
        args=["--index={{FC_TASK_INDEX}}", "w{{FC_TASK_INDEX}}:2222", "--steps=0"]
    )


@pytest.mark.parametrize(
    ("values", "field"),
    [
        pytest.param([{"image": "a"}, {"image": "b"}], "image", id="other text"),
        pytest.param([{"image": "a0"}, {"image": "a2"}], "image", id="a number that is not the index"),
        pytest.param([{"image": "a0b"}, {"image": "a"}], "image", id="a number that is missing"),
        pytest.param([{"ports": 0}, {"ports": 1}], "ports", id="an index that is no text has no placeholder"),
        pytest.param([{"tty": 1}, {"tty": True}], "tty", id="values of other kinds"),
        pytest.param([{"args": ["a"]}, {"args": ["a", "b"]}], "args", id="lists of other lengths"),
        pytest.param([{"args": ["a", "b"]}, {"args": ["a", "c"]}], "args[1]", id="an item"),
        pytest.param([{"env": {"a": 1}}, {"env": {}}], "env.a", id="a field that one lacks"),
    ],
)
def test_the_field_in_which_pods_differ_is_reported(values: list[Json], field: str) -> None:
    pods = [a_template(**value) for value in values]

    assert merge_templates(pods) == Difference(f"spec.containers[0].{field}")
