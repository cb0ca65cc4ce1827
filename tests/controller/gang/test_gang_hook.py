"""The attendant of gangs finds who places one, stays with them, and clears up."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import pytest

from launcher.controller.gang import native, scheduler_plugins, volcano
from launcher.controller.gang.gang_hook import ClusterGangHook
from launcher.controller.gang.gang_request import BACKEND_LABEL
from launcher.controller.gang.gated_gangs import GATE
from launcher.controller.gang.kueue import GROUP_LABEL, QUEUE_LABEL
from launcher.core.errors import InvalidObject, NotServed
from launcher.core.framework import Framework
from launcher.core.pods.overlay import PodOverlay
from launcher.core.spec import RoleName
from launcher.scheduling.capacity import ClusterCapacity
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, MergePatch, Object, ResourceKind
from tests.controller.gang.builders import NOW, a_gang, a_store, pods_of, stored
from tests.controller.gang.test_backend_discovery import Api, Server
from tests.core.manifests import a_role
from tests.store.builders import PATIENCE

_VOLCANO: Api = {"scheduling.volcano.sh/v1beta1": ["podgroups"]}
_PLUGINS: Api = {"scheduling.x-k8s.io/v1alpha1": ["podgroups"]}
_SECOND: Api = {"scheduling.k8s.io/v1alpha2": ["podgroups"]}
_KUEUE: Api = {"kueue.x-k8s.io/v1beta1": ["localqueues"]}


class Site:
    """A cluster that serves what a test says."""

    def __init__(self, api: Api, store: MemoryStore | None = None) -> None:
        self.server, self.store = Server(api), store or a_store()
        self.gangs = ClusterGangHook(
            self.store, self.server.answer, ClusterCapacity, clock=lambda: NOW, chance=lambda: 0.5
        )

    async def begin(self, framework: Framework, attempt: int = 0) -> list[Object]:
        """The pods that the controller creates."""
        extras = await self.gangs.prepare(framework, attempt)
        return [await self.store.create(PODS, pod) for pod in pods_of(framework, extras, attempt)]

    async def groups(self, kind: ResourceKind) -> list[Object]:
        return [*(await self.store.list(kind)).items]


def _backends(extras: Mapping[RoleName, PodOverlay]) -> set[Any]:
    return {given.labels.get(BACKEND_LABEL) for given in extras.values()}


@pytest.mark.parametrize("roles", [[a_role(background=True)], [a_role(tasks=0)]])
async def test_what_has_no_tasks_to_place_together_needs_nothing(roles: list[Any]) -> None:
    site = Site(_PLUGINS)
    framework = await stored(site.store, a_gang(*roles))

    assert await site.gangs.prepare(framework, 0) == {}
    assert site.server.asked == []


async def test_a_framework_that_is_no_gang_costs_nothing() -> None:
    site = Site(_PLUGINS)
    plain = a_gang()
    del plain["spec"]["gang"]
    framework = await stored(site.store, plain)

    assert await site.gangs.prepare(framework, 0) == {}
    await site.gangs.finish(framework)
    assert site.server.asked == []


async def test_who_places_the_first_pods_places_those_that_follow() -> None:
    site = Site({})
    framework = await stored(site.store, a_gang())
    await site.begin(framework)
    later = Site(_PLUGINS, site.store)

    again = await later.gangs.prepare(framework, 0)
    another = await later.gangs.prepare(framework, 1)

    assert _backends(again) == {"gates"}
    assert _backends(another) == {"scheduler-plugins"}


async def test_pods_of_another_framework_of_that_name_do_not_count() -> None:
    site = Site({})
    framework = await stored(site.store, a_gang())
    await site.begin(framework)
    await site.store.delete(FRAMEWORKS, "default", "mnist")
    newer = await stored(site.store, a_gang())
    later = Site(_PLUGINS, site.store)

    assert _backends(await later.gangs.prepare(newer, 0)) == {"scheduler-plugins"}


async def test_without_anybody_else_pods_have_a_gate() -> None:
    site = Site({})
    framework = await stored(site.store, a_gang())

    pods = await site.begin(framework)

    assert [pod["spec"]["schedulingGates"] for pod in pods] == [[{"name": GATE}]] * 3


async def test_the_queue_that_the_framework_is_labelled_with_counts_where_kueue_is_there() -> None:
    labelled = a_gang(labels={QUEUE_LABEL: "research"})
    queue = ResourceKind("kueue.x-k8s.io", "v1beta1", "localqueues", "LocalQueue")
    meta = {"name": "research", "namespace": "default"}
    site = Site(_KUEUE)
    await site.store.create(queue, {"apiVersion": queue.api_version, "kind": queue.kind, "metadata": meta})
    framework = await stored(site.store, labelled)

    pods = await site.begin(framework)
    again = await site.gangs.prepare(framework, 0)

    assert [pod["metadata"]["labels"][GROUP_LABEL] for pod in pods] == ["mnist-0"] * 3
    assert [given.labels[QUEUE_LABEL] for given in again.values()] == ["research"]

    other = Site({})
    assert _backends(await other.gangs.prepare(await stored(other.store, labelled), 0)) == {"gates"}


async def test_nothing_is_made_where_the_queue_cannot_be() -> None:
    site = Site(_PLUGINS)
    framework = await stored(site.store, a_gang(gang={"queue": "research"}))

    with pytest.raises(InvalidObject, match="looked for localqueues"):
        await site.gangs.prepare(framework, 0)

    assert await site.groups(scheduler_plugins.KIND) == []


class Without(MemoryStore):
    """A store that does not know groups."""

    async def list(self, kind: ResourceKind, *args: Any, **more: Any) -> Any:
        if kind == volcano.KIND:
            raise NotServed("podgroups")
        return await super().list(kind, *args, **more)


async def test_what_was_found_and_is_gone_is_looked_for_again() -> None:
    site = Site(_VOLCANO, Without(lambda: NOW, iter(map(str, range(100))).__next__))
    framework = await stored(site.store, a_gang())
    with pytest.raises(NotServed):
        await site.gangs.prepare(framework, 0)
    site.server.api = _SECOND

    extras = await site.gangs.prepare(framework, 0)

    assert _backends(extras) == {"kubernetes"}


async def test_tasks_that_are_over_are_known_from_the_status() -> None:
    site = Site(_PLUGINS)
    framework = await stored(site.store, a_gang())
    await site.begin(framework)
    done, now = {"index": 0, "state": "Completed"}, "2026-01-01T00:00:00Z"
    status = _status(
        now, [done, {"index": 1, "state": "AttemptRunning"}, {"index": 2, "state": "AttemptRunning"}]
    )
    await site.store.patch(
        FRAMEWORKS, "default", "mnist", MergePatch({"status": status}), subresource="status"
    )

    await site.gangs.prepare(framework, 0)

    assert [group["spec"] for group in await site.groups(scheduler_plugins.KIND)] == [{"minMember": 2}]


async def test_at_the_end_every_kind_of_group_is_looked_for() -> None:
    site = Site(_SECOND)
    framework = await stored(site.store, a_gang())
    await site.gangs.prepare(framework, 0)
    later = Site(_SECOND | _PLUGINS | _KUEUE, site.store)

    await later.gangs.finish(framework)

    assert await site.groups(native.SECOND.kind) == []


@pytest.fixture
async def running() -> AsyncIterator[Site]:
    """A site whose attendant works."""
    site = Site({})
    async with asyncio.TaskGroup() as group:
        working = group.create_task(site.gangs.run())
        yield site
        working.cancel()


async def test_the_choice_is_told(running: Site) -> None:
    framework = await stored(running.store, a_gang(gang={"minTasks": 2}))
    version = (await running.store.list(EVENTS)).version

    await running.gangs.prepare(framework, 0)

    async with asyncio.timeout(PATIENCE), aclosing(running.store.watch(EVENTS, since=version)) as changes:
        event = (await anext(changes)).object
    assert (event["reason"], event["involvedObject"]["uid"]) == ("GangBackend", framework.uid)
    assert event["message"] == (
        "attempt 0: at least 2 of 3 tasks are let through together by the launcher, as soon as they fit"
    )


def _status(now: str, tasks: list[Object]) -> Object:
    """As the launcher writes it, as far as it matters."""
    begun = {
        "startTime": now,
        "transitionTime": now,
        "retryPolicyStatus": {"totalRetriedCount": 0, "accountableRetriedCount": 0, "retryDelaySec": None},
    }
    attempt = {"id": 0, "startTime": now}
    roles = [
        {"name": "worker", "taskStatuses": [{**begun, **task, "attemptStatus": attempt} for task in tasks]}
    ]
    return {**begun, "state": "AttemptRunning", "attemptStatus": {**attempt, "taskRoleStatuses": roles}}
