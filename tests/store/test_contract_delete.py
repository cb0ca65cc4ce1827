"""What every store promises of deletions, tried on each of them through the port alone."""

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
from tests.store.builders import (
    a_bound_pod,
    a_framework,
    a_pod,
    changes_until,
    version_of,
    with_,
    with_metadata,
)


async def test_an_object_that_nothing_holds_is_gone_at_once(store: Store) -> None:
    made = await store.create(FRAMEWORKS, a_framework())

    last = await store.delete(FRAMEWORKS, "default", "mnist")

    assert "deletionTimestamp" not in last["metadata"]
    assert last["spec"] == made["spec"]
    with pytest.raises(NotFound):
        await store.get(FRAMEWORKS, "default", "mnist")
    with pytest.raises(NotFound):
        await store.delete(FRAMEWORKS, "default", "mnist")


async def test_a_name_can_be_used_again_and_the_new_object_is_another(store: Store) -> None:
    first = await store.create(FRAMEWORKS, a_framework())
    await store.delete(FRAMEWORKS, "default", "mnist")

    second = await store.create(FRAMEWORKS, a_framework())

    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert second["metadata"]["generation"] == 1
    assert version_of(second) > version_of(first)


async def test_a_finalizer_holds_a_deleted_object(store: Store) -> None:
    made = await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))

    going = await store.delete(FRAMEWORKS, "default", "mnist")
    again = await store.delete(FRAMEWORKS, "default", "mnist")

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", going["metadata"]["deletionTimestamp"])
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    assert going["metadata"]["generation"] == 2
    assert version_of(going) > version_of(made)
    assert again == going
    with pytest.raises(AlreadyExists, match="deleted"):
        await store.create(FRAMEWORKS, a_framework())


@pytest.mark.parametrize("by", ["update", "merge patch", "json patch"])
async def test_the_object_goes_with_its_last_finalizer_and_only_that_is_told(store: Store, by: str) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))
    going = await store.delete(FRAMEWORKS, "default", "mnist")

    match by:
        case "update":
            await store.update(FRAMEWORKS, with_metadata(going, finalizers=None))
        case "merge patch":
            await store.patch(FRAMEWORKS, "default", "mnist", MergePatch({"metadata": {"finalizers": None}}))
        case _:
            patch = JsonPatch([{"op": "remove", "path": "/metadata/finalizers/0"}])
            await store.patch(FRAMEWORKS, "default", "mnist", patch)

    with pytest.raises(NotFound):
        await store.get(FRAMEWORKS, "default", "mnist")
    told = await changes_until(store, FRAMEWORKS, version_of(going))
    assert told == [(ChangeType.DELETED, "mnist")]


async def test_one_of_two_finalizers_going_leaves_the_object(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y", "x/z"]))
    going = await store.delete(FRAMEWORKS, "default", "mnist")

    after = await store.update(FRAMEWORKS, with_metadata(going, finalizers=["x/z"]))

    assert await store.get(FRAMEWORKS, "default", "mnist") == after


async def test_a_finalizer_going_from_an_object_that_is_not_deleted_is_just_a_change(store: Store) -> None:
    made = await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))

    after = await store.update(FRAMEWORKS, with_metadata(made, finalizers=None))

    assert await store.get(FRAMEWORKS, "default", "mnist") == after


async def test_no_finalizer_can_be_added_once_the_object_is_going(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))
    going = await store.delete(FRAMEWORKS, "default", "mnist")

    with pytest.raises(InvalidObject) as caught:
        await store.update(FRAMEWORKS, with_metadata(going, finalizers=["x/y", "x/z"]))

    assert caught.value.errors[0].reason == "FieldValueForbidden"


@pytest.mark.parametrize(
    ("propagation", "finalizer"),
    [(Propagation.FOREGROUND, "foregroundDeletion"), (Propagation.ORPHAN, "orphan")],
)
async def test_the_garbage_collector_is_given_its_finalizer(
    store: Store, propagation: Propagation, finalizer: str
) -> None:
    await store.create(FRAMEWORKS, a_framework())

    going = await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=propagation))
    await store.update(FRAMEWORKS, with_metadata(going, finalizers=None))

    assert going["metadata"]["finalizers"] == [finalizer]
    assert "deletionTimestamp" in going["metadata"]
    with pytest.raises(NotFound):
        await store.get(FRAMEWORKS, "default", "mnist")


async def test_background_propagation_takes_the_collectors_finalizers_away(store: Store) -> None:
    await store.create(FRAMEWORKS, a_framework(finalizers=["x/y"]))
    await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.FOREGROUND))

    after = await store.delete(
        FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.BACKGROUND)
    )

    assert after["metadata"]["finalizers"] == ["x/y"]


@pytest.mark.parametrize("how", [DeleteOptions(uid="other"), DeleteOptions(version=999_999)])
async def test_a_deletion_with_a_precondition_that_does_not_hold_changes_nothing(
    store: Store, how: DeleteOptions
) -> None:
    made = await store.create(FRAMEWORKS, a_framework())

    with pytest.raises(Conflict):
        await store.delete(FRAMEWORKS, "default", "mnist", how)

    assert await store.get(FRAMEWORKS, "default", "mnist") == made


async def test_a_deletion_with_preconditions_that_hold_is_carried_out(store: Store) -> None:
    made = await store.create(FRAMEWORKS, a_framework())

    how = DeleteOptions(uid=made["metadata"]["uid"], version=version_of(made))
    await store.delete(FRAMEWORKS, "default", "mnist", how)

    assert (await store.list(FRAMEWORKS)).items == []


async def test_a_pod_that_no_node_runs_is_gone_at_once(store: Store) -> None:
    await store.create(PODS, a_pod())

    await store.delete(PODS, "default", "mnist-worker-0")

    assert (await store.list(PODS)).items == []


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_a_pod_that_has_ended_is_gone_at_once(store: Store, phase: str) -> None:
    pod = await a_bound_pod(store)
    await store.update_status(PODS, with_(pod, status={"phase": phase}))

    await store.delete(PODS, "default", pod["metadata"]["name"])

    assert (await store.list(PODS)).items == []


@pytest.mark.parametrize(
    ("asked", "own", "grace"),
    [
        pytest.param(None, None, 30, id="thirty seconds unless told"),
        pytest.param(None, 5, 5, id="the pod's own wish"),
        pytest.param(7, 5, 7, id="the caller's wish"),
        pytest.param(-3, None, 1, id="a negative grace is one second"),
    ],
)
async def test_a_running_pod_gets_its_grace(
    store: Store, asked: int | None, own: int | None, grace: int
) -> None:
    pod = await a_bound_pod(store, **({} if own is None else {"terminationGracePeriodSeconds": own}))

    going = await store.delete(PODS, "default", pod["metadata"]["name"], DeleteOptions(grace=asked))

    assert going["metadata"]["deletionGracePeriodSeconds"] == grace
    assert "deletionTimestamp" in going["metadata"]
    assert await store.get(PODS, "default", pod["metadata"]["name"]) == going


async def test_a_grace_can_be_shortened_and_never_lengthened(store: Store) -> None:
    name = (await a_bound_pod(store))["metadata"]["name"]
    first = await store.delete(PODS, "default", name, DeleteOptions(grace=30))

    longer = await store.delete(PODS, "default", name, DeleteOptions(grace=60))
    unsaid = await store.delete(PODS, "default", name)
    shorter = await store.delete(PODS, "default", name, DeleteOptions(grace=10))

    assert longer == unsaid == first
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 10
    assert shorter["metadata"]["deletionTimestamp"] < first["metadata"]["deletionTimestamp"]
    assert shorter["metadata"]["generation"] == first["metadata"]["generation"]


@pytest.mark.parametrize("asked_before", [True, False])
async def test_no_grace_removes_a_running_pod(store: Store, asked_before: bool) -> None:
    name = (await a_bound_pod(store))["metadata"]["name"]
    if asked_before:
        await store.delete(PODS, "default", name)

    await store.delete(PODS, "default", name, DeleteOptions(grace=0))

    assert (await store.list(PODS)).items == []


async def test_a_finalizer_holds_a_pod_whose_grace_is_over(store: Store) -> None:
    pod = await store.create(PODS, with_metadata(a_pod(nodeName="node-1"), finalizers=["x/y"]))
    name = pod["metadata"]["name"]
    await store.delete(PODS, "default", name)

    held = await store.delete(PODS, "default", name, DeleteOptions(grace=0))
    await store.update(PODS, with_metadata(held, finalizers=None))

    assert held["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await store.list(PODS)).items == []


async def test_a_finalizer_going_does_not_cut_a_pods_grace_short(store: Store) -> None:
    pod = await store.create(PODS, with_metadata(a_pod(nodeName="node-1"), finalizers=["x/y"]))
    going = await store.delete(PODS, "default", pod["metadata"]["name"])

    after = await store.update(PODS, with_metadata(going, finalizers=None))

    assert await store.get(PODS, "default", pod["metadata"]["name"]) == after
