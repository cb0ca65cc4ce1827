"""Server-side apply over HTTP: managers, conflicts and removed fields."""

from typing import Any

import orjson
import pytest

from tests.api.client import APPLY, JSON_PATCH, MERGE
from tests.api.conftest import Api
from tests.api.samples import A, B, Json, causes, framework, made, version, with_metadata, with_spec
from tests.builders import a_role

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def apply(api: Api, manager: str, desired: Json, options: str = "") -> Json:
    """The Framework after *wish* was applied."""
    response = await api.patch(f"{A}?fieldManager={manager}{options}", desired, APPLY)
    assert response.status in (200, 201), response.body
    new: Json = response.json()
    return new


async def failure(api: Api, manager: str, desired: Json) -> dict[str, str]:
    """Returns the conflicting fields with the message of each."""
    reported = (await api.patch(f"{A}?fieldManager={manager}", desired, APPLY)).failure(409, "Conflict")
    assert set(causes(reported).values()) == {"FieldManagerConflict"}
    return {cause["field"]: cause["message"] for cause in reported["details"]["causes"]}


def managers(obj: Json) -> list[tuple[str, str]]:
    return [(entry["manager"], entry["operation"]) for entry in obj["metadata"].get("managedFields", [])]


def owned(obj: Json, manager: str) -> Any:
    return next(e["fieldsV1"] for e in obj["metadata"]["managedFields"] if e["manager"] == manager)


async def test_a_framework_that_was_never_applied_has_no_managers(api: Api) -> None:
    created = await made(api, managedFields=[{"manager": "me", "operation": "Apply"}])
    patched = (await api.patch(f"{A}?fieldManager=me", {"spec": {"description": "d"}})).json()
    body = with_metadata(patched, managedFields=[{"manager": "me", "operation": "Apply"}], labels={"a": "b"})
    replaced = (await api.put(A, body)).json()

    assert [managers(obj) for obj in (created, patched, replaced)] == [[], [], []]


async def test_an_applier_manages_what_it_created_except_defaults(api: Api) -> None:
    new = await apply(api, "one", framework(labels={"a": "b"}))

    assert managers(new) == [("one", "Apply")]
    task: Json = {"f:pod": {"f:spec": {"f:containers": {}, "f:restartPolicy": {}}}}
    role = {".": {}, "f:name": {}, "f:taskNumber": {}, "f:task": task}
    assert owned(new, "one") == {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:taskRoles": {'k:{"name":"worker"}': role}},
    }


async def test_the_same_apply_again_changes_nothing(api: Api) -> None:
    desired = with_spec(framework(), description="d")
    desired["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = {"minSucceededTaskCount": 0}
    first = await apply(api, "one", desired)

    assert await apply(api, "one", desired) == first
    shared = await apply(api, "two", desired)
    assert version(shared) > version(first)
    assert await apply(api, "one", desired) == shared


async def test_fields_set_before_the_first_apply_conflict(api: Api) -> None:
    await made(api)
    desired = framework()
    desired["spec"]["taskRoles"][0]["taskNumber"] = 7

    reported = await failure(api, "one", desired)

    [(field, message)] = reported.items()
    assert field == '.spec.taskRoles[name="worker"].taskNumber'
    assert message.startswith('conflict with "before-first-apply" using launcher.microsoft.com/v1 at 20')
    assert managers((await api.get(A)).json()) == []
    forced = await apply(api, "one", desired, "&force=true")
    assert managers(forced) == [("before-first-apply", "Update"), ("one", "Apply")]
    assert forced["spec"]["taskRoles"][0]["taskNumber"] == 7


async def test_all_conflicts_are_reported_at_once(api: Api) -> None:
    await apply(api, "one", with_spec(framework(labels={"a": "1"}), description="one"))

    response = await api.patch(
        f"{A}?fieldManager=two", with_spec(framework(labels={"a": "2"}), description="two"), APPLY
    )

    assert response.failure(409, "Conflict")["message"] == (
        'Apply failed with 2 conflicts: conflicts with "one":\n- .metadata.labels.a\n- .spec.description'
    )


async def test_an_omitted_field_is_removed_with_its_last_manager(api: Api) -> None:
    desired = with_spec(framework(labels={"a": "1"}), description="d", discovery={"ports": {"worker": 5000}})
    await apply(api, "one", desired)
    await apply(api, "two", {**framework(), "spec": {"description": "d"}})

    after_one = await apply(api, "one", framework())
    after_two = await apply(api, "two", {**framework(), "spec": {}})

    assert after_one["spec"]["description"] == "d"
    assert "labels" not in after_one["metadata"]
    assert "discovery" not in after_one["spec"]
    assert "description" not in after_two["spec"]
    assert managers(after_two) == [("one", "Apply")]


async def test_an_omitted_role_is_removed_and_roles_of_other_managers_stay(api: Api) -> None:
    await apply(api, "one", with_spec(framework(), taskRoles=[a_role("worker"), a_role("ps")]))
    await apply(api, "two", with_spec(framework(), taskRoles=[a_role("chief")]))

    new = await apply(api, "one", framework())

    assert [role["name"] for role in new["spec"]["taskRoles"]] == ["worker", "chief"]


async def test_null_is_the_same_as_omitted(api: Api) -> None:
    await apply(api, "one", with_spec(framework(), description="d"))
    roles = [{**a_role(), "background": None}]

    shared = await apply(api, "two", with_spec(framework(), description=None, taskRoles=roles))
    deleted = await apply(api, "one", with_spec(framework(), description=None))

    assert shared["spec"]["description"] == "d"
    assert "description" not in deleted["spec"]


async def test_duplicate_role_names_are_rejected(api: Api) -> None:
    await apply(api, "one", framework())
    desired = with_spec(framework(), taskRoles=[a_role(), a_role()])

    reported = (await api.patch(f"{A}?fieldManager=two", desired, APPLY)).failure(422, "Invalid")

    assert causes(reported) == {"spec.taskRoles[1].name": "FieldValueDuplicate"}


async def test_validation_errors_precede_conflicts(api: Api) -> None:
    await apply(api, "one", framework())
    desired = with_spec(framework(), taskRoles=[a_role(tasks=-1)])

    (await api.patch(f"{A}?fieldManager=two", desired, APPLY)).failure(422, "Invalid")


async def test_a_dry_run_apply_reports_conflicts_and_stores_nothing(api: Api) -> None:
    first = await apply(api, "one", with_spec(framework(), description="one"))
    desired = with_spec(framework(), description="two")

    (await api.patch(f"{A}?fieldManager=two&dryRun=All", desired, APPLY)).failure(409, "Conflict")
    dry_run = await apply(api, "two", desired, "&dryRun=All&force=true")

    assert managers(dry_run) == [("one", "Apply"), ("two", "Apply")]
    assert (await api.get(A)).json() == first


# Other writes of what has been applied


async def test_a_patch_manages_what_it_changes(api: Api) -> None:
    await apply(api, "one", with_spec(framework(), description="one"))

    new = (await api.patch(A, {"spec": {"description": "new"}})).json()

    assert managers(new) == [("one", "Apply"), ("launcher-tests", "Update")]
    assert owned(new, "launcher-tests") == {"f:spec": {"f:description": {}}}
    assert await failure(api, "one", with_spec(framework(), description="one")) == {
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
async def test_the_default_field_manager_is_the_client_program(api: Api, agent: str, manager: str) -> None:
    await apply(api, "one", framework())

    response = await api.call("PATCH", A, {"spec": {"description": "d"}}, MERGE, {"User-Agent": agent})

    assert managers(response.json()) == [("one", "Apply"), (manager, "Update")]


async def test_a_put_without_managed_fields_manages_what_it_changes(api: Api) -> None:
    first = await apply(api, "one", with_spec(framework(labels={"a": "1"}), description="one"))

    body = with_metadata(with_spec(first, description="new"), managedFields=None, labels=None)
    new = (await api.put(f"{A}?fieldManager=two", body)).json()

    assert owned(new, "two") == {"f:spec": {"f:description": {}}}
    assert owned(new, "one").keys() == {"f:spec"}
    assert "f:description" not in owned(new, "one")["f:spec"]


async def test_a_put_that_changes_nothing_changes_no_managers(api: Api) -> None:
    first = await apply(api, "one", framework())

    assert (await api.put(f"{A}?fieldManager=two", first)).json() == first
    assert (await api.put(f"{A}?fieldManager=two", with_metadata(first, managedFields=None))).json() == first


async def test_a_scale_manages_the_number_of_tasks(api: Api) -> None:
    await apply(api, "one", framework())

    await api.patch(f"{A}/scale?fieldManager=scaler", {"spec": {"replicas": 5}})

    assert await failure(api, "one", framework()) != {}
    new = (await api.get(A)).json()
    assert owned(new, "scaler")["f:spec"]["f:taskRoles"] == {'k:{"name":"worker"}': {"f:taskNumber": {}}}


async def test_a_status_has_no_managers(api: Api) -> None:
    first = await apply(api, "one", framework())

    new = (await api.patch(f"{A}/status?fieldManager=two", {"status": {"a": "b"}})).json()

    assert new["metadata"]["managedFields"] == first["metadata"]["managedFields"]


@pytest.mark.parametrize("nothing", [[], [{}]])
async def test_managed_fields_can_be_cleared(api: Api, nothing: list[Json]) -> None:
    first = await apply(api, "one", framework())
    patched = (await api.patch(A, {"metadata": {"managedFields": nothing}})).json()
    await apply(api, "one", framework())
    second = (await api.get(A)).json()
    replaced = (await api.put(A, with_metadata(second, managedFields=nothing))).json()

    assert [managers(obj) for obj in (patched, replaced)] == [[], []]
    assert patched["spec"] == first["spec"]


async def test_a_json_patch_may_replace_managed_fields(api: Api) -> None:
    first = await apply(api, "one", framework())
    entries = [{**first["metadata"]["managedFields"][0], "manager": "two"}]

    def operations(value: Any) -> list[Json]:
        return [{"op": "replace", "path": "/metadata/managedFields", "value": value}]

    new = (await api.patch(A, operations(entries), JSON_PATCH)).json()
    reported = await api.patch(A, operations([{"operation": "Own"}]), JSON_PATCH)

    assert new["metadata"]["managedFields"] == entries
    assert "managedFields[0].operation" in reported.failure(400, "BadRequest")["message"]


# kubectl's own apply, before and after


async def test_kubectl_manages_fields_of_its_client_side_apply(api: Api) -> None:
    config = with_spec(framework(), description="d", taskRoles=[a_role("worker"), a_role("ps")])
    await api.post(B, with_metadata(config, annotations={LAST_APPLIED: orjson.dumps(config).decode()}))
    await api.patch(A, {"metadata": {"labels": {"other": "1"}}})
    desired = with_spec(framework(), taskRoles=[a_role("worker", 5)])

    new = await apply(api, "kubectl", desired)

    assert "description" not in new["spec"]
    assert [(role["name"], role["taskNumber"]) for role in new["spec"]["taskRoles"]] == [("worker", 5)]
    assert new["metadata"]["labels"] == {"other": "1"}
    assert managers(new) == [("kubectl", "Apply"), ("before-first-apply", "Update")]
    assert orjson.loads(new["metadata"]["annotations"][LAST_APPLIED]) == desired


async def test_the_last_applied_annotation_does_not_contain_itself(api: Api) -> None:
    desired = framework(annotations={LAST_APPLIED: "from another place"})

    first = await apply(api, "kubectl", desired)
    second = await apply(api, "kubectl", desired)

    assert orjson.loads(second["metadata"]["annotations"][LAST_APPLIED]) == framework(annotations={})
    assert second == await apply(api, "kubectl", desired)
    assert first["spec"] == second["spec"]
