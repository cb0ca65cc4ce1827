"""The garbage collector of local mode."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest

from launcher.core.errors import Expired, NotFound
from launcher.core.timestamps import format_rfc3339
from launcher.node.garbage_collector.dependency_graph import DependencyGraph, dependency_node
from launcher.node.garbage_collector.garbage_collector import GarbageCollector
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.informer import SharedInformers
from launcher.store.interface import (
    CONFIG_MAPS,
    EVENTS,
    FRAMEWORKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    Change,
    DeleteOptions,
    MergePatch,
    Object,
    Page,
    Propagation,
    ResourceKind,
    Store,
)
from tests.controller.simulation import virtual_time
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.faults import Faults, FaultyStore
from tests.eventually import eventually
from tests.node.clusters import NOW, a_store, quiet, running
from tests.scheduling.builders import node_json, pod_json
from tests.store.builders import an_object, uids

OWNED = (PODS, SERVICES, CONFIG_MAPS, SECRETS)


def owned(kind: ResourceKind, name: str, *owners: Object, waits: bool = True, **parts: Any) -> Object:
    obj = pod_json(name, **parts) if kind is PODS else an_object(kind, name)
    obj["metadata"]["labels"] = {"FC_FRAMEWORK_NAME": owners[0]["metadata"]["name"]} if owners else {}
    obj["metadata"]["ownerReferences"] = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": waits,
        }
        for owner in owners
    ]
    return obj


async def a_framework(store: Store, name: str = "mnist") -> Object:
    return await store.create(FRAMEWORKS, an_object(FRAMEWORKS, name, spec={}))


async def has(store: Store, kind: ResourceKind, name: str) -> bool:
    namespace = "default" if kind.namespaced else ""
    try:
        await store.get(kind, namespace, name)
    except NotFound:
        return False
    return True


async def is_deleted(store: Store, kind: ResourceKind, name: str) -> bool:
    return not await has(store, kind, name)


@asynccontextmanager
async def collecting(
    store: Store, clock: Callable[[], float] = lambda: NOW, job_kinds: Sequence[ResourceKind] = ()
) -> AsyncIterator[None]:
    informers = SharedInformers(store)
    async with running(GarbageCollector(store, informers, clock=clock, job_kinds=job_kinds), informers):
        yield


async def names_of(store: Store, *kinds: ResourceKind) -> list[str]:
    return [obj["metadata"]["name"] for kind in kinds for obj in (await store.list(kind)).items]


@pytest.mark.parametrize("kind", OWNED, ids=[kind.plural for kind in OWNED])
async def test_dependents_are_deleted_after_their_owner(kind: ResourceKind) -> None:
    store = a_store()
    owner, other = await a_framework(store), await a_framework(store, "other")
    await store.create(kind, owned(kind, "a", owner))
    await store.create(kind, owned(kind, "b", other))

    async with collecting(store):
        await quiet(store)
        assert await names_of(store, kind) == ["a", "b"]
        await store.delete(FRAMEWORKS, "default", "mnist")
        await eventually(lambda: is_deleted(store, kind, "a"))
        await quiet(store)

    assert await names_of(store, kind) == ["b"]


async def test_dependents_of_dependents_are_deleted_too() -> None:
    store = a_store()
    owner = await a_framework(store)
    pod = await store.create(PODS, owned(PODS, "p", owner))
    await store.create(CONFIG_MAPS, owned(CONFIG_MAPS, "c", pod))

    async with collecting(store):
        await store.delete(FRAMEWORKS, "default", "mnist")
        await eventually(lambda: is_deleted(store, CONFIG_MAPS, "c"))

    assert await names_of(store, FRAMEWORKS, PODS) == []


async def test_objects_orphaned_before_the_start_are_deleted() -> None:
    store = a_store()
    owner = await a_framework(store)
    await store.create(PODS, owned(PODS, "p", owner))
    await store.delete(FRAMEWORKS, "default", "mnist")

    async with collecting(store):
        await eventually(lambda: is_deleted(store, PODS, "p"))


async def test_another_owner_of_the_same_name_is_not_the_owner() -> None:
    store = a_store()
    owner = await a_framework(store)
    await store.create(PODS, owned(PODS, "p", owner))
    await store.delete(FRAMEWORKS, "default", "mnist")
    await a_framework(store)

    async with collecting(store):
        await eventually(lambda: is_deleted(store, PODS, "p"))
        await quiet(store)

    assert await names_of(store, FRAMEWORKS) == ["mnist"]


async def test_a_dependent_of_an_owner_that_never_existed_is_deleted() -> None:
    store = a_store()
    missing = an_object(FRAMEWORKS, "missing") | {"metadata": {"name": "missing", "uid": "made-up"}}

    async with collecting(store):
        await quiet(store)
        await store.create(PODS, owned(PODS, "p", missing))
        await eventually(lambda: is_deleted(store, PODS, "p"))


async def test_an_owner_in_another_namespace_does_not_count() -> None:
    store = a_store()
    elsewhere = an_object(FRAMEWORKS, "mnist", spec={})
    elsewhere["metadata"]["namespace"] = "team"
    owner = await store.create(FRAMEWORKS, elsewhere)
    await store.create(PODS, owned(PODS, "p", owner))

    async with collecting(store):
        await eventually(lambda: is_deleted(store, PODS, "p"))


async def test_an_owner_of_an_unknown_kind_counts_as_existing() -> None:
    store = a_store()
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "x"}}
    await store.create(PODS, owned(PODS, "p", job))

    async with collecting(store):
        await quiet(store)

    assert await names_of(store, PODS) == ["p"]


async def test_the_framework_of_a_deleted_job_is_deleted_if_its_kind_is_given() -> None:
    store, jobs = a_store(), ResourceKind("kubeflow.org", "v1", "tfjobs", "TFJob")
    job = await store.create(jobs, an_object(jobs, "j"))
    await store.create(FRAMEWORKS, owned(FRAMEWORKS, "f", job))
    await store.delete(jobs, "default", "j")

    async with collecting(store):
        await quiet(store)
        assert await names_of(store, FRAMEWORKS) == ["f"]
    async with collecting(store, job_kinds=[jobs]):
        await eventually(lambda: is_deleted(store, FRAMEWORKS, "f"))


async def test_an_object_with_another_owner_only_loses_the_reference() -> None:
    store = a_store()
    first, second = await a_framework(store), await a_framework(store, "second")
    await store.create(CONFIG_MAPS, owned(CONFIG_MAPS, "shared", first, second))

    async with collecting(store):
        await store.delete(FRAMEWORKS, "default", "mnist")

        async def has_one_owner() -> bool:
            shared = await store.get(CONFIG_MAPS, "default", "shared")
            return [one["name"] for one in shared["metadata"]["ownerReferences"]] == ["second"]

        await eventually(has_one_owner)


async def test_pods_without_an_owner_are_kept() -> None:
    store = a_store()
    await store.create(NODES, node_json())
    pod = await store.create(PODS, pod_json(nodeName="n1"))
    await store.update_status(PODS, {**pod, "status": {"phase": "Succeeded"}})

    async with collecting(store):
        await quiet(store)

    assert await names_of(store, PODS) == ["p"]


# Foreground deletion and orphans.


async def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    store = a_store()
    owner = await a_framework(store)
    await store.create(NODES, node_json())
    await store.create(PODS, owned(PODS, "p", owner, nodeName="n1"))
    await store.create(SERVICES, owned(SERVICES, "s", owner))

    async with collecting(store):
        await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.FOREGROUND))
        await eventually(lambda: is_deleted(store, SERVICES, "s"))
        await quiet(store)
        pod = await store.get(PODS, "default", "p")
        assert "deletionTimestamp" in pod["metadata"]  # its node has to terminate it first
        assert await has(store, FRAMEWORKS, "mnist")

        await store.delete(PODS, "default", "p", DeleteOptions(grace=0))
        await eventually(lambda: is_deleted(store, FRAMEWORKS, "mnist"))


async def test_foreground_deletion_does_not_wait_for_other_dependents() -> None:
    store = a_store()
    owner = await a_framework(store)
    stays = owned(CONFIG_MAPS, "c", owner, waits=False)
    stays["metadata"]["finalizers"] = ["example.com/hold"]
    await store.create(CONFIG_MAPS, stays)

    async with collecting(store):
        await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.FOREGROUND))
        await eventually(lambda: is_deleted(store, FRAMEWORKS, "mnist"))

    assert "deletionTimestamp" in (await store.get(CONFIG_MAPS, "default", "c"))["metadata"]


async def test_foreground_deletion_of_a_chain_starts_at_its_end() -> None:
    store = a_store()
    owner = await a_framework(store)
    pod = await store.create(PODS, owned(PODS, "p", owner))
    held = owned(CONFIG_MAPS, "c", pod)
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await store.create(CONFIG_MAPS, held)

    async with collecting(store):
        await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.FOREGROUND))
        await quiet(store)
        assert await names_of(store, FRAMEWORKS, PODS, CONFIG_MAPS) == ["mnist", "p", "c"]

        await store.patch(CONFIG_MAPS, "default", "c", MergePatch({"metadata": {"finalizers": None}}))
        await eventually(lambda: is_deleted(store, FRAMEWORKS, "mnist"))

    assert await names_of(store, PODS, CONFIG_MAPS) == []


async def test_other_finalizers_keep_an_owner_without_dependents() -> None:
    store = a_store()
    framework = an_object(FRAMEWORKS, "mnist", spec={})
    framework["metadata"]["finalizers"] = ["example.com/hold"]
    await store.create(FRAMEWORKS, framework)

    async with collecting(store):
        await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.FOREGROUND))

        async def has_one_finalizer() -> bool:
            live = await store.get(FRAMEWORKS, "default", "mnist")
            return bool(live["metadata"]["finalizers"] == ["example.com/hold"])

        await eventually(has_one_finalizer)


async def test_orphans_lose_the_reference_and_stay() -> None:
    store = a_store()
    owner = await a_framework(store)
    for kind in OWNED:
        await store.create(kind, owned(kind, "o", owner))

    async with collecting(store):
        await store.delete(FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.ORPHAN))
        await eventually(lambda: is_deleted(store, FRAMEWORKS, "mnist"))
        await quiet(store)

    for kind in OWNED:
        assert "ownerReferences" not in (await store.get(kind, "default", "o"))["metadata"]


# Namespaces, events, nodes.


async def test_a_namespace_is_deleted_after_its_content() -> None:
    store = a_store()
    await store.create(NAMESPACES, an_object(NAMESPACES, "default"))
    other = an_object(CONFIG_MAPS, "other")
    other["metadata"]["namespace"] = "elsewhere"
    await store.create(CONFIG_MAPS, other)
    owner = await a_framework(store)
    for kind in OWNED:
        await store.create(kind, owned(kind, "o", owner))
    deleted = await store.delete(NAMESPACES, "", "default")

    async with collecting(store):
        await eventually(lambda: is_deleted(store, NAMESPACES, "default"))

    assert deleted["status"]["phase"] == "Terminating"
    assert await names_of(store, FRAMEWORKS, *OWNED) == ["other"]


def test_a_namespace_waits_for_terminating_pods() -> None:
    async def scenario() -> tuple[bool, bool]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        await store.create(NODES, node_json())
        await store.create(NAMESPACES, an_object(NAMESPACES, "default"))
        await store.create(PODS, pod_json(nodeName="n1"))
        async with collecting(store, clock):
            await store.delete(NAMESPACES, "", "default")
            await asyncio.sleep(10)
            before = await has(store, NAMESPACES, "default")
            await store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await asyncio.sleep(10)
            return before, await has(store, NAMESPACES, "default")

    assert virtual_time.run(scenario()) == (True, False)


def test_events_are_deleted_an_hour_after_they_last_occurred() -> None:
    async def scenario() -> list[list[str]]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        for name in ("once", "again"):
            await store.create(EVENTS, an_object(EVENTS, name, lastTimestamp=format_rfc3339(0)))
        seen = []
        async with collecting(store, clock):
            await asyncio.sleep(1800)
            again = {"lastTimestamp": format_rfc3339(1800), "count": 2}
            await store.patch(EVENTS, "default", "again", MergePatch(again))
            for until_second in (3500, 4000, 5300, 5800):
                await asyncio.sleep(until_second - clock())
                seen.append(await names_of(store, EVENTS))
        return seen

    assert virtual_time.run(scenario()) == [["again", "once"], ["again"], ["again"], []]


def pods_after_node_loss(
    node: str, *, registered_again: bool = False
) -> tuple[list[str], list[tuple[str, str]]]:
    """Returns a pod's states after its node was missing for a minute."""

    async def scenario() -> tuple[list[str], list[tuple[str, str]]]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        await store.create(NODES, node_json("n1"))
        created = await store.create(PODS, pod_json(nodeName=node))
        phases = []

        async def watch() -> None:
            since = int(created["metadata"]["resourceVersion"])
            async for change in store.watch(PODS, since=since):
                status = change.object["status"]
                phases.append((status["phase"], status.get("reason", "")))

        watching = asyncio.create_task(watch())
        async with collecting(store, clock):
            await asyncio.sleep(1)
            if node == "n1":
                await store.delete(NODES, "", "n1")
            await asyncio.sleep(30)
            if registered_again:
                await store.create(NODES, node_json("n1"))
            await asyncio.sleep(30)
        watching.cancel()
        return await names_of(store, PODS), phases

    return virtual_time.run(scenario())


def test_a_pod_of_a_deleted_node_fails_and_is_deleted() -> None:
    assert pods_after_node_loss("n1") == ([], [("Failed", "NodeLost"), ("Failed", "NodeLost")])


def test_a_pod_of_a_node_that_never_existed_is_deleted() -> None:
    assert pods_after_node_loss("typo") == ([], [("Failed", "NodeLost"), ("Failed", "NodeLost")])


def test_a_node_registered_again_in_time_keeps_its_pods() -> None:
    assert pods_after_node_loss("n1", registered_again=True) == (["p"], [])


class SuspendedWatchStore(MemoryStore):
    """Suspends the watches of some kinds; when they are resumed, a new list is required."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock, uids())
        self.suspended_kinds: set[ResourceKind] = set()
        self.resumed = asyncio.Event()

    async def watch(self, kind: ResourceKind, *args: Any, **more: Any) -> AsyncIterator[Change]:  # type: ignore[override]  # an async generator either way
        async for change in super().watch(kind, *args, **more):
            if kind in self.suspended_kinds:
                await self.resumed.wait()
                raise Expired("the watch was suspended")
            yield change


def test_foreground_deletion_waits_for_unobserved_pods() -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        clock = asyncio.get_running_loop().time
        store = SuspendedWatchStore(clock)
        owner = await a_framework(store)
        await store.create(NODES, node_json())
        async with collecting(store, clock):
            await asyncio.sleep(1)
            store.suspended_kinds = {PODS}
            await store.create(PODS, owned(PODS, "p", owner, nodeName="n1"))
            await store.delete(
                FRAMEWORKS, "default", "mnist", DeleteOptions(propagation=Propagation.FOREGROUND)
            )
            await asyncio.sleep(10)
            before = await names_of(store, FRAMEWORKS, PODS)
            await store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            store.resumed.set()
            store.suspended_kinds = set()
            await asyncio.sleep(60)
            return before, await names_of(store, FRAMEWORKS, PODS)

    assert virtual_time.run(scenario()) == (["mnist", "p"], [])


def test_an_owner_replaced_unobserved_counts_as_deleted() -> None:
    async def scenario() -> list[str]:
        clock = asyncio.get_running_loop().time
        store = SuspendedWatchStore(clock)
        owner = await a_framework(store)
        await store.create(PODS, owned(PODS, "p", owner))
        async with collecting(store, clock):
            await asyncio.sleep(1)
            store.suspended_kinds = {FRAMEWORKS}
            await store.delete(FRAMEWORKS, "default", "mnist")
            await a_framework(store)
            await asyncio.sleep(1)
            store.suspended_kinds = set()
            store.resumed.set()
            await asyncio.sleep(60)
            return await names_of(store, FRAMEWORKS, PODS)

    assert virtual_time.run(scenario()) == ["mnist"]


class BusyStore(MemoryStore):
    """An event occurs again just after events were listed."""

    async def list(self, kind: ResourceKind, *args: Any, **more: Any) -> Page:
        page = await super().list(kind, *args, **more)
        if kind is EVENTS and page.items:
            await self.patch(
                EVENTS, "default", "e", MergePatch({"count": 2, "lastTimestamp": format_rfc3339(4000)})
            )
        return page


def test_an_event_that_occurs_again_is_kept() -> None:
    async def scenario() -> list[str]:
        clock = asyncio.get_running_loop().time
        store = BusyStore(clock, uids())
        await store.create(EVENTS, an_object(EVENTS, "e", lastTimestamp=format_rfc3339(0)))
        async with collecting(store, lambda: 3700.0):
            await asyncio.sleep(1)
            return await names_of(store, EVENTS)

    assert virtual_time.run(scenario()) == ["e"]


def test_an_object_that_changed_its_owner_is_no_longer_a_dependent_of_the_first() -> None:
    graph = DependencyGraph()
    one, other = (an_object(FRAMEWORKS, name) for name in ("one", "other"))
    for number, obj in enumerate((one, other), start=1):
        obj["metadata"] |= {"uid": f"u{number}", "resourceVersion": "1"}
    for owner in (one, other):
        pod = owned(PODS, "p", owner)
        pod["metadata"] |= {"uid": "p", "resourceVersion": "2"}
        graph.put(dependency_node(PODS, pod))

    assert list(graph.dependents("u1")) == []
    assert [item.uid for item in graph.dependents("u2")] == ["p"]


# Faults.


class RandomDeletions:
    """Frameworks with pods and config maps, deleted with every propagation, and nodes that terminate the pods."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.store = SimulatedStore(self.random)
        self.orphans: set[str] = set()
        self.kept: set[str] = set()
        self.wrong: list[str] = []

    async def run(self) -> None:
        await self.store.create(NODES, node_json("n1"))
        await self.store.create(NAMESPACES, an_object(NAMESPACES, "team"))
        for number in range(12):
            owner = await a_framework(self.store, f"f{number}")
            for kind in (PODS, CONFIG_MAPS):
                name = f"{kind.plural}-{number}"
                obj = owned(kind, name, owner)
                if kind is PODS:
                    obj["spec"]["nodeName"] = "n1"
                await self.store.create(kind, obj)
            config_map = an_object(CONFIG_MAPS, f"t{number}")
            config_map["metadata"]["namespace"] = "team"
            await self.store.create(CONFIG_MAPS, config_map)
            await asyncio.sleep(self.random.expovariate(1 / 2))
            if self.random.random() < 0.8:
                await self._delete(number)
            else:
                self.kept |= {f"f{number}", f"pods-{number}", f"configmaps-{number}"}
        await self.store.delete(NAMESPACES, "", "team")

    async def _delete(self, number: int) -> None:
        propagation = self.random.choice(list(Propagation))
        if propagation is Propagation.ORPHAN:
            self.orphans |= {f"pods-{number}", f"configmaps-{number}"}
        await self.store.delete(FRAMEWORKS, "default", f"f{number}", DeleteOptions(propagation=propagation))
        if propagation is Propagation.BACKGROUND and self.random.random() < 0.5:
            await a_framework(self.store, f"f{number}")  # a new object of the same name
            self.kept.add(f"f{number}")

    async def end_pods(self) -> None:
        """Acts as a node: deleted pods terminate after some time."""
        while True:
            await asyncio.sleep(self.random.expovariate(1))
            for pod in (await self.store.list(PODS)).items:
                if "deletionTimestamp" in pod["metadata"]:
                    await self.store.delete(PODS, "default", pod["metadata"]["name"], DeleteOptions(grace=0))

    def audit(self, resource: str, deleted: bool, obj: Object) -> None:
        name = obj["metadata"]["name"]
        if deleted and name in self.orphans | self.kept and resource != FRAMEWORKS.resource:
            self.wrong.append(f"{name} was deleted")


@pytest.mark.parametrize("seed", range(20))
def test_despite_faults_and_crashes_only_garbage_is_deleted(seed: int) -> None:
    async def scenario() -> tuple[set[str], set[str], list[str]]:
        deletions = RandomDeletions(seed)
        deletions.store.audit = deletions.audit
        faults = Faults(
            lost_responses=0.1,
            error_responses=0.2,
            late_responses=0.1,
            late_events=0.2,
            duplicate_events=0.1,
            closed_watches=0.1,
            expired=0.2,
            stale_lists=0.1,
            slow=0.1,
        )
        running_deletions, ending = (
            asyncio.create_task(deletions.run()),
            asyncio.create_task(deletions.end_pods()),
        )
        while not running_deletions.done():  # stopped and started repeatedly
            async with collecting(
                FaultyStore(deletions.store, faults, deletions.random), deletions.store.clock
            ):
                await asyncio.sleep(deletions.random.uniform(0.1, 20))
        await running_deletions
        faults.disabled = True
        async with collecting(deletions.store, deletions.store.clock):
            await asyncio.sleep(120)
        ending.cancel()
        left = set(await names_of(deletions.store, FRAMEWORKS, PODS, CONFIG_MAPS, NAMESPACES))
        return left, deletions.kept | deletions.orphans, deletions.wrong

    left, expected, wrong = virtual_time.run(scenario())

    assert wrong == []
    assert left == expected


async def test_a_change_of_one_object_reads_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = a_store()
    owner = await a_framework(store)
    calls: list[str] = []

    async with collecting(store):
        for number in range(50):
            await store.create(PODS, owned(PODS, f"p{number}", owner))
        await quiet(store)
        for verb in ("get", "list"):
            original = getattr(MemoryStore, verb)

            def recorded(self: MemoryStore, *args: Any, _call: Any = original, **more: Any) -> Any:
                calls.append(str(args[0].plural))
                return _call(self, *args, **more)

            monkeypatch.setattr(MemoryStore, verb, recorded)
        for number in range(50):
            await MemoryStore.patch(
                store, PODS, "default", f"p{number}", MergePatch({"metadata": {"labels": {"a": "b"}}})
            )
        await quiet(store)

    assert calls == []
