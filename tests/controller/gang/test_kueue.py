"""Gangs in Kueue are groups of plain pods, which are finished with the Framework."""

import pytest

from launcher.controller.gang.gang_request import GangRequest
from launcher.controller.gang.kueue import GROUP_LABEL, QUEUE_LABEL, TOTAL_COUNT_ANNOTATION, Kueue, queue_name
from launcher.core.errors import InvalidObject
from launcher.core.framework import Framework
from launcher.core.names import BACKEND_LABEL
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import PODS, Object, ResourceKind
from tests.builders import Json, a_pod_template, a_role
from tests.controller.gang.builders import (
    a_gang,
    a_gang_request,
    a_store,
    create_framework,
    parse_framework,
    pods_of,
)

_QUEUES = ResourceKind("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue")
_WORKLOADS = ResourceKind("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")


async def _create_queue(store: MemoryStore) -> None:
    meta = {"name": "research", "namespace": "default"}
    await store.create(
        _QUEUES, {"apiVersion": _QUEUES.api_version, "kind": "LocalQueue", "metadata": meta, "spec": {}}
    )


async def _create_pods(store: MemoryStore, framework: Framework, attempt: int = 0) -> list[Object]:
    overlays = await Kueue(store, "v1beta1").prepare(GangRequest(framework, attempt), "research")
    return [await store.create(PODS, pod) for pod in pods_of(framework, overlays, attempt)]


async def _create_workload(store: MemoryStore, name: str, *owners: Object) -> None:
    meta = {
        "name": name,
        "namespace": "default",
        "ownerReferences": [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
            }
            for pod in owners
        ],
    }
    await store.create(
        _WORKLOADS, {"apiVersion": _WORKLOADS.api_version, "kind": "Workload", "metadata": meta, "spec": {}}
    )


def _pod_in_queue(queue: str) -> Json:
    return {**a_pod_template(), "metadata": {"labels": {QUEUE_LABEL: queue}}}


def test_the_queue_of_the_gang_overrides_the_label_of_the_framework_which_overrides_those_of_pods() -> None:
    role = a_role(pod=_pod_in_queue("of-pods"))

    assert (
        queue_name(a_gang_request(role, gang={"queue": "of-gang"}), {QUEUE_LABEL: "of-framework"})
        == "of-gang"
    )
    assert queue_name(a_gang_request(role), {QUEUE_LABEL: "of-framework"}) == "of-framework"
    assert queue_name(a_gang_request(role, a_role("ps")), {}) == "of-pods"
    assert queue_name(a_gang_request(), {}) == ""


def test_pods_of_a_gang_with_different_queues_are_rejected() -> None:
    with pytest.raises(InvalidObject, match=r"the same queue; found a and b: set spec\.gang\.queue"):
        queue_name(
            a_gang_request(a_role("ps", pod=_pod_in_queue("a")), a_role("worker", pod=_pod_in_queue("b"))), {}
        )


async def test_every_pod_has_the_queue_the_group_of_its_attempt_and_the_total_count() -> None:
    store = a_store()
    await _create_queue(store)
    roles = (a_role("ps", 1), a_role("worker", 2), a_role("board", 1, background=True))
    framework = await create_framework(store, a_gang(*roles, gang={"minTasks": 2}))

    pods = await _create_pods(store, framework, attempt=3)

    labels = [pod["metadata"]["labels"] for pod in pods]
    assert [(pod.get(QUEUE_LABEL), pod.get(GROUP_LABEL), pod.get(BACKEND_LABEL)) for pod in labels] == [
        *[("research", "mnist-3", "kueue")] * 3,
        (None, None, None),
    ]
    assert [pod["metadata"]["annotations"].get(TOTAL_COUNT_ANNOTATION) for pod in pods] == [
        "3",
        "3",
        "3",
        None,
    ]


async def test_a_missing_queue_is_rejected() -> None:
    store = a_store()
    framework = await create_framework(store, a_gang())

    with pytest.raises(InvalidObject, match='"nowhere": namespace default has no LocalQueue of that name'):
        await Kueue(store, "v1beta1").prepare(GangRequest(framework, 0), "nowhere")


async def test_pods_created_after_a_rescale_are_queued_without_the_group() -> None:
    store = a_store()
    await _create_queue(store)
    framework = await create_framework(store, a_gang())
    await _create_pods(store, framework)
    larger = parse_framework(
        {**a_gang(a_role(tasks=4)), "metadata": {**a_gang()["metadata"], "uid": framework.uid}}
    )

    overlays = await Kueue(store, "v1beta1").prepare(GangRequest(larger, 0), "research")

    assert [dict(overlay.labels) for overlay in overlays.values()] == [
        {BACKEND_LABEL: "kueue", QUEUE_LABEL: "research"}
    ]


async def test_finish_marks_the_group_as_final_and_deletes_the_workload() -> None:
    store = a_store()
    await _create_queue(store)
    framework = await create_framework(store, a_gang())
    pods = await _create_pods(store, framework)
    await _create_workload(store, "mnist-0", *pods)

    await Kueue(store, "v1beta1").finish(framework)

    assert (await store.list(_WORKLOADS)).items == []
    annotations = [
        pod["metadata"]["annotations"].get("kueue.x-k8s.io/retriable-in-group")
        for pod in (await store.list(PODS)).items
    ]
    assert annotations == ["false", None, None]
    await Kueue(store, "v1beta1").finish(framework)


async def test_a_workload_of_the_same_name_and_another_owner_is_not_deleted() -> None:
    store = a_store()
    await _create_queue(store)
    framework = await create_framework(store, a_gang())
    await _create_pods(store, framework)
    await _create_workload(store, "mnist-0")

    await Kueue(store, "v1beta1").finish(framework)

    assert [workload["metadata"]["name"] for workload in (await store.list(_WORKLOADS)).items] == ["mnist-0"]
