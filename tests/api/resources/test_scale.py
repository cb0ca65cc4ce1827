"""``spec.replicas`` over HTTP: the scale of a Framework that has one role, however it is written."""

from typing import Any

import pytest

from tests.api.client import APPLY, JSON_PATCH, MERGE
from tests.api.conftest import Api
from tests.api.samples import A, B, Json, causes, framework, made, with_spec
from tests.builders import a_role


async def scaled(api: Api, tasks: int = 2, replicas: int = 5) -> Json:
    """Stores a Framework with replicas and taskNumber."""
    response = await api.post(B, with_spec(framework(), replicas=replicas, taskRoles=[a_role(tasks=tasks)]))
    assert response.status == 201, response.body
    stored: Json = response.json()
    return stored


def numbers(obj: Json) -> tuple[Any, Any]:
    """``taskNumber`` of the first role, and ``replicas``."""
    return obj["spec"]["taskRoles"][0]["taskNumber"], obj["spec"].get("replicas")


async def test_no_replicas_are_added_to_a_framework_without_them(api: Api) -> None:
    stored = await made(api)
    scale = (await api.patch(f"{A}/scale", {"spec": {"replicas": 5}})).json()

    assert numbers(stored) == (2, None)
    assert scale["spec"] == {"replicas": 5}
    assert numbers((await api.get(A)).json()) == (5, None)


async def test_replicas_override_the_number_of_tasks(api: Api) -> None:
    await scaled(api)

    before = (await api.get(f"{A}/scale")).json()
    after = (await api.patch(f"{A}/scale", {"spec": {"replicas": 7}})).json()

    assert (before["spec"], after["spec"]) == ({"replicas": 5}, {"replicas": 7})
    assert numbers((await api.get(A)).json()) == (2, 7)


async def test_contradicting_replicas_are_reported_once(api: Api) -> None:
    response = await api.post(B, with_spec(framework(), replicas=5))
    later = await api.patch(A, {"metadata": {"labels": {"a": "b"}}})

    assert "spec.replicas: 5 overrides taskNumber 2 of role worker" in response.headers["Warning"]
    assert "Warning" not in later.headers


@pytest.mark.parametrize(
    ("change", "media"),
    [
        pytest.param({"spec": {"taskRoles": [a_role(tasks=3)]}}, MERGE, id="merged"),
        pytest.param(
            [{"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 3}], JSON_PATCH, id="operated"
        ),
        pytest.param(with_spec(framework(), taskRoles=[a_role(tasks=3)]), APPLY, id="applied"),
    ],
)
async def test_replicas_follow_a_patch_of_the_number_of_tasks(api: Api, change: Any, media: str) -> None:
    await scaled(api)

    force = "&force=true" if media == APPLY else ""
    changed = await api.patch(f"{A}?fieldManager=me{force}", change, media)

    assert numbers(changed.json()) == (3, 3)


async def test_replicas_follow_the_number_of_tasks_of_a_replaced_object(api: Api) -> None:
    stored = await scaled(api)

    follows = (await api.put(A, with_spec(stored, taskRoles=[a_role(tasks=3)]))).json()
    with_both = (await api.put(A, with_spec(follows, replicas=9, taskRoles=[a_role(tasks=4)]))).json()

    assert (numbers(follows), numbers(with_both)) == ((3, 3), (4, 9))


async def test_a_second_role_removes_replicas(api: Api) -> None:
    await scaled(api)

    changed = await api.patch(A, {"spec": {"taskRoles": [a_role(), a_role("ps")]}})

    assert changed.status == 200, changed.body
    assert numbers(changed.json()) == (2, None)


async def test_replicas_of_a_framework_with_two_roles_are_rejected(api: Api) -> None:
    both = with_spec(framework(), replicas=3, taskRoles=[a_role(), a_role("ps")])

    reported = (await api.post(B, both)).failure(422, "Invalid")

    assert causes(reported) == {"spec.replicas": "FieldValueForbidden"}
    assert "spec.taskRoles[0].taskNumber" in reported["message"]


async def test_the_same_apply_after_a_scale_changes_nothing(api: Api) -> None:
    desired = with_spec(framework(), taskRoles=[a_role(tasks=2)])
    await api.patch(f"{A}?fieldManager=one", desired, APPLY)
    await api.patch(f"{A}?fieldManager=two", with_spec(desired, replicas=4), APPLY)
    await api.patch(f"{A}/scale?fieldManager=three", {"spec": {"replicas": 5}})

    again = await api.patch(f"{A}?fieldManager=one", desired, APPLY)
    contradicts = await api.patch(f"{A}?fieldManager=two", with_spec(desired, replicas=4), APPLY)

    assert (again.status, numbers(again.json())) == (200, (2, 5))
    assert causes(contradicts.failure(409, "Conflict")) == {".spec.replicas": "FieldManagerConflict"}


async def test_a_framework_cannot_be_scaled_beyond_max_tasks(api: Api) -> None:
    await made(api)
    await api.patch(A, {"spec": {"replicas": 2}})

    reported = (await api.patch(f"{A}/scale", {"spec": {"replicas": 10_001}})).failure(422, "Invalid")

    assert causes(reported) == {"spec.replicas": "FieldValueInvalid", "spec.taskRoles": "FieldValueForbidden"}
