"""A gang has one group for each of its attempts, made before its pods and gone when nobody needs it."""

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest
from launcher.controller.gang.pod_groups import Groups, PodGroupBackend
from launcher.core.errors import Conflict, Unavailable
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import MergePatch, Object
from tests.controller.gang.builders import a_gang, a_store, read, stored
from tests.core.manifests import a_role

_SHAPES = [
    pytest.param(scheduler_plugins.SHAPE, id="scheduler-plugins"),
    pytest.param(native.BETA, id="Kubernetes 1.37"),
    pytest.param(native.SECOND, id="Kubernetes 1.36"),
    pytest.param(native.FIRST, id="Kubernetes 1.35"),
]


async def _names(store: MemoryStore, shape: PodGroupBackend) -> list[str]:
    return [group["metadata"]["name"] for group in (await store.list(shape.kind)).items]


async def _only(store: MemoryStore, shape: PodGroupBackend) -> Object:
    (group,) = (await store.list(shape.kind)).items
    return group


@pytest.mark.parametrize("shape", _SHAPES)
async def test_the_group_is_the_frameworks_and_its_pods_say_who_places_them(shape: PodGroupBackend) -> None:
    store = a_store()
    framework = await stored(store, a_gang(a_role("worker", 2), a_role("board", 1, background=True)))

    extras = await Groups(store, shape).prepare(GangRequest(framework, 0))

    group = await _only(store, shape)
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Framework", framework.uid, True)
    assert owner["blockOwnerDeletion"] is True
    assert group["metadata"]["labels"] == {"FC_FRAMEWORK_NAME": "mnist", "FC_FRAMEWORK_ATTEMPT_ID": "0"}
    assert {role: given.labels[BACKEND_LABEL] for role, given in extras.items()} == {"worker": shape.backend}


@pytest.mark.parametrize("shape", _SHAPES)
async def test_it_is_found_again_and_left_as_it_is(shape: PodGroupBackend) -> None:
    store = a_store()
    framework = await stored(store, a_gang())
    extras = await Groups(store, shape).prepare(GangRequest(framework, 0))
    before = await _only(store, shape)

    again = await Groups(store, shape).prepare(GangRequest(framework, 0))

    assert again == extras
    assert await _only(store, shape) == before


@pytest.mark.parametrize("shape", _SHAPES)
async def test_another_attempt_has_another_and_the_old_one_goes(shape: PodGroupBackend) -> None:
    store = a_store()
    framework = await stored(store, a_gang())
    groups = Groups(store, shape)
    await groups.prepare(GangRequest(framework, 0))

    await groups.prepare(GangRequest(framework, 1))

    assert await _names(store, shape) == ["mnist-1"]


@pytest.mark.parametrize("shape", _SHAPES)
async def test_at_the_end_its_own_are_gone_and_no_other(shape: PodGroupBackend) -> None:
    store = a_store()
    mine, other = await stored(store, a_gang()), await stored(store, a_gang(name="other"))
    groups = Groups(store, shape)
    await groups.prepare(GangRequest(mine, 0))
    await groups.prepare(GangRequest(other, 0))

    await groups.finish(mine)

    assert await _names(store, shape) == ["other-0"]
    await groups.finish(mine)


async def test_a_group_that_is_not_the_frameworks_is_never_taken_over() -> None:
    store = a_store()
    earlier = read({**a_gang(), "metadata": {"name": "mnist", "namespace": "default", "uid": "another"}})
    await Groups(store, scheduler_plugins.SHAPE).prepare(GangRequest(earlier, 0))
    framework = await stored(store, a_gang())

    with pytest.raises(
        Conflict, match=r"PodGroup mnist-0 .* is there already, and it is not this Framework's"
    ):
        await Groups(store, scheduler_plugins.SHAPE).prepare(GangRequest(framework, 0))

    await Groups(store, scheduler_plugins.SHAPE).finish(framework)
    assert await _names(store, scheduler_plugins.SHAPE) == ["mnist-0"]


async def test_pods_wait_while_the_group_is_not_let_in() -> None:
    store = a_store()
    framework = await stored(store, a_gang())
    groups = Groups(store, volcano.SHAPE)

    with pytest.raises(Unavailable, match=r"mnist-0 .* waits: Volcano has not looked at it yet"):
        await groups.prepare(GangRequest(framework, 0))
    await store.patch(
        volcano.KIND, "default", "mnist-0", MergePatch({"status": {"phase": "Inqueue"}}), subresource="status"
    )

    assert set(await groups.prepare(GangRequest(framework, 0))) == {"worker"}


async def test_pods_wait_while_a_group_of_that_name_is_going() -> None:
    store = a_store()
    framework = await stored(store, a_gang())
    groups = Groups(store, scheduler_plugins.SHAPE)
    await groups.prepare(GangRequest(framework, 0))
    held = MergePatch({"metadata": {"finalizers": ["test/held"]}})
    await store.patch(scheduler_plugins.KIND, "default", "mnist-0", held)
    await groups.finish(framework)

    with pytest.raises(Unavailable, match="is being deleted"):
        await groups.prepare(GangRequest(framework, 0))


@pytest.mark.parametrize(
    ("shape", "left"),
    [
        pytest.param(volcano.SHAPE, 3, id="Volcano counts pods that are over"),
        pytest.param(scheduler_plugins.SHAPE, 1, id="scheduler-plugins are told of fewer"),
        pytest.param(native.BETA, 1, id="so is Kubernetes 1.37"),
    ],
)
async def test_tasks_that_are_over_hold_up_nobody(shape: PodGroupBackend, left: int) -> None:
    store = a_store()
    framework = await stored(store, a_gang())
    group = {
        "apiVersion": shape.kind.api_version,
        "kind": shape.kind.kind,
        "metadata": GangRequest(framework, 0).metadata(),
        "spec": shape.spec(GangRequest(framework, 0)),
    }
    await store.create(shape.kind, group)
    running = MergePatch({"status": {"phase": "Running"}})
    await store.patch(shape.kind, "default", "mnist-0", running, subresource="status")

    extras = await Groups(store, shape).prepare(GangRequest(framework, 0, ended=2))

    assert set(extras) == {"worker"}
    assert shape.min_member(await _only(store, shape)) == left


@pytest.mark.parametrize("shape", [native.SECOND, native.FIRST])
async def test_a_group_that_cannot_change_is_not_joined_when_it_would_wait_for_ever(
    shape: PodGroupBackend,
) -> None:
    store = a_store()
    framework = await stored(store, a_gang())
    groups = Groups(store, shape)
    whole = await groups.prepare(GangRequest(framework, 0))

    assert await groups.prepare(GangRequest(framework, 0, ended=1)) == {}
    assert await groups.prepare(GangRequest(framework, 0)) == whole


async def test_a_gang_that_grows_still_needs_as_many_as_it_began_with() -> None:
    store = a_store()
    groups = Groups(store, scheduler_plugins.SHAPE)
    small = await stored(store, a_gang(a_role(tasks=2)))
    await groups.prepare(GangRequest(small, 0))
    large = read({**a_gang(a_role(tasks=5)), "metadata": {**a_gang()["metadata"], "uid": small.uid}})

    await groups.prepare(GangRequest(large, 0))

    assert (await _only(store, scheduler_plugins.SHAPE))["spec"] == {"minMember": 2}
