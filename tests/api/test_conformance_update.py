"""PUT and PATCH: validation, conflicts and apply."""

import asyncio
from typing import Any

import pytest

from launcher.core.errors import Conflict
from launcher.store.interface import FRAMEWORKS
from tests.api.client import APPLY, JSON, JSON_PATCH, MERGE
from tests.api.conftest import Api
from tests.api.samples import (
    A,
    B,
    causes,
    framework,
    labelled,
    made,
    version,
    with_metadata,
    with_spec,
)
from tests.builders import a_role

APPLIED = f"{A}?fieldManager=tests"


async def test_check_019_a_label_is_set_by_a_merge_patch(api: Api) -> None:
    stored = await made(api)

    response = await api.patch(A, {"metadata": {"labels": {"x": "1"}}})

    assert response.status == 200
    metadata = response.json()["metadata"]
    assert metadata["labels"] == {"x": "1"}
    assert metadata["generation"] == 1
    assert version(response.json()) > version(stored)


async def test_check_020_a_spec_is_replaced(api: Api) -> None:
    stored = await made(api)

    response = await api.put(A, with_spec(stored, description="new"))

    assert response.status == 200
    assert response.json()["spec"]["description"] == "new"
    assert response.json()["metadata"]["generation"] == 2


async def test_check_021_an_update_of_an_older_version_is_a_conflict(api: Api) -> None:
    stored = await made(api)
    await labelled(api, "a", x="1")

    reported = (await api.put(A, with_spec(stored, description="new"))).failure(409, "Conflict")

    assert reported["details"] == {"name": "a", "group": "launcher.microsoft.com", "kind": "frameworks"}
    assert "the object has been modified" in reported["message"]


async def test_check_034_a_put_that_changes_nothing_changes_nothing(api: Api) -> None:
    stored = await made(api)

    async with api.watch(f"{B}?watch=1&resourceVersion={version(stored)}") as stream:
        response = await api.put(A, stored)
        await made(api, "after")
        event = await stream.next()

    assert response.json() == stored
    assert event["object"]["metadata"]["name"] == "after"


async def test_check_035_an_update_does_not_change_the_status(api: Api) -> None:
    stored = await made(api)

    response = await api.put(A, {**stored, "status": {"state": "Completed"}})

    assert (response.status, response.json(), response.warnings) == (200, stored, [])


async def test_check_036_a_status_update_changes_only_the_status(api: Api) -> None:
    stored = await made(api)
    body = with_metadata(with_spec(stored, description="new"), labels={"x": "1"})

    response = await api.put(f"{A}/status", {**body, "status": {"state": "Completed"}})

    assert response.status == 200
    new = response.json()
    assert new["status"] == {"state": "Completed"}
    assert (new["spec"], new["metadata"].get("labels")) == (stored["spec"], None)
    assert new["metadata"]["generation"] == 1
    assert version(new) > version(stored)
    assert (await api.get(f"{A}/status")).json() == (await api.get(A)).json() == new
    (await api.put(f"{A}/status", {**body, "status": {}})).failure(409, "Conflict")


async def test_check_037_a_status_patch_changes_only_the_status(api: Api) -> None:
    stored = await made(api)

    response = await api.patch(f"{A}/status", {"spec": {"description": "new"}, "status": {"state": "x"}})

    assert response.status == 200
    assert response.json()["spec"] == stored["spec"]
    assert response.json()["status"] == {"state": "x"}
    reported = (await api.patch(f"{A}/status", {"status": "x"})).failure(422, "Invalid")
    assert list(causes(reported)) == ["status"]


async def test_check_038_a_put_without_a_version_is_rejected(api: Api) -> None:
    stored = await made(api)

    for given in (None, "0"):
        reported = (await api.put(A, with_metadata(stored, resourceVersion=given))).failure(422, "Invalid")
        assert causes(reported) == {"metadata.resourceVersion": "FieldValueInvalid"}
        assert "patch" in reported["message"]
    (await api.put(A, with_metadata(stored, resourceVersion="x"))).failure(400, "BadRequest")


async def test_check_039_a_put_creates_nothing(api: Api) -> None:
    (await api.put(f"{B}/nosuch", framework("nosuch", resourceVersion="1"))).failure(404, "NotFound")


async def test_check_040_a_put_to_another_name_is_rejected(api: Api) -> None:
    stored = await made(api)

    reported = (await api.put(A, with_metadata(stored, name="b"))).failure(400, "BadRequest")

    assert "the name of the object (b)" in reported["message"]


async def test_check_042_another_object_of_the_same_name_is_a_conflict(api: Api) -> None:
    stored = await made(api)

    (await api.put(A, with_metadata(stored, uid="another"))).failure(409, "Conflict")


async def test_check_043_a_patch_of_an_older_version_is_a_conflict(api: Api) -> None:
    stored = await made(api)
    await labelled(api, "a", x="1")

    patch = {"metadata": {"resourceVersion": str(version(stored)), "labels": {"y": "1"}}}
    (await api.patch(A, patch)).failure(409, "Conflict")

    patch["metadata"]["resourceVersion"] = (await api.get(A)).json()["metadata"]["resourceVersion"]
    assert (await api.patch(A, patch)).status == 200


async def test_check_044_concurrent_patches_are_all_applied(api: Api) -> None:
    await made(api)

    answers = await asyncio.gather(
        *(api.patch(A, {"metadata": {"labels": {f"l{n}": "1"}}}) for n in range(20))
    )

    assert [response.status for response in answers] == [200] * 20
    assert len((await api.get(A)).json()["metadata"]["labels"]) == 20


async def test_check_044_a_patch_is_retried_on_conflict(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await made(api)
    update, ahead = api.store.update, 3

    async def raced(*arguments: Any, **options: Any) -> Any:
        nonlocal ahead
        if ahead:
            ahead -= 1
            stored = await api.store.get(FRAMEWORKS, "default", "a")
            await api.store.update_status(FRAMEWORKS, {**stored, "status": {"ahead": ahead}})
        return await update(*arguments, **options)

    monkeypatch.setattr(api.store, "update", raced)

    response = await api.patch(A, {"metadata": {"labels": {"x": "1"}}})

    assert response.status == 200
    assert response.json()["status"] == {"ahead": 0}
    assert response.json()["metadata"]["labels"] == {"x": "1"}


async def test_check_044_a_patch_that_always_conflicts_fails(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(api)

    async def conflicting(*_: Any, **__: Any) -> None:
        raise Conflict("too late")

    monkeypatch.setattr(api.store, "update", conflicting)

    (await api.patch(A, {"metadata": {"labels": {"x": "1"}}})).failure(409, "Conflict")


async def test_check_045_one_of_concurrent_puts_succeeds(api: Api) -> None:
    stored = await made(api)

    answers = await asyncio.gather(
        *(api.put(A, with_metadata(stored, labels={"n": str(n)})) for n in range(20))
    )

    assert sorted(response.status for response in answers) == [200] + [409] * 19


async def test_check_046_the_operations_of_a_json_patch_are_applied_in_order(api: Api) -> None:
    await made(api, labels={"a": "1", "b/c": "2"})

    response = await api.patch(
        A,
        [
            {"op": "test", "path": "/metadata/labels/a", "value": "1"},
            {"op": "replace", "path": "/metadata/labels/a", "value": "3"},
            {"op": "remove", "path": "/metadata/labels/b~1c"},
            {"op": "add", "path": "/spec/roleSequence", "value": []},
            {"op": "add", "path": "/spec/roleSequence/-", "value": "worker"},
        ],
        JSON_PATCH,
    )

    assert response.status == 200
    assert response.json()["metadata"]["labels"] == {"a": "3"}
    assert response.json()["spec"]["roleSequence"] == ["worker"]
    assert response.json()["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/metadata/name", "value": "b"},
        {"op": "remove", "path": "/metadata/labels/nosuch"},
        {"op": "paint", "path": "/metadata"},
    ],
    ids=["test", "path", "operation"],
)
async def test_check_047_a_json_patch_that_cannot_be_applied_is_rejected(
    api: Api, operation: dict[str, Any]
) -> None:
    stored = await made(api)

    (await api.patch(A, [operation], JSON_PATCH)).failure(422, "Invalid")

    assert (await api.get(A)).json() == stored


@pytest.mark.parametrize("body", [b"{", b'{"op": "add"}', b'["add"]'])
async def test_an_invalid_json_patch_is_rejected(api: Api, body: bytes) -> None:
    await made(api)

    assert (await api.patch(A, body, JSON_PATCH)).status in (400, 422)


@pytest.mark.parametrize("declared", [JSON, "application/strategic-merge-patch+json", None])
async def test_check_048_unsupported_patch_types_are_rejected(api: Api, declared: str | None) -> None:
    await made(api)

    reported = (await api.patch(A, {}, declared)).failure(415, "UnsupportedMediaType")

    assert all(accepted in reported["message"] for accepted in (MERGE, JSON_PATCH, APPLY))


async def test_check_049_an_apply_needs_a_field_manager(api: Api) -> None:
    reported = (await api.patch(A, framework(), APPLY)).failure(422, "Invalid")

    assert (reported["details"]["kind"], causes(reported)) == (
        "PatchOptions",
        {"fieldManager": "FieldValueRequired"},
    )


async def test_check_050_an_apply_creates_and_then_changes_nothing(api: Api) -> None:
    created = await api.patch(APPLIED, framework(), APPLY)
    again = await api.patch(APPLIED, framework(), APPLY)

    assert (created.status, again.status) == (201, 200)
    assert created.json() == again.json() == (await api.get(A)).json()


async def test_check_050_an_applied_configuration_is_merged(api: Api) -> None:
    await api.patch(APPLIED, framework(labels={"x": "1"}), APPLY)
    roles = [{"name": "worker", "taskNumber": 5}, a_role("ps")]
    desired = {**framework(labels={"y": "2"}), "spec": {"taskRoles": roles}}

    new = (await api.patch(f"{A}?fieldManager=other&force=true", desired, APPLY)).json()

    assert new["metadata"]["labels"] == {"x": "1", "y": "2"}
    assert [(role["name"], role["taskNumber"]) for role in new["spec"]["taskRoles"]] == [
        ("worker", 5),
        ("ps", 2),
    ]
    assert new["spec"]["taskRoles"][0]["task"]["pod"]


@pytest.mark.parametrize(
    ("desired", "status"),
    [
        pytest.param({"metadata": {"name": "a"}}, 400, id="no kind"),
        pytest.param(framework("b"), 400, id="another name"),
        pytest.param(framework(managedFields=[{}]), 400, id="managed fields"),
        pytest.param(framework(uid="some"), 409, id="the uid of a deleted object"),
        pytest.param(with_spec(framework(), bogus=1), 400, id="an unknown field, strictly"),
    ],
)
async def test_an_invalid_applied_configuration_is_rejected(
    api: Api, desired: dict[str, Any], status: int
) -> None:
    response = await api.patch(f"{APPLIED}&fieldValidation=Strict", desired, APPLY)

    assert response.status == status
    (await api.get(A)).failure(404, "NotFound")


async def test_a_status_cannot_be_applied_to_a_missing_object(api: Api) -> None:
    url = f"{A}/status?fieldManager=tests"

    (await api.patch(url, {**framework(), "status": {"a": "b"}}, APPLY)).failure(404, "NotFound")

    await made(api)
    applied = await api.patch(url, {**framework(), "status": {"a": "b"}}, APPLY)
    assert (applied.status, applied.json()["status"]) == (200, {"a": "b"})


async def test_check_051_an_empty_patch_changes_nothing(api: Api) -> None:
    stored = await made(api)

    response = await api.patch(A, {})

    assert (response.status, response.json()) == (200, stored)


async def test_check_062_no_finalizer_is_added_to_an_object_being_deleted(api: Api) -> None:
    await made(api, finalizers=["example.com/hold"])
    deleting = (await api.delete(A, {"propagationPolicy": "Background"})).json()

    body = with_metadata(deleting, finalizers=["example.com/hold", "example.com/late"])
    reported = (await api.put(A, body)).failure(422, "Invalid")

    assert causes(reported) == {"metadata.finalizers": "FieldValueForbidden"}


async def test_check_100_server_side_metadata_cannot_be_changed(api: Api) -> None:
    await made(api, finalizers=["example.com/hold"])
    deleting = (await api.delete(A, {"propagationPolicy": "Background"})).json()
    changes = {"deletionTimestamp": None, "deletionGracePeriodSeconds": None, "generation": 77}

    body = with_metadata(deleting, creationTimestamp="2001-01-01T00:00:00Z", **changes)
    response = await api.put(A, body)

    assert (response.status, response.json()) == (200, deleting)


async def test_check_101_a_uid_cannot_be_patched(api: Api) -> None:
    await made(api)

    reported = (await api.patch(A, {"metadata": {"uid": "another"}})).failure(422, "Invalid")

    assert causes(reported) == {"metadata.uid": "FieldValueInvalid"}
    (await api.patch(A, {"metadata": {"name": "another"}})).failure(400, "BadRequest")


async def test_check_102_only_an_apply_can_be_forced(api: Api) -> None:
    await made(api)

    reported = (await api.patch(f"{A}?force=true", {})).failure(422, "Invalid")

    assert causes(reported) == {"force": "FieldValueForbidden"}
    assert (await api.patch(f"{APPLIED}&force=true", framework(), APPLY)).status == 200


async def test_check_103_fields_of_another_manager_are_changed_only_by_force(api: Api) -> None:
    await api.patch(f"{A}?fieldManager=one", with_spec(framework(), description="one"), APPLY)
    url, desired = f"{A}?fieldManager=two", with_spec(framework(), description="two")

    reported = (await api.patch(url, desired, APPLY)).failure(409, "Conflict")
    kept = (await api.get(A)).json()
    forced = await api.patch(f"{url}&force=true", desired, APPLY)

    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.description"}
    assert reported["details"] == {"causes": [cause]}
    assert kept["spec"]["description"] == "one"
    assert (forced.status, forced.json()["spec"]["description"]) == (200, "two")
    owners = {
        entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in forced.json()["metadata"]["managedFields"]
    }
    assert ["f:description" in owners[manager] for manager in ("one", "two")] == [False, True]


async def test_check_112_the_scale_is_the_number_of_tasks(api: Api) -> None:
    stored = await made(api)

    scale = (await api.get(f"{A}/scale")).json()
    patched = await api.patch(f"{A}/scale", {"spec": {"replicas": 5}})
    put = await api.put(f"{A}/scale", {**patched.json(), "spec": {"replicas": 6}}, None)
    (await api.put(f"{A}/scale", {**scale, "spec": {"replicas": 7}})).failure(409, "Conflict")

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["metadata"]["uid"] == stored["metadata"]["uid"]
    assert scale["status"]["selector"] == "FC_FRAMEWORK_NAME=a,FC_TASKROLE_NAME=worker"
    assert (patched.status, patched.json()["spec"]) == (200, {"replicas": 5})
    assert (put.status, put.json()["spec"]) == (200, {"replicas": 6})
    now = (await api.get(A)).json()
    assert now["spec"]["taskRoles"][0]["taskNumber"] == 6
    assert now["metadata"]["generation"] == 3


async def test_check_112_a_negative_scale_is_rejected(api: Api) -> None:
    await made(api)

    reported = (await api.patch(f"{A}/scale", {"spec": {"replicas": -1}})).failure(422, "Invalid")

    assert (reported["details"]["kind"], causes(reported)) == (
        "Scale",
        {"spec.replicas": "FieldValueInvalid"},
    )


async def test_check_112_a_framework_with_several_roles_has_no_scale(api: Api) -> None:
    await api.post(B, {**framework(), "spec": {"taskRoles": [a_role("ps"), a_role("worker")]}})

    reported = (await api.get(f"{A}/scale")).failure(400, "BadRequest")

    assert "taskNumber" in reported["message"]


async def test_an_invalid_result_of_a_patch_is_rejected(api: Api) -> None:
    await made(api)

    reported = (await api.patch(A, {"spec": {"executionType": "Go"}})).failure(422, "Invalid")

    assert (reported["details"]["name"], list(causes(reported))) == ("a", ["spec.executionType"])


async def test_immutable_fields_are_rejected_by_put_and_patch(api: Api) -> None:
    stored = await made(api)

    for response in (
        await api.put(A, with_spec(stored, executionType="Create")),
        await api.patch(A, {"spec": {"executionType": "Create"}}),
    ):
        assert list(causes(response.failure(422, "Invalid"))) == ["spec.executionType"]


async def test_a_patch_warns_only_about_new_findings(api: Api) -> None:
    await api.post(B, with_pod_field("olumeMounts"))

    label = await api.patch(f"{A}?fieldValidation=Strict", {"metadata": {"labels": {"x": "1"}}})
    more = await api.patch(A, {"spec": {"bogus": 1}})
    strict = await api.patch(f"{A}?fieldValidation=Strict", {"spec": {"bogus": 1}})

    assert (label.status, label.warnings) == (200, [])
    assert (more.status, more.warnings) == (200, ['299 - "unknown field \\"spec.bogus\\""'])
    strict.failure(422, "Invalid")


def with_pod_field(name: str) -> dict[str, Any]:
    body = framework()
    body["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0][name] = []
    return body


async def test_a_dry_run_changes_nothing(api: Api) -> None:
    stored = await made(api)

    put = await api.put(f"{A}?dryRun=All", with_spec(stored, description="new"))
    patch = await api.patch(f"{A}?dryRun=All", {"spec": {"description": "new"}})

    assert put.json()["spec"]["description"] == patch.json()["spec"]["description"] == "new"
    assert (await api.get(A)).json() == stored
