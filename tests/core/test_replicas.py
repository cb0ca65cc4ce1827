"""``spec.replicas``: what it means beside ``taskNumber``, and how the two go together from one write to the next."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.replicas import reconcile_replicas, scaled, tasks_of_roles, with_replicas
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.validation.framework import validation_errors, validation_warnings
from tests.core.manifests import Json, a_framework, a_role, json_values

PS = a_role("ps", 1)


def one(tasks: int | None, replicas: int | None = None, role: str = "worker") -> Json:
    """A Framework of one role."""
    fields: Json = {} if replicas is None else {"replicas": replicas}
    framework = a_framework(a_role(role, 0), **fields)
    framework["spec"]["taskRoles"][0]["taskNumber"] = tasks
    return framework


def numbers(obj: Json) -> tuple[Any, Any]:
    """``taskNumber`` of the first role, and ``replicas``."""
    return obj["spec"]["taskRoles"][0].get("taskNumber"), obj["spec"].get("replicas")


@pytest.mark.parametrize(
    ("framework", "tasks"),
    [
        pytest.param(one(3), (3,), id="taskNumber alone"),
        pytest.param(one(3, 5), (5,), id="replicas stands over taskNumber"),
        pytest.param(one(3, 0), (0,), id="scaled to nothing"),
        pytest.param(one(None, 5), (5,), id="replicas alone"),
        pytest.param(a_framework(a_role("ps", 1), a_role("worker", 2)), (1, 2), id="several roles"),
        pytest.param(
            a_framework(a_role("ps", 1), a_role("worker", 2), replicas=7), (1, 2), id="not with several"
        ),
    ],
)
def test_the_engine_obeys(framework: Json, tasks: tuple[int, ...]) -> None:
    assert tasks_of_roles(framework["spec"]) == tasks
    assert tuple(role.tasks for role in spec_from_json(framework["spec"]).roles) == tasks


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(one(3), one(4), (4, None), id="nobody scales: nothing is added"),
        pytest.param(one(3, 3), one(4, 3), (4, 4), id="taskNumber was changed, so replicas follows"),
        pytest.param(one(3, 3), one(None, 3), (None, 0), id="taskNumber was taken away, which is 0"),
        pytest.param(one(3, 3), one(3, 5), (3, 5), id="replicas was changed, and taskNumber stays"),
        pytest.param(one(3, 5), one(3, 5), (3, 5), id="the same file applied after a scale"),
        pytest.param(one(3, 5), one(4, 5), (4, 4), id="a new number after a scale"),
        pytest.param(one(3, 5), one(5, 5), (5, 5), id="the number that it was scaled to"),
        pytest.param(one(3, 5), one(4, 6), (4, 6), id="both were changed"),
        pytest.param(one(3, 5), one(3), (3, None), id="replicas was taken away"),
        pytest.param(one(3), one(4, 6), (4, 6), id="replicas is new"),
        pytest.param(one(3, 5), one(3, 5, "trainer"), (3, 3), id="another role takes its place"),
        pytest.param(
            one(3, 5),
            a_framework(a_role("worker", 3), PS, replicas=5),
            (3, None),
            id="a second role: replicas goes",
        ),
        pytest.param(
            one(3, 5),
            a_framework(a_role("worker", 3), PS, replicas=6),
            (3, 6),
            id="with a second role replicas is sent anew, and has to be refused",
        ),
        pytest.param(a_framework(a_role("worker", 3), PS), one(3), (3, None), id="one role is left"),
        pytest.param(
            a_framework(a_role("worker", 3), PS, replicas=5),
            one(3, 5),
            (3, 3),
            id="a number that meant nothing means nothing later",
        ),
    ],
)
def test_from_one_write_to_the_next(old: Json, new: Json, expected: tuple[Any, Any]) -> None:
    before = deepcopy((old, new))

    found = reconcile_replicas(new, old)

    assert numbers(found) == expected
    assert (old, new) == before
    assert reconcile_replicas(found, old) == found


@given(spec=json_values, was=json_values, roles=json_values)
def test_what_has_no_shape_is_left_for_the_rules_to_refuse(spec: Any, was: Any, roles: Any) -> None:
    reconcile_replicas({"spec": spec}, {"spec": was})
    reconcile_replicas(
        {"spec": {"replicas": 1, "taskRoles": roles}}, {"spec": {"replicas": 1, "taskRoles": [{}]}}
    )
    tasks_of_roles({"replicas": spec, "taskRoles": roles})


def test_with_a_second_role_replicas_is_refused_with_the_way_out() -> None:
    (problem,) = validation_errors(a_framework(a_role("worker"), PS, replicas=3))

    assert problem.field == "spec.replicas"
    assert problem.reason == "FieldValueForbidden"
    assert "this one has 2" in problem.message
    assert "spec.taskRoles[0].taskNumber" in problem.message


@pytest.mark.parametrize("value", [-1, 10_001, "3", 1.5, 2.0, True])
def test_replicas_is_a_number_of_tasks(value: Any) -> None:
    assert [problem.field for problem in validation_errors(a_framework(replicas=value))] == ["spec.replicas"]


def test_what_is_checked_is_the_number_that_is_obeyed() -> None:
    last = {"frameworkAttemptCompletionPolicy": {"succeededIndexes": "4"}}
    few = a_framework(a_role("worker", 9, **last), replicas=3)
    many = a_framework(a_role("worker", 3, **last), replicas=9)

    assert [problem.message for problem in validation_errors(few)] == [
        'Invalid value: "4": there is no task 4: the tasks of role worker go from 0 to 2'
    ]
    assert validation_errors(many) == ()


@pytest.mark.parametrize(
    ("framework", "warnings"),
    [
        pytest.param(one(3, 3), (), id="the same"),
        pytest.param(one(None, 3), (), id="replicas alone"),
        pytest.param(
            one(3, 5), ("spec.replicas: 5 stands over taskNumber 3 of role worker",), id="two numbers"
        ),
    ],
)
def test_who_writes_two_numbers_is_told_which_one_counts(framework: Json, warnings: tuple[str, ...]) -> None:
    assert validation_warnings(framework) == warnings


@pytest.mark.parametrize(
    ("framework", "replicas"),
    [
        pytest.param(one(3), 3, id="one role"),
        pytest.param(one(None), 0, id="no tasks"),
        pytest.param(one(3, 5), 5, id="scaled before"),
        pytest.param(a_framework(a_role("worker"), PS), None, id="several roles"),
        pytest.param({**a_framework(), "spec": {}}, None, id="no role"),
    ],
)
def test_kubernetes_finds_the_number_where_it_looks(framework: Json, replicas: int | None) -> None:
    found = with_replicas(framework)

    assert found["spec"].get("replicas") == replicas
    assert tasks_of_roles(found["spec"]) == tasks_of_roles(framework["spec"])
    assert with_replicas(found) == found


@given(tasks=st.integers(0, 10_000), framework=st.sampled_from([one(3), one(3, 5), one(None, 0)]))
def test_a_scale_changes_the_number_that_counts_and_no_other(tasks: int, framework: Json) -> None:
    found = scaled(framework, tasks)

    assert tasks_of_roles(found["spec"]) == (tasks,)
    assert ("replicas" in found["spec"]) == ("replicas" in framework["spec"])
