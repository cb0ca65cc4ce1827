"""Server-side apply over HTTP: who owns what, who is told no, and what goes."""

from typing import Any

import orjson
import pytest

from tests.api.client import APPLY, JSON_PATCH, MERGE
from tests.api.conftest import Api
from tests.api.samples import A, B, Json, causes, framework, made, version, with_metadata, with_spec
from tests.core.manifests import a_role

NOTE = "kubectl.kubernetes.io/last-applied-configuration"


async def apply(api: Api, manager: str, wish: Json, options: str = "") -> Json:
    """The Framework after *wish* was applied."""
    answer = await api.patch(f"{A}?fieldManager={manager}{options}", wish, APPLY)
    assert answer.status in (200, 201), answer.body
    new: Json = answer.json()
    return new


async def refused(api: Api, manager: str, wish: Json) -> dict[str, str]:
    """The fields over which there is a conflict, with what is said about each."""
    told = (await api.patch(f"{A}?fieldManager={manager}", wish, APPLY)).refused(409, "Conflict")
    assert set(causes(told).values()) == {"FieldManagerConflict"}
    return {cause["field"]: cause["message"] for cause in told["details"]["causes"]}


def managers(obj: Json) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["operation"]) for entry in obj["metadata"].get("managedFields", [])]


def owned(obj: Json, manager: str) -> Any:
    return next(e["fieldsV1"] for e in obj["metadata"]["managedFields"] if e["manager"] == manager)


async def test_what_nobody_has_applied_has_no_owners(api: Api) -> None:
    created = await made(api, managedFields=[{"manager": "me", "operation": "Apply"}])
    patched = (await api.patch(f"{A}?fieldManager=me", {"spec": {"description": "d"}})).json()
    body = with_metadata(patched, managedFields=[{"manager": "me", "operation": "Apply"}], labels={"a": "b"})
    replaced = (await api.put(A, body)).json()

    assert [managers(obj) for obj in (created, patched, replaced)] == [[], [], []]


async def test_what_is_created_by_an_apply_is_the_appliers_but_for_the_defaults(api: Api) -> None:
    new = await apply(api, "one", framework(labels={"a": "b"}))

    assert managers(new) == [("one", "Apply")]
    task: Json = {"f:pod": {"f:spec": {"f:containers": {}, "f:restartPolicy": {}}}}
    role = {".": {}, "f:name": {}, "f:taskNumber": {}, "f:task": task}
    assert owned(new, "one") == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:taskRoles": {'k:{"name":"worker"}': role}},
    }


async def test_the_same_apply_again_changes_nothing(api: Api) -> None:
    wish = with_spec(framework(), description="d")
    wish["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = {"minSucceededTaskCount": 0}
    first = await apply(api, "one", wish)

    assert await apply(api, "one", wish) == first
    shared = await apply(api, "two", wish)
    assert version(shared) > version(first)
    assert await apply(api, "one", wish) == shared


async def test_what_was_there_before_the_first_apply_is_in_conflict(api: Api) -> None:
    await made(api)
    wish = framework()
    wish["spec"]["taskRoles"][0]["taskNumber"] = 7

    told = await refused(api, "one", wish)

    [(field, message)] = told.items()
    assert field == '.spec.taskRoles[name="worker"].taskNumber'
    assert message.startswith('conflict with "before-first-apply" using launcher.microsoft.com/v1 at 20')
    assert managers((await api.get(A)).json()) == []
    forced = await apply(api, "one", wish, "&force=true")
    assert managers(forced) == [("before-first-apply", "Update"), ("one", "Apply")]
    assert forced["spec"]["taskRoles"][0]["taskNumber"] == 7


async def test_all_conflicts_are_told_at_once(api: Api) -> None:
    await apply(api, "one", with_spec(framework(labels={"a": "1"}), description="one"))

    answer = await api.patch(
        f"{A}?fieldManager=two", with_spec(framework(labels={"a": "2"}), description="two"), APPLY
    )

    assert answer.refused(409, "Conflict")["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .metadata.labels.a\n- .spec.description'
    )


async def test_a_field_left_out_goes_and_a_shared_one_with_its_last_owner(api: Api) -> None:
    wish = with_spec(framework(labels={"a": "1"}), description="d", discovery={"ports": {"worker": 5000}})
    await apply(api, "one", wish)
    await apply(api, "two", {**framework(), "spec": {"description": "d"}})

    after_one = await apply(api, "one", framework())
    after_two = await apply(api, "two", {**framework(), "spec": {}})

    assert after_one["spec"]["description"] == "d"
    assert "labels" not in after_one["metadata"]
    assert "discovery" not in after_one["spec"]
    assert "description" not in after_two["spec"]
    assert managers(after_two) == [("one", "Apply")]


async def test_a_role_left_out_goes_and_the_roles_of_others_stay(api: Api) -> None:
    await apply(api, "one", with_spec(framework(), taskRoles=[a_role("worker"), a_role("ps")]))
    await apply(api, "two", with_spec(framework(), taskRoles=[a_role("chief")]))

    new = await apply(api, "one", framework())

    assert [role["name"] for role in new["spec"]["taskRoles"]] == ["worker", "chief"]


async def test_null_is_the_same_as_left_out(api: Api) -> None:
    await apply(api, "one", with_spec(framework(), description="d"))
    roles = [{**a_role(), "background": None}]

    shared = await apply(api, "two", with_spec(framework(), description=None, taskRoles=roles))
    gone = await apply(api, "one", with_spec(framework(), description=None))

    assert shared["spec"]["description"] == "d"
    assert "description" not in gone["spec"]


async def test_roles_of_one_name_are_refused_and_not_merged(api: Api) -> None:
    await apply(api, "one", framework())
    wish = with_spec(framework(), taskRoles=[a_role(), a_role()])

    told = (await api.patch(f"{A}?fieldManager=two", wish, APPLY)).refused(422, "Invalid")

    assert causes(told) == {"spec.taskRoles[1].name": "FieldValueDuplicate"}


async def test_what_is_wrong_is_told_before_what_is_in_conflict(api: Api) -> None:
    await apply(api, "one", framework())
    wish = with_spec(framework(), taskRoles=[a_role(tasks=-1)])

    (await api.patch(f"{A}?fieldManager=two", wish, APPLY)).refused(422, "Invalid")


async def test_a_rehearsed_apply_tells_the_conflict_and_stores_nothing(api: Api) -> None:
    first = await apply(api, "one", with_spec(framework(), description="one"))
    wish = with_spec(framework(), description="two")

    (await api.patch(f"{A}?fieldManager=two&dryRun=All", wish, APPLY)).refused(409, "Conflict")
    rehearsed = await apply(api, "two", wish, "&dryRun=All&force=true")

    assert managers(rehearsed) == [("one", "Apply"), ("two", "Apply")]
    assert (await api.get(A)).json() == first


# Other writes of what has been applied


async def test_a_patch_takes_what_it_changes(api: Api) -> None:
    await apply(api, "one", with_spec(framework(), description="one"))

    new = (await api.patch(A, {"spec": {"description": "new"}})).json()

    assert managers(new) == [("one", "Apply"), ("launcher-tests", "Update")]
    assert owned(new, "launcher-tests") == {"f:spec": {"f:description": {}}}
    assert await refused(api, "one", with_spec(framework(), description="one")) == {
        ".spec.description": 'conflict with "launcher-tests" using launcher.microsoft.com/v1 at '
        + new["metadata"]["managedFields"][1]["time"]
    }


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        pytest.param("kubectl/v1.32 (linux/amd64)", "kubectl", id="a program with its version"),
        pytest.param("x" * 200, "x" * 128, id="a long name"),
        pytest.param("", "unknown", id="no name"),
    ],
)
async def test_who_does_not_say_who_writes_is_called_as_its_program_is(
    api: Api, agent: str, manager: str
) -> None:
    await apply(api, "one", framework())

    answer = await api.call("PATCH", A, {"spec": {"description": "d"}}, MERGE, {"User-Agent": agent})

    assert managers(answer.json()) == [("one", "Apply"), (manager, "Update")]


async def test_a_put_takes_what_it_changes_even_if_it_knows_nothing_of_owners(api: Api) -> None:
    first = await apply(api, "one", with_spec(framework(labels={"a": "1"}), description="one"))

    body = with_metadata(with_spec(first, description="new"), managedFields=None, labels=None)
    new = (await api.put(f"{A}?fieldManager=two", body)).json()

    assert owned(new, "two") == {"f:spec": {"f:description": {}}}
    assert owned(new, "one").keys() == {"f:spec"}
    assert "f:description" not in owned(new, "one")["f:spec"]


async def test_a_put_that_changes_nothing_changes_no_owners(api: Api) -> None:
    first = await apply(api, "one", framework())

    assert (await api.put(f"{A}?fieldManager=two", first)).json() == first
    assert (await api.put(f"{A}?fieldManager=two", with_metadata(first, managedFields=None))).json() == first


async def test_who_scales_owns_the_number_of_tasks(api: Api) -> None:
    await apply(api, "one", framework())

    await api.patch(f"{A}/scale?fieldManager=scaler", {"spec": {"replicas": 5}})

    assert await refused(api, "one", framework()) != {}
    new = (await api.get(A)).json()
    assert owned(new, "scaler")["f:spec"]["f:taskRoles"] == {'k:{"name":"worker"}': {"f:taskNumber": {}}}


async def test_a_status_has_no_owners(api: Api) -> None:
    first = await apply(api, "one", framework())

    new = (await api.patch(f"{A}/status?fieldManager=two", {"status": {"a": "b"}})).json()

    assert new["metadata"]["managedFields"] == first["metadata"]["managedFields"]


@pytest.mark.parametrize("nothing", [[], [{}]])
async def test_owners_can_be_cleared(api: Api, nothing: list[Json]) -> None:
    first = await apply(api, "one", framework())
    patched = (await api.patch(A, {"metadata": {"managedFields": nothing}})).json()
    await apply(api, "one", framework())
    second = (await api.get(A)).json()
    replaced = (await api.put(A, with_metadata(second, managedFields=nothing))).json()

    assert [managers(obj) for obj in (patched, replaced)] == [[], []]
    assert patched["spec"] == first["spec"]


async def test_a_json_patch_may_replace_the_owners(api: Api) -> None:
    first = await apply(api, "one", framework())
    entries = [{**first["metadata"]["managedFields"][0], "manager": "two"}]

    def operations(value: Any) -> list[Json]:
        return [{"op": "replace", "path": "/metadata/managedFields", "value": value}]

    new = (await api.patch(A, operations(entries), JSON_PATCH)).json()
    told = await api.patch(A, operations([{"operation": "Own"}]), JSON_PATCH)

    assert new["metadata"]["managedFields"] == entries
    assert "managedFields[0].operation" in told.refused(400, "BadRequest")["message"]


# kubectl's own apply, before and after


async def test_kubectl_takes_over_what_it_has_applied_by_itself(api: Api) -> None:
    config = with_spec(framework(), description="d", taskRoles=[a_role("worker"), a_role("ps")])
    await api.post(B, with_metadata(config, annotations={NOTE: orjson.dumps(config).decode()}))
    await api.patch(A, {"metadata": {"labels": {"other": "1"}}})
    wish = with_spec(framework(), taskRoles=[a_role("worker", 5)])

    new = await apply(api, "kubectl", wish)

    assert "description" not in new["spec"]
    assert [(role["name"], role["taskNumber"]) for role in new["spec"]["taskRoles"]] == [("worker", 5)]
    assert new["metadata"]["labels"] == {"other": "1"}
    assert managers(new) == [("kubectl", "Apply"), ("before-first-apply", "Update")]
    assert orjson.loads(new["metadata"]["annotations"][NOTE]) == wish


async def test_what_kubectl_notes_on_an_object_it_notes_once(api: Api) -> None:
    wish = framework(annotations={NOTE: "from another place"})

    first = await apply(api, "kubectl", wish)
    second = await apply(api, "kubectl", wish)

    assert orjson.loads(second["metadata"]["annotations"][NOTE]) == framework(annotations={})
    assert second == await apply(api, "kubectl", wish)
    assert first["spec"] == second["spec"]
