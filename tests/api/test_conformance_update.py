"""PUT and PATCH: who may change what, and what happens to those who come too late."""

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
from tests.core.manifests import a_role

APPLIED = f"{A}?fieldManager=tests"


async def test_check_019_a_label_is_set_by_a_merge_patch(api: Api) -> None:
    stored = await made(api)

    answer = await api.patch(A, {"metadata": {"labels": {"x": "1"}}})

    assert answer.status == 200
    metadata = answer.json()["metadata"]
    assert metadata["labels"] == {"x": "1"}
    assert metadata["generation"] == 1
    assert version(answer.json()) > version(stored)


async def test_check_020_a_spec_is_replaced(api: Api) -> None:
    stored = await made(api)

    answer = await api.put(A, with_spec(stored, description="new"))

    assert answer.status == 200
    assert answer.json()["spec"]["description"] == "new"
    assert answer.json()["metadata"]["generation"] == 2


async def test_check_021_who_has_read_an_older_version_is_told(api: Api) -> None:
    stored = await made(api)
    await labelled(api, "a", x="1")

    told = (await api.put(A, with_spec(stored, description="new"))).refused(409, "Conflict")

    assert told["details"] == {"name": "a", "group": "launcher.microsoft.com", "kind": "frameworks"}
    assert "the object has been modified" in told["message"]


async def test_check_034_a_put_that_changes_nothing_changes_nothing(api: Api) -> None:
    stored = await made(api)

    async with api.watch(f"{B}?watch=1&resourceVersion={version(stored)}") as stream:
        answer = await api.put(A, stored)
        await made(api, "after")
        event = await stream.next()

    assert answer.json() == stored
    assert event["object"]["metadata"]["name"] == "after"


async def test_check_035_a_status_is_not_written_with_the_rest(api: Api) -> None:
    stored = await made(api)

    answer = await api.put(A, {**stored, "status": {"state": "Completed"}})

    assert (answer.status, answer.json(), answer.warnings) == (200, stored, [])


async def test_check_036_the_status_is_written_alone(api: Api) -> None:
    stored = await made(api)
    body = with_metadata(with_spec(stored, description="new"), labels={"x": "1"})

    answer = await api.put(f"{A}/status", {**body, "status": {"state": "Completed"}})

    assert answer.status == 200
    new = answer.json()
    assert new["status"] == {"state": "Completed"}
    assert (new["spec"], new["metadata"].get("labels")) == (stored["spec"], None)
    assert new["metadata"]["generation"] == 1
    assert version(new) > version(stored)
    assert (await api.get(f"{A}/status")).json() == (await api.get(A)).json() == new
    (await api.put(f"{A}/status", {**body, "status": {}})).refused(409, "Conflict")


async def test_check_037_a_patch_of_the_status_leaves_the_spec_alone(api: Api) -> None:
    stored = await made(api)

    answer = await api.patch(f"{A}/status", {"spec": {"description": "new"}, "status": {"state": "x"}})

    assert answer.status == 200
    assert answer.json()["spec"] == stored["spec"]
    assert answer.json()["status"] == {"state": "x"}
    told = (await api.patch(f"{A}/status", {"status": "x"})).refused(422, "Invalid")
    assert list(causes(told)) == ["status"]


async def test_check_038_put_without_a_version_is_refused(api: Api) -> None:
    stored = await made(api)

    for given in (None, "0"):
        told = (await api.put(A, with_metadata(stored, resourceVersion=given))).refused(422, "Invalid")
        assert causes(told) == {"metadata.resourceVersion": "FieldValueInvalid"}
        assert "patch" in told["message"]
    (await api.put(A, with_metadata(stored, resourceVersion="x"))).refused(400, "BadRequest")


async def test_check_039_a_put_creates_nothing(api: Api) -> None:
    (await api.put(f"{B}/nosuch", framework("nosuch", resourceVersion="1"))).refused(404, "NotFound")


async def test_check_040_a_put_to_another_name_is_refused(api: Api) -> None:
    stored = await made(api)

    told = (await api.put(A, with_metadata(stored, name="b"))).refused(400, "BadRequest")

    assert "metadata.name is 'b'" in told["message"]


async def test_check_042_another_object_of_the_same_name_is_a_conflict(api: Api) -> None:
    stored = await made(api)

    (await api.put(A, with_metadata(stored, uid="another"))).refused(409, "Conflict")


async def test_check_043_a_patch_of_an_older_version_is_a_conflict(api: Api) -> None:
    stored = await made(api)
    await labelled(api, "a", x="1")

    patch = {"metadata": {"resourceVersion": str(version(stored)), "labels": {"y": "1"}}}
    (await api.patch(A, patch)).refused(409, "Conflict")

    patch["metadata"]["resourceVersion"] = (await api.get(A)).json()["metadata"]["resourceVersion"]
    assert (await api.patch(A, patch)).status == 200


async def test_check_044_patches_at_one_time_all_count(api: Api) -> None:
    await made(api)

    answers = await asyncio.gather(
        *(api.patch(A, {"metadata": {"labels": {f"l{n}": "1"}}}) for n in range(20))
    )

    assert [answer.status for answer in answers] == [200] * 20
    assert len((await api.get(A)).json()["metadata"]["labels"]) == 20


async def test_check_044_a_patch_is_made_again_when_somebody_gets_ahead_of_it(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(api)
    update, ahead = api.store.update, 3

    async def overtaken(*arguments: Any, **options: Any) -> Any:
        nonlocal ahead
        if ahead:
            ahead -= 1
            stored = await api.store.get(FRAMEWORKS, "default", "a")
            await api.store.update_status(FRAMEWORKS, {**stored, "status": {"ahead": ahead}})
        return await update(*arguments, **options)

    monkeypatch.setattr(api.store, "update", overtaken)

    answer = await api.patch(A, {"metadata": {"labels": {"x": "1"}}})

    assert answer.status == 200
    assert answer.json()["status"] == {"ahead": 0}
    assert answer.json()["metadata"]["labels"] == {"x": "1"}


async def test_check_044_a_patch_that_is_always_too_late_gives_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await made(api)

    async def beaten(*_: Any, **__: Any) -> None:
        raise Conflict("too late")

    monkeypatch.setattr(api.store, "update", beaten)

    (await api.patch(A, {"metadata": {"labels": {"x": "1"}}})).refused(409, "Conflict")


async def test_check_045_of_puts_at_one_time_one_counts(api: Api) -> None:
    stored = await made(api)

    answers = await asyncio.gather(
        *(api.put(A, with_metadata(stored, labels={"n": str(n)})) for n in range(20))
    )

    assert sorted(answer.status for answer in answers) == [200] + [409] * 19


async def test_check_046_a_json_patch_is_carried_out_step_by_step(api: Api) -> None:
    await made(api, labels={"a": "1", "b/c": "2"})

    answer = await api.patch(
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

    assert answer.status == 200
    assert answer.json()["metadata"]["labels"] == {"a": "3"}
    assert answer.json()["spec"]["roleSequence"] == ["worker"]
    assert answer.json()["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/metadata/name", "value": "b"},
        {"op": "remove", "path": "/metadata/labels/nosuch"},
        {"op": "paint", "path": "/metadata"},
    ],
    ids=["test", "path", "operation"],
)
async def test_check_047_a_json_patch_that_does_not_fit_is_refused(
    api: Api, operation: dict[str, Any]
) -> None:
    stored = await made(api)

    (await api.patch(A, [operation], JSON_PATCH)).refused(422, "Invalid")

    assert (await api.get(A)).json() == stored


@pytest.mark.parametrize("body", [b"{", b'{"op": "add"}', b'["add"]'])
async def test_a_json_patch_that_is_none_is_refused(api: Api, body: bytes) -> None:
    await made(api)

    assert (await api.patch(A, body, JSON_PATCH)).status in (400, 422)


@pytest.mark.parametrize("declared", [JSON, "application/strategic-merge-patch+json", None])
async def test_check_048_patches_of_other_types_are_refused(api: Api, declared: str | None) -> None:
    await made(api)

    told = (await api.patch(A, {}, declared)).refused(415, "UnsupportedMediaType")

    assert all(accepted in told["message"] for accepted in (MERGE, JSON_PATCH, APPLY))


async def test_check_049_who_applies_has_to_say_so(api: Api) -> None:
    told = (await api.patch(A, framework(), APPLY)).refused(422, "Invalid")

    assert (told["details"]["kind"], causes(told)) == ("PatchOptions", {"fieldManager": "FieldValueRequired"})


async def test_check_050_an_apply_creates_and_then_changes_nothing(api: Api) -> None:
    created = await api.patch(APPLIED, framework(), APPLY)
    again = await api.patch(APPLIED, framework(), APPLY)

    assert (created.status, again.status) == (201, 200)
    assert created.json() == again.json() == (await api.get(A)).json()


async def test_check_050_what_is_applied_is_merged(api: Api) -> None:
    await api.patch(APPLIED, framework(labels={"x": "1"}), APPLY)
    roles = [{"name": "worker", "taskNumber": 5}, a_role("ps")]
    wish = {**framework(labels={"y": "2"}), "spec": {"taskRoles": roles}}

    new = (await api.patch(f"{A}?fieldManager=other&force=true", wish, APPLY)).json()

    assert new["metadata"]["labels"] == {"x": "1", "y": "2"}
    assert [(role["name"], role["taskNumber"]) for role in new["spec"]["taskRoles"]] == [
        ("worker", 5),
        ("ps", 2),
    ]
    assert new["spec"]["taskRoles"][0]["task"]["pod"]


@pytest.mark.parametrize(
    ("wish", "status"),
    [
        pytest.param({"metadata": {"name": "a"}}, 400, id="no kind"),
        pytest.param(framework("b"), 400, id="another name"),
        pytest.param(framework(managedFields=[{}]), 400, id="managed fields"),
        pytest.param(framework(uid="some"), 409, id="the uid of one that is gone"),
        pytest.param(with_spec(framework(), bogus=1), 400, id="an unknown field, strictly"),
    ],
)
async def test_what_cannot_be_applied_is_refused(api: Api, wish: dict[str, Any], status: int) -> None:
    answer = await api.patch(f"{APPLIED}&fieldValidation=Strict", wish, APPLY)

    assert answer.status == status
    (await api.get(A)).refused(404, "NotFound")


async def test_a_status_cannot_be_applied_to_nothing(api: Api) -> None:
    url = f"{A}/status?fieldManager=tests"

    (await api.patch(url, {**framework(), "status": {"a": "b"}}, APPLY)).refused(404, "NotFound")

    await made(api)
    applied = await api.patch(url, {**framework(), "status": {"a": "b"}}, APPLY)
    assert (applied.status, applied.json()["status"]) == (200, {"a": "b"})


async def test_check_051_an_empty_patch_changes_nothing(api: Api) -> None:
    stored = await made(api)

    answer = await api.patch(A, {})

    assert (answer.status, answer.json()) == (200, stored)


async def test_check_062_no_finalizer_is_added_to_what_is_going(api: Api) -> None:
    await made(api, finalizers=["example.com/hold"])
    going = (await api.delete(A, {"propagationPolicy": "Background"})).json()

    body = with_metadata(going, finalizers=["example.com/hold", "example.com/late"])
    told = (await api.put(A, body)).refused(422, "Invalid")

    assert causes(told) == {"metadata.finalizers": "FieldValueForbidden"}


async def test_check_100_what_only_the_server_decides_is_kept(api: Api) -> None:
    await made(api, finalizers=["example.com/hold"])
    going = (await api.delete(A, {"propagationPolicy": "Background"})).json()
    changes = {"deletionTimestamp": None, "deletionGracePeriodSeconds": None, "generation": 77}

    body = with_metadata(going, creationTimestamp="2001-01-01T00:00:00Z", **changes)
    answer = await api.put(A, body)

    assert (answer.status, answer.json()) == (200, going)


async def test_check_101_a_uid_cannot_be_patched(api: Api) -> None:
    await made(api)

    told = (await api.patch(A, {"metadata": {"uid": "another"}})).refused(422, "Invalid")

    assert causes(told) == {"metadata.uid": "FieldValueInvalid"}
    (await api.patch(A, {"metadata": {"name": "another"}})).refused(400, "BadRequest")


async def test_check_102_only_an_apply_can_be_forced(api: Api) -> None:
    await made(api)

    told = (await api.patch(f"{A}?force=true", {})).refused(422, "Invalid")

    assert causes(told) == {"force": "FieldValueForbidden"}
    assert (await api.patch(f"{APPLIED}&force=true", framework(), APPLY)).status == 200


async def test_check_103_what_another_has_applied_is_taken_by_force_alone(api: Api) -> None:
    await api.patch(f"{A}?fieldManager=one", with_spec(framework(), description="one"), APPLY)
    url, wish = f"{A}?fieldManager=two", with_spec(framework(), description="two")

    told = (await api.patch(url, wish, APPLY)).refused(409, "Conflict")
    kept = (await api.get(A)).json()
    forced = await api.patch(f"{url}&force=true", wish, APPLY)

    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.description"}
    assert told["details"] == {"causes": [cause]}
    assert kept["spec"]["description"] == "one"
    assert (forced.status, forced.json()["spec"]["description"]) == (200, "two")
    owners = {
        entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in forced.json()["metadata"]["managedFields"]
    }
    assert ["f:description" in owners[manager] for manager in ("one", "two")] == [False, True]


async def test_check_112_the_number_of_tasks_is_the_scale(api: Api) -> None:
    stored = await made(api)

    scale = (await api.get(f"{A}/scale")).json()
    patched = await api.patch(f"{A}/scale", {"spec": {"replicas": 5}})
    put = await api.put(f"{A}/scale", {**patched.json(), "spec": {"replicas": 6}}, None)
    (await api.put(f"{A}/scale", {**scale, "spec": {"replicas": 7}})).refused(409, "Conflict")

    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["metadata"]["uid"] == stored["metadata"]["uid"]
    assert scale["status"]["selector"] == "FC_FRAMEWORK_NAME=a,FC_TASKROLE_NAME=worker"
    assert (patched.status, patched.json()["spec"]) == (200, {"replicas": 5})
    assert (put.status, put.json()["spec"]) == (200, {"replicas": 6})
    now = (await api.get(A)).json()
    assert now["spec"]["taskRoles"][0]["taskNumber"] == 6
    assert now["metadata"]["generation"] == 3


async def test_check_112_a_scale_below_nothing_is_refused(api: Api) -> None:
    await made(api)

    told = (await api.patch(f"{A}/scale", {"spec": {"replicas": -1}})).refused(422, "Invalid")

    assert (told["details"]["kind"], causes(told)) == ("Scale", {"spec.replicas": "FieldValueInvalid"})


async def test_check_112_several_roles_have_no_one_scale(api: Api) -> None:
    await api.post(B, {**framework(), "spec": {"taskRoles": [a_role("ps"), a_role("worker")]}})

    told = (await api.get(f"{A}/scale")).refused(400, "BadRequest")

    assert "taskNumber" in told["message"]


async def test_an_invalid_result_of_a_patch_is_refused(api: Api) -> None:
    await made(api)

    told = (await api.patch(A, {"spec": {"executionType": "Go"}})).refused(422, "Invalid")

    assert (told["details"]["name"], list(causes(told))) == ("a", ["spec.executionType"])


async def test_what_may_not_be_changed_is_refused_by_put_and_patch(api: Api) -> None:
    stored = await made(api)

    for answer in (
        await api.put(A, with_spec(stored, executionType="Create")),
        await api.patch(A, {"spec": {"executionType": "Create"}}),
    ):
        assert list(causes(answer.refused(422, "Invalid"))) == ["spec.executionType"]


async def test_a_patch_warns_only_of_what_is_new(api: Api) -> None:
    await api.post(B, with_pod_field("olumeMounts"))

    label = await api.patch(f"{A}?fieldValidation=Strict", {"metadata": {"labels": {"x": "1"}}})
    more = await api.patch(A, {"spec": {"bogus": 1}})
    strict = await api.patch(f"{A}?fieldValidation=Strict", {"spec": {"bogus": 1}})

    assert (label.status, label.warnings) == (200, [])
    assert (more.status, more.warnings) == (200, ['299 - "unknown field \\"spec.bogus\\""'])
    strict.refused(422, "Invalid")


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
