"""The contract of every store: deletions."""

import re

import pytest

from launcher.core.errors import AlreadyExists, Conflict, InvalidObject, NotFound
from launcher.store.interface import (
    FRAMEWORKS,
    PODS,
    ChangeType,
    DeleteOptions,
    JsonPatch,
    MergePatch,
    Propagation,
    Store,
)
from tests.builders import a_pod
from tests.store.builders import a_bound_pod, a_framework, changes_since, version_of, with_, with_metadata


async def test_an_object_without_finalizers_is_removed_at_once(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    last = await store.delete(FRAMEWORKS, "default", "mnist")

    assert "deletionTimestamp" not in last["metadata"]
    assert last["spec"] == created["spec"]
    with pytest.raises(NotFound):
        await store.get(FRAMEWORKS, "default", "mnist")
    with pytest.raises(NotFound):
        await store.delete(FRAMEWORKS, "default", "mnist")


async def test_a_name_can_be_used_again_by_a_new_object(store: Store) -> None:
    first = await store.create(FRAMEWORKS, a_framework())
    await store.delete(FRAMEWORKS, "default", "mnist")

    second = await store.create(FRAMEWORKS, a_framework())

    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["metadata"]["generation"] == 1
    assert version_of(second) > version_of(first)


async def test_an_object_with_a_finalizer_is_marked_and_not_removed(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))

    deleting = await store.delete(FRAMEWORKS, "default", "mnist")
    again = await store.delete(FRAMEWORKS, "default", "mnist")

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", deleting["metadata"]["deletionTimestamp"])
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 0
    assert deleting["metadata"]["generation"] == 2
    assert version_of(deleting) > version_of(created)
    assert again == deleting
    with pytest.raises(AlreadyExists, match="deleted"):
        await store.create(FRAMEWORKS, a_framework())


@pytest.mark.parametrize("verb", ["update", "merge patch", "json patch"])
async def test_the_object_is_removed_with_its_last_finalizer_in_one_event(store: Store, verb: str) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))
    deleting = await store.delete(FRAMEWORKS, "default", "mnist")

    match verb:
        case "update":
            await store.update(FRAMEWORKS, with_metadata(deleting, finalizers=None))
        case "merge patch":
            await store.patch(FRAMEWORKS, "default", "mnist", MergePatch({"metadata": {"finalizers": None}}))
        case _:
            patch = JsonPatch([{"op": "remove", "path": "/metadata/finalizers/0"}])
            await store.patch(FRAMEWORKS, "default", "mnist", patch)

    with pytest.raises(NotFound):
        await store.get(FRAMEWORKS, "default", "mnist")
    received = await changes_since(store, FRAMEWORKS, version_of(deleting))
    assert received == [(ChangeType.DELETED, "mnist")]


async def test_an_object_is_kept_until_its_last_finalizer_is_removed(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y", "x/z"]))
    deleting = await store.delete(FRAMEWORKS, "default", "mnist")

    after = await store.update(FRAMEWORKS, with_metadata(deleting, finalizers=["x/z"]))

    assert await store.get(FRAMEWORKS, "default", "mnist") == after


async def test_removing_the_finalizer_of_an_object_that_is_not_deleted_keeps_it(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))

    after = await store.update(FRAMEWORKS, with_metadata(created, finalizers=None))

    assert await store.get(FRAMEWORKS, "default", "mnist") == after


async def test_no_finalizer_can_be_added_during_deletion(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))
    deleting = await store.delete(FRAMEWORKS, "default", "mnist")

    with pytest.raises(InvalidObject) as caught:
        await store.update(FRAMEWORKS, with_metadata(deleting, finalizers=["x/y", "x/z"]))

    assert caught.value.errors[0].reason == "FieldValueForbidden"


@pytest.mark.parametrize(
    ("propagation", "finalizer"),
    [(Propagation.FOREGROUND, "foregroundDeletion"), (Propagation.ORPHAN, "orphan")],
)
async def test_propagation_adds_the_finalizer_of_the_garbage_collector(
    store: Store, propagation: Propagation, finalizer: str
) -> None:
    await store.create(FRAMEWORKS, a_framework())

    deleting = await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=propagation))
    await store.update(FRAMEWORKS, with_metadata(deleting, finalizers=None))

    assert deleting["metadata"]["finalizers"] == [finalizer]
    assert "deletionTimestamp" in deleting["metadata"]
    with pytest.raises(NotFound):
        await store.get(FRAMEWORKS, "default", "mnist")


async def test_background_propagation_removes_the_collectors_finalizers(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))
    await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.FOREGROUND))

    after = await store.delete(
        FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.BACKGROUND)
    )

    assert after["metadata"]["finalizers"] == ["x/y"]


@pytest.mark.parametrize("options", [DeleteOptions(uid="other"), DeleteOptions(version=999_999)])
async def test_a_deletion_with_a_failed_precondition_changes_nothing(
    store: Store, options: DeleteOptions
) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    with pytest.raises(Conflict):
        await store.delete(FRAMEWORKS, "default", "mnist", options)

    assert await store.get(FRAMEWORKS, "default", "mnist") == created


async def test_a_deletion_with_met_preconditions_is_executed(store: Store) -> None:
    created = await store.create(FRAMEWORKS, a_framework())

    options = DeleteOptions(uid=created["metadata"]["uid"], version=version_of(created))
    await store.delete(FRAMEWORKS, "default", "mnist", options)

    assert (await store.list(FRAMEWORKS)).items == []


async def test_a_pod_without_a_node_is_removed_at_once(store: Store) -> None:
    await store.create(PODS, a_pod())

    await store.delete(PODS, "default", "mnist-worker-0")

    assert (await store.list(PODS)).items == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_terminated_pod_is_removed_at_once(store: Store, phase: str) -> None:
    pod = await a_bound_pod(store)
    await store.update_status(PODS, with_(pod, status={"phase": phase}))

    await store.delete(PODS, "default", pod["metadata"]["name"])

    assert (await store.list(PODS)).items == []


@pytest.mark.parametrize(
    ("requested", "of_pod", "grace"),
    [
        pytest.param(None, None, 30, id="thirty seconds by default"),
        pytest.param(None, 5, 5, id="the grace period of the pod"),
        pytest.param(7, 5, 7, id="the grace period of the request"),
        pytest.param(-3, None, 1, id="a negative grace is one second"),
    ],
)
async def test_a_running_pod_gets_its_grace_period(
    store: Store, requested: int | None, of_pod: int | None, grace: int
) -> None:
    pod = await a_bound_pod(store, **({} if of_pod is None else {"terminationGracePeriodSeconds": of_pod}))

    deleting = await store.delete(PODS, "default", pod["metadata"]["name"], DeleteOptions(grace=requested))

    assert deleting["metadata"]["deletionGracePeriodSeconds"] == grace
    assert "deletionTimestamp" in deleting["metadata"]
    assert await store.get(PODS, "default", pod["metadata"]["name"]) == deleting


async def test_a_grace_period_can_be_shortened_and_never_extended(store: Store) -> None:
    name = (await a_bound_pod(store))["metadata"]["name"]
    first = await store.delete(PODS, "default", name, DeleteOptions(grace=30))

    longer = await store.delete(PODS, "default", name, DeleteOptions(grace=60))
    default = await store.delete(PODS, "default", name)
    shorter = await store.delete(PODS, "default", name, DeleteOptions(grace=10))

    assert longer == default == first
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 10
    assert shorter["metadata"]["deletionTimestamp"] < first["metadata"]["deletionTimestamp"]
    assert shorter["metadata"]["generation"] == first["metadata"]["generation"]


@pytest.mark.parametrize("deleted_before", [True, False])
async def test_a_grace_period_of_zero_removes_a_running_pod(store: Store, deleted_before: bool) -> None:
    name = (await a_bound_pod(store))["metadata"]["name"]
    if deleted_before:
        await store.delete(PODS, "default", name)

    await store.delete(PODS, "default", name, DeleteOptions(grace=0))

    assert (await store.list(PODS)).items == []


async def test_a_finalizer_keeps_a_pod_after_its_grace_period(store: Store) -> None:
    pod = await store.create(PODS, with_metadata(a_pod(nodeName="node-1"), finalizers=["x/y"]))
    name = pod["metadata"]["name"]
    await store.delete(PODS, "default", name)

    held = await store.delete(PODS, "default", name, DeleteOptions(grace=0))
    await store.update(PODS, with_metadata(held, finalizers=None))

    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await store.list(PODS)).items == []


async def test_removing_a_finalizer_does_not_shorten_the_grace_period_of_a_pod(store: Store) -> None:
    pod = await store.create(PODS, with_metadata(a_pod(nodeName="node-1"), finalizers=["x/y"]))
    deleting = await store.delete(PODS, "default", pod["metadata"]["name"])

    after = await store.update(PODS, with_metadata(deleting, finalizers=None))

    assert await store.get(PODS, "default", pod["metadata"]["name"]) == after
