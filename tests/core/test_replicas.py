"""``spec.replicas``: its meaning beside ``taskNumber``, and how updates keep both consistent."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.replicas import reconcile_replicas, tasks_of_roles, with_replicas, with_task_count
from launcher.core.serialization.spec_json import spec_from_json
from launcher.core.validation.framework import validation_errors, validation_warnings
from tests.builders import Json, a_framework, a_role
from tests.core.manifests import json_values

PS = a_role("ps", 1)


def one_role(tasks: int | None, replicas: int | None = None, role: str = "worker") -> Json:
    """A Framework with one role."""
    fields: Json = {} if replicas is None else {"replicas": replicas}
    framework = a_framework(a_role(role, 0), **fields)
    framework["spec"]["taskRoles"][0]["taskNumber"] = tasks
    return framework


def task_number_and_replicas(obj: Json) -> tuple[Any, Any]:
    """``taskNumber`` of the first role, and ``replicas``."""
    return obj["spec"]["taskRoles"][0].get("taskNumber"), obj["spec"].get("replicas")


@pytest.mark.parametrize(
    ("framework", "tasks"),
    [
        pytest.param(one_role(3), (3,), id="taskNumber alone"),
        pytest.param(one_role(3, 5), (5,), id="replicas overrides taskNumber"),
        pytest.param(one_role(3, 0), (0,), id="scaled to nothing"),
        pytest.param(one_role(None, 5), (5,), id="replicas alone"),
        pytest.param(a_framework(a_role("ps", 1), a_role("worker", 2)), (1, 2), id="several roles"),
        pytest.param(
            a_framework(a_role("ps", 1), a_role("worker", 2), replicas=7),
            (1, 2),
            id="ignored with several roles",
        ),
    ],
)
def test_replicas_overrides_the_task_number_of_an_only_role(framework: Json, tasks: tuple[int, ...]) -> None:
    assert tasks_of_roles(framework["spec"]) == tasks
    assert tuple(role.tasks for role in spec_from_json(framework["spec"]).roles) == tasks


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(one_role(3), one_role(4), (4, None), id="never scaled: replicas is not added"),
        pytest.param(
            one_role(3, 3), one_role(4, 3), (4, 4), id="taskNumber was changed, so replicas follows"
        ),
        pytest.param(
            one_role(3, 3), one_role(None, 3), (None, 0), id="taskNumber was removed, which means 0"
        ),
        pytest.param(one_role(3, 3), one_role(3, 5), (3, 5), id="replicas was changed, and taskNumber stays"),
        pytest.param(one_role(3, 5), one_role(3, 5), (3, 5), id="the same file applied after a scale"),
        pytest.param(one_role(3, 5), one_role(4, 5), (4, 4), id="a new number after a scale"),
        pytest.param(one_role(3, 5), one_role(5, 5), (5, 5), id="the number that it was scaled to"),
        pytest.param(one_role(3, 5), one_role(4, 6), (4, 6), id="both were changed"),
        pytest.param(one_role(3, 5), one_role(3), (3, None), id="replicas was removed"),
        pytest.param(one_role(3), one_role(4, 6), (4, 6), id="replicas is new"),
        pytest.param(one_role(3, 5), one_role(3, 5, "trainer"), (3, 3), id="another role replaces it"),
        pytest.param(
            one_role(3, 5),
            a_framework(a_role("worker", 3), PS, replicas=5),
            (3, None),
            id="a second role: replicas is removed",
        ),
        pytest.param(
            one_role(3, 5),
            a_framework(a_role("worker", 3), PS, replicas=6),
            (3, 6),
            id="replicas set together with a second role is kept, so that validation rejects it",
        ),
        pytest.param(a_framework(a_role("worker", 3), PS), one_role(3), (3, None), id="one role is left"),
        pytest.param(
            a_framework(a_role("worker", 3), PS, replicas=5),
            one_role(3, 5),
            (3, 3),
            id="replicas that had no effect stays without effect",
        ),
    ],
)
def test_an_update_of_one_number_changes_the_other(old: Json, new: Json, expected: tuple[Any, Any]) -> None:
    before = deepcopy((old, new))

    result = reconcile_replicas(new, old)

    assert task_number_and_replicas(result) == expected
    assert (old, new) == before
    assert reconcile_replicas(result, old) == result


@given(spec=json_values, old_spec=json_values, roles=json_values)
def test_malformed_specs_are_left_to_validation(spec: Any, old_spec: Any, roles: Any) -> None:
    reconcile_replicas({"spec": spec}, {"spec": old_spec})
    reconcile_replicas(
        {"spec": {"replicas": 1, "taskRoles": roles}}, {"spec": {"replicas": 1, "taskRoles": [{}]}}
    )
    tasks_of_roles({"replicas": spec, "taskRoles": roles})


def test_replicas_with_two_roles_is_rejected_with_a_hint() -> None:
    (problem,) = validation_errors(a_framework(a_role("worker"), PS, replicas=3))

    assert problem.field == "spec.replicas"
    assert problem.reason == "FieldValueForbidden"
    assert "there are 2" in problem.message
    assert "spec.taskRoles[0].taskNumber" in problem.message


@pytest.mark.parametrize("value", [-1, 10_001, "3", 1.5, 2.0, True])
def test_an_invalid_number_of_replicas_is_rejected(value: Any) -> None:
    assert [problem.field for problem in validation_errors(a_framework(replicas=value))] == ["spec.replicas"]


def test_validation_uses_the_effective_number_of_tasks() -> None:
    policy = {"frameworkAttemptCompletionPolicy": {"succeededIndexes": "4"}}
    few = a_framework(a_role("worker", 9, **policy), replicas=3)
    many = a_framework(a_role("worker", 3, **policy), replicas=9)

    assert [problem.message for problem in validation_errors(few)] == [
        'Invalid value: "4": no task 4: the tasks of role worker are 0 to 2'
    ]
    assert validation_errors(many) == ()


@pytest.mark.parametrize(
    ("framework", "warnings"),
    [
        pytest.param(one_role(3, 3), (), id="the same"),
        pytest.param(one_role(None, 3), (), id="replicas alone"),
        pytest.param(
            one_role(3, 5), ("spec.replicas: 5 overrides taskNumber 3 of role worker",), id="two numbers"
        ),
    ],
)
def test_a_task_number_that_replicas_overrides_is_a_warning(
    framework: Json, warnings: tuple[str, ...]
) -> None:
    assert validation_warnings(framework) == warnings


@pytest.mark.parametrize(
    ("framework", "replicas"),
    [
        pytest.param(one_role(3), 3, id="one role"),
        pytest.param(one_role(None), 0, id="no tasks"),
        pytest.param(one_role(3, 5), 5, id="scaled before"),
        pytest.param(a_framework(a_role("worker"), PS), None, id="several roles"),
        pytest.param({**a_framework(), "spec": {}}, None, id="no role"),
    ],
)
def test_replicas_is_set_for_the_scale_subresource(framework: Json, replicas: int | None) -> None:
    result = with_replicas(framework)

    assert result["spec"].get("replicas") == replicas
    assert tasks_of_roles(result["spec"]) == tasks_of_roles(framework["spec"])
    assert with_replicas(result) == result


@given(
    tasks=st.integers(0, 10_000), framework=st.sampled_from([one_role(3), one_role(3, 5), one_role(None, 0)])
)
def test_a_scale_changes_only_the_effective_number(tasks: int, framework: Json) -> None:
    result = with_task_count(framework, tasks)

    assert tasks_of_roles(result["spec"]) == (tasks,)
    assert ("replicas" in result["spec"]) == ("replicas" in framework["spec"])
