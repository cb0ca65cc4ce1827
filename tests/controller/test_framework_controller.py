"""The controller on a store in memory, in virtual time: what it promises when single things go wrong."""

import asyncio
from typing import Any

import pytest

from launcher.controller.framework_controller import FrameworkController
from launcher.core.errors import Conflict, Forbidden, NotFound, OutcomeUnknown, Unavailable
from launcher.core.planning.planner import Planner
from launcher.store.interface import (
    EVENTS,
    FRAMEWORKS,
    PODS,
    DeleteOptions,
    JsonPatch,
    MergePatch,
    Object,
    Propagation,
    ResourceKind,
)
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run
from tests.controller.watched import BY_CONTROLLER, Watched, down, launched, reaches


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

        def edit_meanwhile(verb: str, kind: ResourceKind, _: Any) -> None:
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
            old = await store.delete(
                FRAMEWORKS, "default", "f", DeleteOptions(propagation=Propagation.BACKGROUND)
            )
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


class Forgetful(Watched):
    """Loses the answer to the first status that it stores, and cannot be asked about it for a while."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = self.asked = self.conflicts = 0

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        try:
            answer = await super().update_status(kind, obj, dry_run=dry_run)
        except Conflict:
            self.conflicts += kind == FRAMEWORKS
            raise
        self.saved += kind == FRAMEWORKS
        if kind == FRAMEWORKS and self.saved == 1:
            raise OutcomeUnknown("its answer was lost")
        return answer

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        if BY_CONTROLLER.get() and kind == FRAMEWORKS:
            self.asked += 1
            if self.asked < 4:
                raise Unavailable("down")
        return await super().get(kind, namespace, name)


def test_a_status_that_may_be_stored_is_asked_for_before_another_is_sent() -> None:
    async def story() -> None:
        store = Forgetful()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with launched(store):
            store.muted.add(FRAMEWORKS)
            await reaches(store, "Completed")

        # Three times in vain, once for the answer that was lost, and once before the pod of a status saved by then.
        assert (store.asked, store.conflicts) == (5, 0)

    run(story())


def test_a_pod_that_belongs_to_a_change_not_heard_of_yet_is_left_alone() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            store.muted.add(FRAMEWORKS)
            live = await store.get(FRAMEWORKS, "default", "f")
            await store.update(FRAMEWORKS, {**live, "spec": a_framework("f", a_role("w", 2))["spec"]})
            other = FrameworkController(store, clock=store.clock, chance=lambda: 0.5)
            working = asyncio.create_task(other.run())
            await asyncio.sleep(60)
            working.cancel()

        assert list(await store.pods()) == ["f-w-0", "f-w-1"]
        assert store.count("delete", PODS) == 0

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
    look = Planner.plan

    def fragile(self: Planner, *args: Any, **kwargs: Any) -> Any:
        if self._framework.name == "cursed":
            raise RuntimeError("a bug")
        return look(self, *args, **kwargs)

    monkeypatch.setattr(Planner, "plan", fragile)

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

        def quota(verb: str, kind: ResourceKind, _: Any) -> Exception | None:
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


def test_an_ended_framework_whose_user_gives_it_more_time_at_the_last_moment_stays() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), ttlSecondsAfterFinished=100))
        editing: list[asyncio.Task[Object]] = []

        def extend(verb: str, kind: ResourceKind, _: Any) -> None:
            if (verb, kind) == ("delete", FRAMEWORKS) and not editing:
                patch = MergePatch({"spec": {"ttlSecondsAfterFinished": 1000}})
                editing.append(asyncio.create_task(store.patch(FRAMEWORKS, "default", "f", patch)))

        store.fails = extend
        async with launched(store):
            await reaches(store, "Completed")
            await asyncio.sleep(900)
            assert (await store.status())["state"] == "Completed"
            await asyncio.sleep(200)
            with pytest.raises(NotFound):
                await store.get(FRAMEWORKS, "default", "f")

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
        async with launched(store, seconds=1000, coalesce_seconds=1000.0) as controller:
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
        controller = FrameworkController(store, clock=store.clock, chance=lambda: 0.5)
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(30)
        controller.stop()

        await asyncio.wait_for(running, 10)

    run(story())
