"""A gang has one pod group per attempt, created before its pods and deleted when the Framework completes."""

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.pod_groups import PodGroupBackend, PodGroups
from launcher.core.errors import Conflict, Unavailable
from launcher.core.names import BACKEND_LABEL
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import MergePatch, Object
from tests.builders import a_role
from tests.controller.gang.builders import a_gang, a_store, create_framework, parse_framework

_BACKENDS = [
    pytest.param(scheduler_plugins.BACKEND, id="scheduler-plugins"),
    pytest.param(native.V1BETA1, id="Kubernetes 1.37"),
    pytest.param(native.V1ALPHA2, id="Kubernetes 1.36"),
    pytest.param(native.V1ALPHA1, id="Kubernetes 1.35"),
]


async def _names(store: MemoryStore, backend: PodGroupBackend) -> list[str]:
    return [group["metadata"]["name"] for group in (await store.list(backend.kind)).items]


async def _only_group(store: MemoryStore, backend: PodGroupBackend) -> Object:
    (group,) = (await store.list(backend.kind)).items
    return group


@pytest.mark.parametrize("backend", _BACKENDS)
async def test_the_framework_owns_the_pod_group_and_pods_are_labelled_with_the_backend(
    backend: PodGroupBackend,
) -> None:
    store = a_store()
    framework = await create_framework(
        store, a_gang(a_role("worker", 2), a_role("board", 1, background=True))
    )

    overlays = await PodGroups(store, backend).prepare(GangRequest(framework, 0))

    group = await _only_group(store, backend)
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Framework", framework.uid, True)
    assert owner["blockOwnerDeletion"] is True
    assert group["metadata"]["labels"] == {"FC_FRAMEWORK_NAME": "mnist", "FC_FRAMEWORK_ATTEMPT_ID": "0"}
    assert {role: overlay.labels[BACKEND_LABEL] for role, overlay in overlays.items()} == {
        "worker": backend.name
    }


@pytest.mark.parametrize("backend", _BACKENDS)
async def test_an_existing_pod_group_of_the_attempt_is_not_changed(backend: PodGroupBackend) -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())
    overlays = await PodGroups(store, backend).prepare(GangRequest(framework, 0))
    before = await _only_group(store, backend)

    assert await PodGroups(store, backend).prepare(GangRequest(framework, 0)) == overlays
    assert await _only_group(store, backend) == before


@pytest.mark.parametrize("backend", _BACKENDS)
async def test_the_pod_group_of_an_earlier_attempt_is_deleted(backend: PodGroupBackend) -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())
    groups = PodGroups(store, backend)
    await groups.prepare(GangRequest(framework, 0))

    await groups.prepare(GangRequest(framework, 1))

    assert await _names(store, backend) == ["mnist-1"]


@pytest.mark.parametrize("backend", _BACKENDS)
async def test_finish_deletes_only_the_pod_groups_of_the_framework(backend: PodGroupBackend) -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())
    other = await create_framework(store, a_gang(name="other"))
    groups = PodGroups(store, backend)
    await groups.prepare(GangRequest(framework, 0))
    await groups.prepare(GangRequest(other, 0))

    await groups.finish(framework)

    assert await _names(store, backend) == ["other-0"]
    await groups.finish(framework)


async def test_a_pod_group_of_another_owner_is_not_used_or_deleted() -> None:
    store = a_store()
    other_framework = parse_framework(
        {**a_gang(), "metadata": {"name": "mnist", "namespace": "default", "uid": "another"}}
    )
    await PodGroups(store, scheduler_plugins.BACKEND).prepare(GangRequest(other_framework, 0))
    framework = await create_framework(store, a_gang())

    with pytest.raises(
        Conflict, match=r"PodGroup mnist-0 .* already exists and is not owned by this Framework"
    ):
        await PodGroups(store, scheduler_plugins.BACKEND).prepare(GangRequest(framework, 0))

    await PodGroups(store, scheduler_plugins.BACKEND).finish(framework)
    assert await _names(store, scheduler_plugins.BACKEND) == ["mnist-0"]


async def test_no_pods_are_created_before_volcano_admits_the_group() -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())
    groups = PodGroups(store, volcano.BACKEND)

    with pytest.raises(Unavailable, match=r"mnist-0 .*: waiting for Volcano to process it"):
        await groups.prepare(GangRequest(framework, 0))
    await store.patch(
        volcano.KIND, "default", "mnist-0", MergePatch({"status": {"phase": "Inqueue"}}), subresource="status"
    )

    assert set(await groups.prepare(GangRequest(framework, 0))) == {"worker"}


async def test_no_pods_are_created_while_a_group_of_the_same_name_is_being_deleted() -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())
    groups = PodGroups(store, scheduler_plugins.BACKEND)
    await groups.prepare(GangRequest(framework, 0))
    patch = MergePatch({"metadata": {"finalizers": ["test/finalizer"]}})
    await store.patch(scheduler_plugins.KIND, "default", "mnist-0", patch)
    await groups.finish(framework)

    with pytest.raises(Unavailable, match="to be deleted"):
        await groups.prepare(GangRequest(framework, 0))


@pytest.mark.parametrize(
    ("backend", "minimum"),
    [
        pytest.param(volcano.BACKEND, 3, id="Volcano counts completed pods"),
        pytest.param(scheduler_plugins.BACKEND, 1, id="scheduler-plugins count running pods only"),
        pytest.param(native.V1BETA1, 1, id="Kubernetes 1.37 counts running pods only"),
    ],
)
async def test_completed_tasks_do_not_block_the_others(backend: PodGroupBackend, minimum: int) -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())
    group = {
        "apiVersion": backend.kind.api_version,
        "kind": backend.kind.kind,
        "metadata": GangRequest(framework, 0).metadata(),
        "spec": backend.group_spec(GangRequest(framework, 0)),
    }
    await store.create(backend.kind, group)
    running = MergePatch({"status": {"phase": "Running"}})
    await store.patch(backend.kind, "default", "mnist-0", running, subresource="status")

    overlays = await PodGroups(store, backend).prepare(GangRequest(framework, 0, completed_tasks=2))

    assert set(overlays) == {"worker"}
    assert backend.min_member(await _only_group(store, backend)) == minimum


@pytest.mark.parametrize("backend", [native.V1ALPHA2, native.V1ALPHA1])
async def test_pods_do_not_join_an_immutable_group_that_can_no_longer_be_complete(
    backend: PodGroupBackend,
) -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())
    groups = PodGroups(store, backend)
    overlays = await groups.prepare(GangRequest(framework, 0))

    assert await groups.prepare(GangRequest(framework, 0, completed_tasks=1)) == {}
    assert await groups.prepare(GangRequest(framework, 0)) == overlays


async def test_a_scale_up_does_not_raise_the_minimum_of_the_group() -> None:
    store = a_store()
    groups = PodGroups(store, scheduler_plugins.BACKEND)
    small = await create_framework(store, a_gang(a_role(tasks=2)))
    await groups.prepare(GangRequest(small, 0))
    large = parse_framework(
        {**a_gang(a_role(tasks=5)), "metadata": {**a_gang()["metadata"], "uid": small.uid}}
    )

    await groups.prepare(GangRequest(large, 0))

    assert (await _only_group(store, scheduler_plugins.BACKEND))["spec"] == {"minMember": 2}
