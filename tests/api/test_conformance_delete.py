"""DELETE: at once, after what is owned, or not yet."""

import pytest

from launcher.core.validation.admission_policy import AdmissionPolicy
from tests.api.client import JSON
from tests.api.conftest import Api, api_dependencies, memory_store, serving
from tests.api.samples import A, B, causes, framework, labelled, made, names, version

BACKGROUND = {"propagationPolicy": "Background"}


async def test_check_017_a_deletion_is_watched(api: Api) -> None:
    stored = await made(api)

    response = await api.delete(A, BACKGROUND)

    assert response.status == 200
    reported = response.json()
    assert (reported["kind"], reported["status"]) == ("Status", "Success")
    assert reported["details"] == {
        "name": "a",
        "group": "launcher.microsoft.com",
        "kind": "frameworks",
        "uid": stored["metadata"]["uid"],
    }
    (await api.get(A)).failure(404, "NotFound")
    (await api.delete(A, BACKGROUND)).failure(404, "NotFound")


async def test_check_018_a_framework_is_deleted_in_the_foreground_by_default(api: Api) -> None:
    await made(api)

    response = await api.delete(A)

    assert response.status == 200
    metadata = response.json()["metadata"]
    assert metadata["finalizers"] == ["foregroundDeletion"]
    assert metadata["deletionTimestamp"]
    assert (await api.get(A)).json() == response.json()


@pytest.mark.parametrize("how", ["body", "query"])
@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_check_064_a_foreground_deletion_adds_a_finalizer(
    api: Api, policy: str, finalizer: str, how: str
) -> None:
    await made(api)

    if how == "body":
        response = await api.delete(A, {"propagationPolicy": policy})
    else:
        response = await api.delete(f"{A}?propagationPolicy={policy}")

    metadata = response.json()["metadata"]
    assert (response.status, metadata["finalizers"]) == (200, [finalizer])
    assert (metadata["generation"], metadata["deletionGracePeriodSeconds"]) == (2, 0)
    assert (await api.patch(A, {"metadata": {"finalizers": None}})).status == 200
    (await api.get(A)).failure(404, "NotFound")


async def test_a_second_deletion_in_the_background_removes_the_finalizer(api: Api) -> None:
    await made(api)
    await api.delete(A)

    response = await api.delete(A, BACKGROUND)

    assert response.json()["status"] == "Success"
    (await api.get(A)).failure(404, "NotFound")


async def test_check_060_an_object_with_a_finalizer_is_not_removed(api: Api) -> None:
    stored = await made(api, finalizers=["example.com/hold"])

    async with api.watch(f"{B}?watch=1&resourceVersion={version(stored)}") as stream:
        first = (await api.delete(A, BACKGROUND)).json()
        second = await api.delete(A, BACKGROUND)
        cleared = await api.patch(A, {"metadata": {"finalizers": None}})
        events = await stream.take(2)

    assert first["metadata"]["deletionTimestamp"]
    assert first["metadata"]["generation"] == 2
    assert (second.status, second.json()) == (200, first)
    assert cleared.status == 200
    assert [event["type"] for event in events] == ["MODIFIED", "DELETED"]
    assert version(events[1]["object"]) > version(events[0]["object"])


async def test_check_061_the_name_of_an_object_being_deleted_is_in_use(api: Api) -> None:
    await made(api)
    await api.delete(A)

    reported = (await api.post(B, framework())).failure(409, "AlreadyExists")

    assert "is being deleted" in reported["message"]


async def test_check_063_preconditions_of_a_deletion_are_checked(api: Api) -> None:
    stored = await made(api)
    meant = {"uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"]}

    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        (await api.delete(A, BACKGROUND | {"preconditions": meant | wrong})).failure(409, "Conflict")
    assert (await api.get(A)).status == 200
    assert (await api.delete(A, BACKGROUND | {"preconditions": meant})).status == 200


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"propagationPolicy": "Bogus"}, "propagationPolicy"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "propagationPolicy"),
        ({"dryRun": ["Some"]}, "dryRun"),
    ],
)
async def test_check_065_delete_options_are_validated(
    api: Api, options: dict[str, object], field: str
) -> None:
    await made(api)

    reported = (await api.delete(A, options)).failure(422, "Invalid")

    assert (reported["details"]["kind"], list(causes(reported))) == ("DeleteOptions", [field])
    assert (await api.get(A)).status == 200


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_check_066_a_dry_run_deletes_nothing(api: Api, policy: str) -> None:
    stored = await made(api)

    response = await api.delete(A, {"propagationPolicy": policy, "dryRun": ["All"]})

    assert response.status == 200
    assert response.json()["kind"] == ("Status" if policy == "Background" else "Framework")
    assert (await api.get(A)).json() == stored


async def test_check_067_all_that_match_are_deleted(api: Api) -> None:
    for name in "abc":
        await made(api, name)
    for name in "ab":
        await labelled(api, name, x="1")

    first = await api.delete(f"{B}?labelSelector=x%3D1")
    second = await api.delete(f"{B}?labelSelector=x%3D1")

    assert (first.status, first.json()["kind"], names(first.json())) == (200, "FrameworkList", ["a", "b"])
    assert "deletionTimestamp" not in first.json()["items"][0]["metadata"]
    assert (second.status, names(second.json())) == (200, [])
    assert "deletionTimestamp" not in (await api.get(f"{B}/c")).json()["metadata"]


async def test_check_067_matching_objects_are_deleted_in_the_background(api: Api) -> None:
    for name in "abc":
        await made(api, name)

    assert names((await api.delete(f"{B}?dryRun=All")).json()) == ["a", "b", "c"]
    assert names((await api.delete(B, BACKGROUND)).json()) == ["a", "b", "c"]
    assert names((await api.get(B)).json()) == []


async def test_the_body_of_a_delete_must_be_deleteoptions(api: Api) -> None:
    await made(api)

    (await api.delete(A, framework())).failure(400, "BadRequest")
    (await api.call("DELETE", A, "{", JSON)).failure(400, "BadRequest")
    (await api.call("DELETE", A, "{}", "text/plain")).failure(415, "UnsupportedMediaType")
    (await api.delete(A, {"gracePeriodSeconds": "soon"})).failure(400, "BadRequest")
    options = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "unknown": 1, **BACKGROUND}
    assert (await api.delete(A, options)).status == 200


async def test_the_admission_policy_limits_new_frameworks() -> None:
    async with serving(api_dependencies(memory_store(), policy=AdmissionPolicy(max_tasks=1))) as api:
        reported = (await api.post(B, framework())).failure(422, "Invalid")

    assert causes(reported) == {"spec.taskRoles": "FieldValueForbidden"}
