"""``spec.replicas`` over HTTP: the scale of a Framework that has one role, however it is written."""

from typing import Any

import pytest

from tests.api.client import APPLY, JSON_PATCH, MERGE
from tests.api.conftest import Api
from tests.api.samples import A, B, Json, causes, framework, made, with_spec
from tests.core.manifests import a_role


async def scaled(api: Api, tasks: int = 2, replicas: int = 5) -> Json:
    """A Framework that says both numbers, stored."""
    answer = await api.post(B, with_spec(framework(), replicas=replicas, taskRoles=[a_role(tasks=tasks)]))
    assert answer.status == 201, answer.body
    stored: Json = answer.json()
    return stored


def numbers(obj: Json) -> tuple[Any, Any]:
    """``taskNumber`` of the first role, and ``replicas``."""
    return obj["spec"]["taskRoles"][0]["taskNumber"], obj["spec"].get("replicas")


async def test_nothing_is_added_to_a_framework_that_says_nothing_of_replicas(api: Api) -> None:
    stored = await made(api)
    scale = (await api.patch(f"{A}/scale", {"spec": {"replicas": 5}})).json()

    assert numbers(stored) == (2, None)
    assert scale["spec"] == {"replicas": 5}
    assert numbers((await api.get(A)).json()) == (5, None)


async def test_a_framework_that_says_it_is_scaled_by_it(api: Api) -> None:
    await scaled(api)

    before = (await api.get(f"{A}/scale")).json()
    after = (await api.patch(f"{A}/scale", {"spec": {"replicas": 7}})).json()

    assert (before["spec"], after["spec"]) == ({"replicas": 5}, {"replicas": 7})
    assert numbers((await api.get(A)).json()) == (2, 7)


async def test_who_says_two_numbers_is_warned_once(api: Api) -> None:
    answer = await api.post(B, with_spec(framework(), replicas=5))
    later = await api.patch(A, {"metadata": {"labels": {"a": "b"}}})

    assert "spec.replicas: 5 stands over taskNumber 2 of role worker" in answer.headers["Warning"]
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
async def test_replicas_follows_a_patch_of_the_number_of_tasks(api: Api, change: Any, media: str) -> None:
    await scaled(api)

    force = "&force=true" if media == APPLY else ""
    changed = await api.patch(f"{A}?fieldManager=me{force}", change, media)

    assert numbers(changed.json()) == (3, 3)


async def test_replicas_follows_the_number_of_tasks_of_an_object_in_its_place(api: Api) -> None:
    stored = await scaled(api)

    follows = (await api.put(A, with_spec(stored, taskRoles=[a_role(tasks=3)]))).json()
    says_both = (await api.put(A, with_spec(follows, replicas=9, taskRoles=[a_role(tasks=4)]))).json()

    assert (numbers(follows), numbers(says_both)) == ((3, 3), (4, 9))


async def test_with_a_second_role_replicas_goes(api: Api) -> None:
    await scaled(api)

    changed = await api.patch(A, {"spec": {"taskRoles": [a_role(), a_role("ps")]}})

    assert changed.status == 200, changed.body
    assert numbers(changed.json()) == (2, None)


async def test_a_framework_of_two_roles_that_says_it_is_refused(api: Api) -> None:
    both = with_spec(framework(), replicas=3, taskRoles=[a_role(), a_role("ps")])

    told = (await api.post(B, both)).refused(422, "Invalid")

    assert causes(told) == {"spec.replicas": "FieldValueForbidden"}
    assert "spec.taskRoles[0].taskNumber" in told["message"]


async def test_the_same_apply_after_a_scale_changes_nothing(api: Api) -> None:
    wish = with_spec(framework(), taskRoles=[a_role(tasks=2)])
    await api.patch(f"{A}?fieldManager=one", wish, APPLY)
    await api.patch(f"{A}?fieldManager=two", with_spec(wish, replicas=4), APPLY)
    await api.patch(f"{A}/scale?fieldManager=three", {"spec": {"replicas": 5}})

    again = await api.patch(f"{A}?fieldManager=one", wish, APPLY)
    contradicts = await api.patch(f"{A}?fieldManager=two", with_spec(wish, replicas=4), APPLY)

    assert (again.status, numbers(again.json())) == (200, (2, 5))
    assert causes(contradicts.refused(409, "Conflict")) == {".spec.replicas": "FieldManagerConflict"}


async def test_a_framework_may_not_be_scaled_to_more_than_the_most(api: Api) -> None:
    await made(api)
    await api.patch(A, {"spec": {"replicas": 2}})

    told = (await api.patch(f"{A}/scale", {"spec": {"replicas": 10_001}})).refused(422, "Invalid")

    assert causes(told) == {"spec.replicas": "FieldValueInvalid"}
