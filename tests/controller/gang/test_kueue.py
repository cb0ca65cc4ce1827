"""Kueue is given groups of plain pods, and told when they are over."""

import pytest

from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest
from launcher.controller.gang.kueue import GROUP_LABEL, QUEUE_LABEL, TOTAL, Kueue, queue_of
from launcher.core.errors import InvalidObject
from launcher.core.framework import Framework
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import PODS, Object, ResourceKind
from tests.controller.gang.builders import a_gang, a_store, pods_of, read, stored, wanted
from tests.core.manifests import Json, a_pod, a_role

_QUEUES = ResourceKind("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue")
_WORKLOADS = ResourceKind("kueue.x-k8s.io", "v1beta1", "workloads", "Workload")


async def _queue(store: MemoryStore) -> None:
    meta = {"name": "research", "namespace": "default"}
    await store.create(
        _QUEUES, {"apiVersion": _QUEUES.api_version, "kind": "LocalQueue", "metadata": meta, "spec": {}}
    )


async def _running(store: MemoryStore, framework: Framework, attempt: int = 0) -> list[Object]:
    extras = await Kueue(store, "v1beta1").prepare(GangRequest(framework, attempt), "research")
    return [await store.create(PODS, pod) for pod in pods_of(framework, extras, attempt)]


async def _workload(store: MemoryStore, name: str, *owners: Object) -> None:
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


def _labelled(queue: str) -> Json:
    return {**a_pod(), "metadata": {"labels": {QUEUE_LABEL: queue}}}


def test_the_queue_is_that_of_the_gang_else_of_the_framework_else_of_its_pods() -> None:
    role = a_role(pod=_labelled("of-pods"))

    assert queue_of(wanted(role, gang={"queue": "of-gang"}), {QUEUE_LABEL: "of-framework"}) == "of-gang"
    assert queue_of(wanted(role), {QUEUE_LABEL: "of-framework"}) == "of-framework"
    assert queue_of(wanted(role, a_role("ps")), {}) == "of-pods"
    assert queue_of(wanted(), {}) == ""


def test_a_gang_waits_in_one_queue() -> None:
    with pytest.raises(
        InvalidObject, match=r"one queue, and these name a and b: name it in spec\.gang\.queue"
    ):
        queue_of(wanted(a_role("ps", pod=_labelled("a")), a_role("worker", pod=_labelled("b"))), {})


async def test_every_pod_names_the_queue_the_group_of_its_attempt_and_how_many_it_is_of() -> None:
    store = a_store()
    await _queue(store)
    roles = (a_role("ps", 1), a_role("worker", 2), a_role("board", 1, background=True))
    framework = await stored(store, a_gang(*roles, gang={"minTasks": 2}))

    pods = await _running(store, framework, attempt=3)

    labels = [pod["metadata"]["labels"] for pod in pods]
    assert [(one.get(QUEUE_LABEL), one.get(GROUP_LABEL), one.get(BACKEND_LABEL)) for one in labels] == [
        *[("research", "mnist-3", "kueue")] * 3,
        (None, None, None),
    ]
    assert [pod["metadata"]["annotations"].get(TOTAL) for pod in pods] == ["3", "3", "3", None]


async def test_a_queue_that_is_not_there_is_refused() -> None:
    store = a_store()
    framework = await stored(store, a_gang())

    with pytest.raises(InvalidObject, match='"nowhere": namespace default has no LocalQueue of that name'):
        await Kueue(store, "v1beta1").prepare(GangRequest(framework, 0), "nowhere")


async def test_after_a_rescale_new_pods_wait_by_themselves() -> None:
    store = a_store()
    await _queue(store)
    framework = await stored(store, a_gang())
    await _running(store, framework)
    larger = read({**a_gang(a_role(tasks=4)), "metadata": {**a_gang()["metadata"], "uid": framework.uid}})

    extras = await Kueue(store, "v1beta1").prepare(GangRequest(larger, 0), "research")

    assert [dict(given.labels) for given in extras.values()] == [
        {BACKEND_LABEL: "kueue", QUEUE_LABEL: "research"}
    ]


async def test_at_the_end_kueue_is_told_and_the_workload_is_gone() -> None:
    store = a_store()
    await _queue(store)
    framework = await stored(store, a_gang())
    pods = await _running(store, framework)
    await _workload(store, "mnist-0", *pods)

    await Kueue(store, "v1beta1").finish(framework)

    assert (await store.list(_WORKLOADS)).items == []
    final = [
        pod["metadata"]["annotations"].get("kueue.x-k8s.io/retriable-in-group")
        for pod in (await store.list(PODS)).items
    ]
    assert final == ["false", None, None]
    await Kueue(store, "v1beta1").finish(framework)


async def test_a_workload_of_that_name_that_is_not_its_own_is_left_alone() -> None:
    store = a_store()
    await _queue(store)
    framework = await stored(store, a_gang())
    await _running(store, framework)
    await _workload(store, "mnist-0")

    await Kueue(store, "v1beta1").finish(framework)

    assert [one["metadata"]["name"] for one in (await store.list(_WORKLOADS)).items] == ["mnist-0"]
