"""DELETE: at once, after what is owned, or not yet."""

import pytest

from launcher.core.validation.admission_policy import Policy
from tests.api.client import JSON
from tests.api.conftest import Api, memory_store, parts_of, serving
from tests.api.samples import A, B, causes, framework, labelled, made, names, version

BACKGROUND = {"propagationPolicy": "Background"}


async def test_check_017_a_framework_is_gone_and_its_deletion_told(api: Api) -> None:
    stored = await made(api)

    answer = await api.delete(A, BACKGROUND)

    assert answer.status == 200
    told = answer.json()
    assert (told["kind"], told["status"]) == ("Status", "Success")
    assert told["details"] == {
        "name": "a",
        "group": "launcher.microsoft.com",
        "kind": "frameworks",
        "uid": stored["metadata"]["uid"],
    }
    (await api.get(A)).refused(404, "NotFound")
    (await api.delete(A, BACKGROUND)).refused(404, "NotFound")


async def test_check_018_a_framework_goes_after_its_pods_unless_told_otherwise(api: Api) -> None:
    await made(api)

    answer = await api.delete(A)

    assert answer.status == 200
    metadata = answer.json()["metadata"]
    assert metadata["finalizers"] == ["foregroundDeletion"]
    assert metadata["deletionTimestamp"]
    assert (await api.get(A)).json() == answer.json()


@pytest.mark.parametrize("how", ["body", "query"])
@pytest.mark.parametrize(
    ("policy", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")]
)
async def test_check_064_who_waits_for_its_dependents_has_a_finalizer(
    api: Api, policy: str, finalizer: str, how: str
) -> None:
    await made(api)

    if how == "body":
        answer = await api.delete(A, {"propagationPolicy": policy})
    else:
        answer = await api.delete(f"{A}?propagationPolicy={policy}")

    metadata = answer.json()["metadata"]
    assert (answer.status, metadata["finalizers"]) == (200, [finalizer])
    assert (metadata["generation"], metadata["deletionGracePeriodSeconds"]) == (2, 0)
    assert (await api.patch(A, {"metadata": {"finalizers": None}})).status == 200
    (await api.get(A)).refused(404, "NotFound")


async def test_a_second_deletion_in_the_background_ends_the_wait(api: Api) -> None:
    await made(api)
    await api.delete(A)

    answer = await api.delete(A, BACKGROUND)

    assert answer.json()["status"] == "Success"
    (await api.get(A)).refused(404, "NotFound")


async def test_check_060_a_finalizer_holds_an_object(api: Api) -> None:
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


async def test_check_061_the_name_of_what_is_going_is_not_free(api: Api) -> None:
    await made(api)
    await api.delete(A)

    told = (await api.post(B, framework())).refused(409, "AlreadyExists")

    assert "is being deleted" in told["message"]


async def test_check_063_only_the_object_that_is_meant_is_deleted(api: Api) -> None:
    stored = await made(api)
    meant = {"uid": stored["metadata"]["uid"], "resourceVersion": stored["metadata"]["resourceVersion"]}

    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        (await api.delete(A, BACKGROUND | {"preconditions": meant | wrong})).refused(409, "Conflict")
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
async def test_check_065_options_are_checked(api: Api, options: dict[str, object], field: str) -> None:
    await made(api)

    told = (await api.delete(A, options)).refused(422, "Invalid")

    assert (told["details"]["kind"], list(causes(told))) == ("DeleteOptions", [field])
    assert (await api.get(A)).status == 200


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_check_066_a_dry_run_deletes_nothing(api: Api, policy: str) -> None:
    stored = await made(api)

    answer = await api.delete(A, {"propagationPolicy": policy, "dryRun": ["All"]})

    assert answer.status == 200
    assert answer.json()["kind"] == ("Status" if policy == "Background" else "Framework")
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


async def test_check_067_all_that_match_are_gone_in_the_background(api: Api) -> None:
    for name in "abc":
        await made(api, name)

    assert names((await api.delete(f"{B}?dryRun=All")).json()) == ["a", "b", "c"]
    assert names((await api.delete(B, BACKGROUND)).json()) == ["a", "b", "c"]
    assert names((await api.get(B)).json()) == []


async def test_the_body_of_a_delete_may_be_nothing_else(api: Api) -> None:
    await made(api)

    (await api.delete(A, framework())).refused(400, "BadRequest")
    (await api.call("DELETE", A, "{", JSON)).refused(400, "BadRequest")
    (await api.call("DELETE", A, "{}", "text/plain")).refused(415, "UnsupportedMediaType")
    (await api.delete(A, {"gracePeriodSeconds": "soon"})).refused(400, "BadRequest")
    options = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "unknown": 1, **BACKGROUND}
    assert (await api.delete(A, options)).status == 200


async def test_the_admins_policy_is_kept_to() -> None:
    async with serving(parts_of(memory_store(), policy=Policy(max_tasks=1))) as api:
        told = (await api.post(B, framework())).refused(422, "Invalid")

    assert causes(told) == {"spec.taskRoles": "FieldValueForbidden"}
