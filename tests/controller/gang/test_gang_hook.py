"""The gang hook chooses a backend, uses it for the whole attempt, and deletes its objects at the end."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.gang_hook import ClusterGangHook
from launcher.controller.gang.gated_gangs import GATE
from launcher.controller.gang.kueue import GROUP_LABEL, QUEUE_LABEL
from launcher.core.errors import InvalidObject, NotServed
from launcher.core.framework import Framework
from launcher.core.names import BACKEND_LABEL
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, MergePatch, Object, ResourceKind
from tests.builders import a_role
from tests.controller.gang.builders import NOW, a_gang, a_store, create_framework, parse_framework, pods_of
from tests.controller.gang.test_backend_discovery import Api, DiscoveryServer
from tests.eventually import TIMEOUT_SECONDS

_VOLCANO: Api = {"scheduling.volcano.sh/v1beta1": ["podgroups"]}
_SCHEDULER_PLUGINS: Api = {"scheduling.x-k8s.io/v1alpha1": ["podgroups"]}
_NATIVE_V1ALPHA2: Api = {"scheduling.k8s.io/v1alpha2": ["podgroups"]}
_KUEUE: Api = {"kueue.x-k8s.io/v1beta1": ["localqueues"]}


class GangHookHarness:
    """A gang hook and a cluster with the given API."""

    def __init__(self, api: Api, store: MemoryStore | None = None) -> None:
        self.server, self.store = DiscoveryServer(api), store or a_store()
        self.hook = ClusterGangHook(self.store, self.server.discover, clock=lambda: NOW, jitter=lambda: 0.5)

    async def create_pods(self, framework: Framework, attempt: int = 0) -> list[Object]:
        """Creates the pods of the Framework, as the controller does."""
        overlays = await self.hook.prepare(framework, attempt)
        return [await self.store.create(PODS, pod) for pod in pods_of(framework, overlays, attempt)]

    async def groups(self, kind: ResourceKind) -> list[Object]:
        return [*(await self.store.list(kind)).items]


def _backends(overlays: Mapping[RoleName, PodOverlay]) -> set[Any]:
    return {overlay.labels.get(BACKEND_LABEL) for overlay in overlays.values()}


@pytest.mark.parametrize("roles", [[a_role(background=True)], [a_role(tasks=0)]])
async def test_a_gang_without_tasks_needs_no_backend(roles: list[Any]) -> None:
    harness = GangHookHarness(_SCHEDULER_PLUGINS)
    framework = await create_framework(harness.store, a_gang(*roles))

    assert await harness.hook.prepare(framework, 0) == {}
    assert harness.server.paths == []


async def test_a_framework_without_a_gang_causes_no_requests() -> None:
    harness = GangHookHarness(_SCHEDULER_PLUGINS)
    obj = a_gang()
    del obj["spec"]["gang"]
    framework = await create_framework(harness.store, obj)

    assert await harness.hook.prepare(framework, 0) == {}
    await harness.hook.finish(framework)
    assert harness.server.paths == []


async def test_the_backend_of_the_first_pods_is_used_for_the_whole_attempt() -> None:
    harness = GangHookHarness({})
    framework = await create_framework(harness.store, a_gang())
    await harness.create_pods(framework)
    restarted = GangHookHarness(_SCHEDULER_PLUGINS, harness.store)

    same_attempt = await restarted.hook.prepare(framework, 0)
    next_attempt = await restarted.hook.prepare(framework, 1)

    assert _backends(same_attempt) == {"gates"}
    assert _backends(next_attempt) == {"scheduler-plugins"}


async def test_pods_of_a_deleted_framework_with_the_same_name_are_ignored() -> None:
    harness = GangHookHarness({})
    framework = await create_framework(harness.store, a_gang())
    await harness.create_pods(framework)
    await harness.store.delete(FRAMEWORKS, "default", "mnist")
    new_framework = await create_framework(harness.store, a_gang())
    restarted = GangHookHarness(_SCHEDULER_PLUGINS, harness.store)

    assert _backends(await restarted.hook.prepare(new_framework, 0)) == {"scheduler-plugins"}


async def test_pods_get_the_scheduling_gate_if_no_other_backend_is_installed() -> None:
    harness = GangHookHarness({})
    framework = await create_framework(harness.store, a_gang())

    pods = await harness.create_pods(framework)

    assert [pod["spec"]["schedulingGates"] for pod in pods] == [[{"name": GATE}]] * 3


async def test_the_queue_label_of_the_framework_is_used_if_kueue_is_installed() -> None:
    labelled = a_gang(labels={QUEUE_LABEL: "research"})
    queue = ResourceKind("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue")
    meta = {"name": "research", "namespace": "default"}
    harness = GangHookHarness(_KUEUE)
    await harness.store.create(queue, {"apiVersion": queue.api_version, "kind": queue.kind, "metadata": meta})
    framework = await create_framework(harness.store, labelled)

    pods = await harness.create_pods(framework)
    overlays = await harness.hook.prepare(framework, 0)

    assert [pod["metadata"]["labels"][GROUP_LABEL] for pod in pods] == ["mnist-0"] * 3
    assert [overlay.labels[QUEUE_LABEL] for overlay in overlays.values()] == ["research"]

    without_kueue = GangHookHarness({})
    framework = await create_framework(without_kueue.store, labelled)
    assert _backends(await without_kueue.hook.prepare(framework, 0)) == {"gates"}


async def test_no_pod_group_is_created_if_the_queue_is_rejected() -> None:
    harness = GangHookHarness(_SCHEDULER_PLUGINS)
    framework = await create_framework(harness.store, a_gang(gang={"queue": "research"}))

    with pytest.raises(InvalidObject, match="neither localqueues"):
        await harness.hook.prepare(framework, 0)

    assert await harness.groups(scheduler_plugins.KIND) == []


class StoreWithoutVolcano(MemoryStore):
    """A store that does not serve Volcano's pod groups."""

    async def list(self, kind: ResourceKind, *args: Any, **options: Any) -> Any:
        if kind == volcano.KIND:
            raise NotServed("podgroups")
        return await super().list(kind, *args, **options)


async def test_backends_are_discovered_again_after_one_was_not_served() -> None:
    harness = GangHookHarness(_VOLCANO, StoreWithoutVolcano(lambda: NOW, iter(map(str, range(100))).__next__))
    framework = await create_framework(harness.store, a_gang())
    with pytest.raises(NotServed):
        await harness.hook.prepare(framework, 0)
    harness.server.api = _NATIVE_V1ALPHA2

    overlays = await harness.hook.prepare(framework, 0)

    assert _backends(overlays) == {"kubernetes"}


async def test_completed_tasks_of_the_status_lower_the_minimum() -> None:
    harness = GangHookHarness(_SCHEDULER_PLUGINS)
    framework = await create_framework(harness.store, a_gang())
    await harness.create_pods(framework)
    completed, now = {"index": 0, "state": "Completed"}, "2026-01-01T00:00:00Z"
    status = _status(
        now, [completed, {"index": 1, "state": "AttemptRunning"}, {"index": 2, "state": "AttemptRunning"}]
    )
    changed = await harness.store.patch(
        FRAMEWORKS, "default", "mnist", MergePatch({"status": status}), subresource="status"
    )

    await harness.hook.prepare(parse_framework(changed), 0)

    assert [group["spec"] for group in await harness.groups(scheduler_plugins.KIND)] == [{"minMember": 2}]


async def test_finish_deletes_the_pod_groups_of_every_backend() -> None:
    harness = GangHookHarness(_NATIVE_V1ALPHA2)
    framework = await create_framework(harness.store, a_gang())
    await harness.hook.prepare(framework, 0)
    restarted = GangHookHarness(_NATIVE_V1ALPHA2 | _SCHEDULER_PLUGINS | _KUEUE, harness.store)

    await restarted.hook.finish(framework)

    assert await harness.groups(native.V1ALPHA2.kind) == []


@pytest.fixture
async def running_harness() -> AsyncIterator[GangHookHarness]:
    """A harness with a running hook."""
    harness = GangHookHarness({})
    async with asyncio.TaskGroup() as group:
        task = group.create_task(harness.hook.run())
        yield harness
        task.cancel()


async def test_the_chosen_backend_is_recorded_in_an_event(running_harness: GangHookHarness) -> None:
    framework = await create_framework(running_harness.store, a_gang(gang={"minTasks": 2}))
    version = (await running_harness.store.list(EVENTS)).version

    await running_harness.hook.prepare(framework, 0)

    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        aclosing(running_harness.store.watch(EVENTS, since=version)) as changes,
    ):
        event = (await anext(changes)).object
    assert (event["reason"], event["involvedObject"]["uid"]) == ("GangBackend", framework.uid)
    assert event["message"] == (
        "Attempt 1: at least 2 of 3 tasks are scheduled together by the launcher's scheduling gates."
    )


def _status(now: str, tasks: list[Object]) -> Object:
    """The fields of a status that the hook reads."""
    common = {
        "startTime": now,
        "transitionTime": now,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
    }
    attempt = {"id": 0, "startTime": now}
    roles = [
        {"name": "worker", "taskStatuses": [{**common, **task, "attemptStatus": attempt} for task in tasks]}
    ]
    return {**common, "state": "AttemptRunning", "attemptStatus": {**attempt, "taskRoleStatuses": roles}}
