"""The controller on a store in memory, in virtual time: what it promises when single things go wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any

import pytest

from launcher.controller.loop import Controller, Pace
from launcher.core.errors import Forbidden, NotFound, Unavailable
from launcher.core.plan import Planner
from launcher.store.port import (
    EVENTS,
    FRAMEWORKS,
    PODS,
    Change,
    Deletion,
    JsonPatch,
    Kind,
    MergePatch,
    Object,
    Propagation,
    Version,
)
from launcher.store.selectors import EVERYTHING, Where
from tests.controller.simulation.audit import Auditor
from tests.controller.simulation.cluster import Cluster, SimulatedStore
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run

#: True in whatever the controller does, as against the cluster and the users around it.
BY_CONTROLLER: ContextVar[bool] = ContextVar("BY_CONTROLLER", default=False)


class Watched(SimulatedStore):
    """Counts the controller's calls, and fails those that a test wants to fail."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.calls: list[tuple[str, Kind, Any]] = []
        self.fails: Callable[[str, Kind, Any], Exception | None] = lambda verb, kind, what: None
        self.muted: set[Kind] = set()
        self.under_way = self.most_under_way = 0
        self.auditor = Auditor()
        self.audit = self.auditor

    async def create(self, kind: Kind, obj: Object, *, dry_run: bool = False) -> Object:
        call = super().create
        return await self._call("create", kind, obj, lambda: call(kind, obj, dry_run=dry_run))

    async def update_status(self, kind: Kind, obj: Object, *, dry_run: bool = False) -> Object:
        call = super().update_status
        return await self._call("update_status", kind, obj, lambda: call(kind, obj, dry_run=dry_run))

    async def delete(
        self, kind: Kind, namespace: str, name: str, how: Deletion = Deletion(), *, dry_run: bool = False
    ) -> Object:
        call = super().delete
        return await self._call(
            "delete", kind, name, lambda: call(kind, namespace, name, how, dry_run=dry_run)
        )

    async def watch(  # type: ignore[override]  # an iterator all the same
        self,
        kind: Kind,
        namespace: str | None = None,
        where: Where = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        async for change in super().watch(kind, namespace, where, since=since, bookmarks=bookmarks):
            if kind not in self.muted:
                yield change

    async def _call(self, verb: str, kind: Kind, what: Any, call: Callable[[], Awaitable[Object]]) -> Object:
        if not BY_CONTROLLER.get():
            return await call()
        self.calls.append((verb, kind, what))
        error = self.fails(verb, kind, what)
        if error is not None:
            raise error
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await asyncio.sleep(0.001)
            return await call()
        finally:
            self.under_way -= 1

    def count(self, verb: str, kind: Kind) -> int:
        return sum(call[:2] == (verb, kind) for call in self.calls)

    async def status(self, name: str = "f") -> Object:
        status: Object = (await self.get(FRAMEWORKS, "default", name)).get("status") or {}
        return status

    async def pods(self) -> dict[str, Object]:
        return {pod["metadata"]["name"]: pod for pod in (await self.list(PODS)).items}


@asynccontextmanager
async def launched(
    store: Watched, *, seconds: float = 5.0, code: int = 0, **pace: Any
) -> AsyncIterator[Controller]:
    """A controller and a cluster whose pods run for *seconds* and end with *code*."""
    controller = Controller(store, clock=store.clock, chance=lambda: 0.5, pace=Pace(**pace))
    cluster = Cluster(store, Random(2), lambda _: (seconds, code))
    context = copy_context()
    context.run(BY_CONTROLLER.set, True)
    tasks = [asyncio.create_task(controller.run(), context=context), asyncio.create_task(cluster.run())]
    try:
        yield controller
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, 10)


async def reaches(store: Watched, state: str, name: str = "f", *, within: float = 120.0) -> None:
    async with asyncio.timeout(within):
        while (await store.status(name)).get("state") != state:  # noqa: ASYNC110  virtual time costs nothing
            await asyncio.sleep(0.1)


def down(verb: str, kind: Kind) -> Callable[[str, Kind, Any], Exception | None]:
    return lambda v, k, _: Unavailable("down") if (v, k) == (verb, kind) else None


def test_a4_no_pod_is_created_before_the_status_is_saved() -> None:
    async def story() -> None:
        store = Watched()
        store.fails = down("update_status", FRAMEWORKS)
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store):
            await asyncio.sleep(30)
            assert store.count("update_status", FRAMEWORKS) > 3, "it tries again and again"
            assert store.count("create", PODS) == 0

            store.fails = lambda *_: None
            await reaches(store, "Completed")
            assert store.count("create", PODS) == 2

    run(story())


def test_a12_an_edit_of_labels_or_annotations_causes_no_write() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            await asyncio.sleep(10)
            before = len(store.calls)
            await store.patch(FRAMEWORKS, "default", "f", MergePatch({"metadata": {"labels": {"team": "a"}}}))
            await asyncio.sleep(60)

            assert len(store.calls) == before

    run(story())


def test_e18_no_pod_is_deleted_before_the_scale_down_is_saved() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            await asyncio.sleep(10)
            store.fails = down("update_status", FRAMEWORKS)
            scale = {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 1}
            await store.patch(FRAMEWORKS, "default", "f", JsonPatch([scale]))
            await asyncio.sleep(30)
            assert store.count("delete", PODS) == 0

            store.fails = lambda *_: None
            await asyncio.sleep(90)
            assert set(await store.pods()) == {"f-w-0"}

    run(story())


def test_f3_a_pod_that_a_finalizer_holds_is_waited_for_even_after_removal_by_force() -> None:
    async def story() -> None:
        store = Watched()
        role = a_role("w", 1, fancy=True, retries=1)
        role["task"]["podGracefulDeletionTimeoutSec"] = 60
        role["task"]["pod"] = {**role["task"]["pod"], "metadata": {"finalizers": ["example.com/hold"]}}
        await store.create(FRAMEWORKS, a_framework("f", role))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            await asyncio.sleep(5)
            pod = (await store.pods())["f-w-0"]
            await store.delete(PODS, "default", "f-w-0")
            await asyncio.sleep(200)
            (task,) = (await store.status())["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
            assert task["state"] == "AttemptDeleting"
            assert (await store.pods())["f-w-0"]["metadata"]["uid"] == pod["metadata"]["uid"], "no second pod"

            await store.patch(PODS, "default", "f-w-0", MergePatch({"metadata": {"finalizers": None}}))
            await asyncio.sleep(120)
            (task,) = (await store.status())["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
            assert (task["state"], task["retryPolicyStatus"]["totalRetriedCount"]) == ("AttemptRunning", 1)

    run(story())


def test_f15_what_was_written_counts_although_the_watch_never_tells_of_it() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1, retries=1), retries=1))
        async with launched(store, code=1):
            await asyncio.sleep(0.05)
            store.muted.add(FRAMEWORKS)
            await reaches(store, "Completed", within=300)

            status = await store.status()
            assert status["retryPolicyStatus"]["totalRetriedCount"] == 1
            assert store.count("create", PODS) == 4, "two attempts of two tries each"

    run(story())


def test_f16_a_users_edit_and_our_status_both_survive_when_they_meet() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        edits, editing = iter(range(3)), list[asyncio.Task[Object]]()

        def edit_meanwhile(verb: str, kind: Kind, _: Any) -> None:
            if (verb, kind) == ("update_status", FRAMEWORKS) and (number := next(edits, None)) is not None:
                patch = MergePatch({"spec": {"description": f"edit {number}"}})
                editing.append(asyncio.create_task(store.patch(FRAMEWORKS, "default", "f", patch)))

        store.fails = edit_meanwhile
        async with launched(store):
            await reaches(store, "Completed")
            stored = await store.get(FRAMEWORKS, "default", "f")

        assert stored["spec"]["description"] == "edit 2"
        assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"] == 4
        assert store.count("create", PODS) == 1

    run(story())


def test_f20_a_framework_replaced_unseen_by_one_of_the_same_name_is_a_new_one() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            store.muted.add(FRAMEWORKS)
            old = await store.delete(FRAMEWORKS, "default", "f", Deletion(propagation=Propagation.BACKGROUND))
            new = await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
            store.muted.clear()
            touch = MergePatch({"spec": {"description": "seen at last"}})
            await store.patch(FRAMEWORKS, "default", "f", touch)
            await asyncio.sleep(120)

            pods = await store.pods()
            assert old["metadata"]["uid"] != new["metadata"]["uid"]
            assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods.values()} == {
                new["metadata"]["uid"]
            }
            assert set(pods) == {"f-w-0", "f-w-1"}

    run(story())


def test_f23_a_store_that_is_down_for_a_while_costs_no_step_and_doubles_no_pod() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 3, retries=1)))
        async with launched(store, seconds=20, code=1):
            await reaches(store, "AttemptRunning")
            store.fails = lambda verb, kind, _: Unavailable("down")
            await asyncio.sleep(30)
            store.fails = lambda *_: None
            await reaches(store, "Completed", within=300)

            status = await store.status()
            assert status["attemptStatus"]["id"] == 0
            assert len(store.auditor.stories) <= 6, "three tasks, two tries each at the most"

    run(story())


def test_a_framework_that_cannot_be_read_is_told_of_and_does_not_touch_another() -> None:
    async def story() -> None:
        store = Watched()
        store.audit = lambda *_: None
        broken = await store.create(FRAMEWORKS, a_framework("broken", a_role("w", 1)))
        await store.update_status(FRAMEWORKS, {**broken, "status": {"state": "Nonsense"}})
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with launched(store):
            await reaches(store, "Completed")
            events = [(e["involvedObject"]["name"], e["reason"]) for e in (await store.list(EVENTS)).items]

        assert ("broken", "CannotBeRead") in events

    run(story())


def test_a_bug_that_shows_on_one_framework_does_not_touch_another(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Planner.look

    def fragile(self: Planner, *args: Any, **kwargs: Any) -> Any:
        if self._framework.name == "cursed":
            raise RuntimeError("a bug")
        return look(self, *args, **kwargs)

    monkeypatch.setattr(Planner, "look", fragile)

    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("cursed", a_role("w", 1)))
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with launched(store):
            await reaches(store, "Completed")
            events = [(e["involvedObject"]["name"], e["reason"]) for e in (await store.list(EVENTS)).items]

        assert ("cursed", "InternalError") in events

    run(story())


def test_a_burst_of_pod_events_is_one_status_write() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 100)))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            await asyncio.sleep(10)

            assert store.count("create", PODS) == 100
            assert store.count("update_status", FRAMEWORKS) < 50, (
                "200 changes of pods came in, over some seconds"
            )

    run(story())


def test_calls_under_way_are_bounded() -> None:
    async def story() -> None:
        store = Watched()
        for name in ("a", "b", "c"):
            await store.create(FRAMEWORKS, a_framework(name, a_role("w", 50)))
        store.most_under_way = 0
        async with launched(store, seconds=1000, calls=8, workers=2):
            await reaches(store, "AttemptRunning", "c")

        assert store.count("create", PODS) == 150
        assert store.most_under_way <= 8 + 2 + 20, (
            "8 for pods, one per worker for a status, and what nodes report"
        )

    run(story())


def test_a_full_quota_is_told_in_status_and_tried_again_with_growing_pauses() -> None:
    async def story() -> None:
        store = Watched()

        room = 2

        def quota(verb: str, kind: Kind, _: Any) -> Exception | None:
            nonlocal room
            if (verb, kind) != ("create", PODS):
                return None
            room -= 1
            return None if room >= 0 else Forbidden("exceeded quota: pods=2")

        store.fails = quota
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 50)))
        async with launched(store, seconds=100_000):
            await asyncio.sleep(60)
            tried = store.count("create", PODS)
            tasks = (await store.status())["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
            assert any("exceeded quota: pods=2" in task["message"] for task in tasks)
            assert tried < 150, "one refusal stops the others of that round"

            store.fails = lambda *_: None
            await asyncio.sleep(120)
            assert len(await store.pods()) == 50

    run(story())


@pytest.mark.timeout(20)
def test_a_framework_that_waits_for_its_user_keeps_nobody_busy() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), executionType="Create"))
        async with launched(store):
            await reaches(store, "AttemptCreationPending")
            writes = len(store.calls)

            await asyncio.sleep(60)

            assert len(store.calls) == writes
            await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"executionType": "Start"}}))
            await reaches(store, "Completed")

    run(story())


def test_an_ended_framework_is_deleted_when_its_time_is_over() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), ttlSecondsAfterFinished=100))
        async with launched(store):
            await reaches(store, "Completed")
            await asyncio.sleep(90)
            assert (await store.status())["state"] == "Completed"
            await asyncio.sleep(30)
            with pytest.raises(NotFound):
                await store.get(FRAMEWORKS, "default", "f")
            await asyncio.sleep(30)
            assert not await store.pods()

    run(story())


def test_events_tell_what_happened() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2, retries=1)))
        async with launched(store, code=137):
            await reaches(store, "Completed")
            await asyncio.sleep(1)
            events = {(e["reason"], e["type"]): e["message"] for e in (await store.list(EVENTS)).items}

        assert ("AttemptRunning", "Normal") in events
        assert "tried again at once: retry 1 of 1" in events["ContainerSigKillReceived", "Warning"] or any(
            "tried again" in message for message in events.values()
        )
        assert "not tried again" in events["FrameworkFailed", "Warning"]

    run(story())


def test_cancelled_it_ends_at_once_and_a_new_one_goes_on() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with launched(store, seconds=30, calls=2):
            await asyncio.sleep(0.008)  # in the middle of creating pods
        before = len(await store.pods())
        async with launched(store, seconds=5):
            await reaches(store, "Completed")

        assert 0 < before < 20
        assert len(store.auditor.stories) == 20, "not one pod was made twice"

    run(story())


def test_stopped_it_finishes_what_is_under_way_and_begins_nothing_more() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with launched(store, calls=2) as controller:
            await asyncio.sleep(0.008)  # in the middle of creating pods
            controller.stop()
            await asyncio.sleep(1)
            made, calls = len(await store.pods()), len(store.calls)
            await asyncio.sleep(60)

        assert (made, len(store.calls)) == (20, calls)

    run(story())


def test_stopped_it_saves_what_it_has_not_saved_yet() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store, seconds=1000, gather=1000.0) as controller:
            await asyncio.sleep(30)
            before = (await store.status())["state"]
            controller.stop()
            await asyncio.sleep(1)

        assert (before, (await store.status())["state"]) == ("AttemptCreationPending", "AttemptRunning")

    run(story())


def test_stopped_before_the_store_ever_answered_it_ends_all_the_same() -> None:
    class Silent(Watched):
        async def list(self, *_: Any, **__: Any) -> Any:
            raise Unavailable("down")

    async def story() -> None:
        store = Silent()
        controller = Controller(store, clock=store.clock, chance=lambda: 0.5)
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(30)
        controller.stop()

        await asyncio.wait_for(running, 10)

    run(story())
