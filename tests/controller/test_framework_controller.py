"""The controller on a store in memory, in virtual time, with single faults."""

import asyncio
from typing import Any

import pytest

from launcher.controller.framework_controller import FrameworkController
from launcher.core import causes
from launcher.core.diagnosis.diagnosis import diagnose
from launcher.core.diagnosis.inputs import DiagnosisInput, diagnosable_framework
from launcher.core.errors import Conflict, Forbidden, NotFound, OutcomeUnknown, Unavailable
from launcher.core.names import PodIdentityKey
from launcher.core.planning.planner import Planner
from launcher.store.interface import (
    EVENTS,
    FRAMEWORKS,
    PODS,
    DeleteOptions,
    JsonPatch,
    MergePatch,
    Object,
    Page,
    Propagation,
    ResourceKind,
)
from launcher.store.selectors import EVERYTHING, Selector
from tests.controller.harness import (
    BY_CONTROLLER,
    RecordingStore,
    run_controller,
    unavailable,
    wait_for_state,
)
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run


def test_a4_no_pod_is_created_before_the_status_is_saved() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.fail = unavailable("update_status", FRAMEWORKS)
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store):
            await asyncio.sleep(30)
            assert store.count("update_status", FRAMEWORKS) > 3, "the write is retried"
            assert store.count("create", PODS) == 0

            store.fail = lambda *_: None
            await wait_for_state(store, "Completed")
            assert store.count("create", PODS) == 2

    run(scenario())


def test_a_framework_that_was_not_planned_yet_is_counted() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        controller = FrameworkController(store, clock=store.clock, jitter=lambda: 0.5)
        obj = await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        controller.on_framework_upsert(("default", "f"), obj)

        assert controller.counts(FRAMEWORKS) == {"AttemptCreationPending": 1}

    run(scenario())


def test_a12_an_edit_of_labels_or_annotations_causes_no_write() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            await asyncio.sleep(10)
            before = len(store.calls)
            await store.patch(FRAMEWORKS, "default", "f", MergePatch({"metadata": {"labels": {"team": "a"}}}))
            await asyncio.sleep(60)

            assert len(store.calls) == before

    run(scenario())


def test_e18_no_pod_is_deleted_before_the_scale_down_is_saved() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            await asyncio.sleep(10)
            store.fail = unavailable("update_status", FRAMEWORKS)
            scale = {"op": "replace", "path": "/spec/taskRoles/0/taskNumber", "value": 1}
            await store.patch(FRAMEWORKS, "default", "f", JsonPatch([scale]))
            await asyncio.sleep(30)
            assert store.count("delete", PODS) == 0

            store.fail = lambda *_: None
            await asyncio.sleep(90)
            assert set(await store.pods()) == {"f-w-0"}

    run(scenario())


def test_f3_a_pod_with_a_finalizer_is_not_replaced_even_after_a_forced_deletion() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        role = a_role("w", 1, fancy=True, retries=1)
        role["task"]["podGracefulDeletionTimeoutSec"] = 60
        role["task"]["pod"] = {**role["task"]["pod"], "metadata": {"finalizers": ["example.com/hold"]}}
        await store.create(FRAMEWORKS, a_framework("f", role))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
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

    run(scenario())


def test_f15_own_writes_are_observed_without_watch_events() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1, retries=1), retries=1))
        async with run_controller(store, code=1):
            await asyncio.sleep(0.05)
            store.paused_watches.add(FRAMEWORKS)
            await wait_for_state(store, "Completed", timeout_seconds=300)

            status = await store.status()
            assert status["retryPolicyStatus"]["totalRetriedCount"] == 1
            assert store.count("create", PODS) == 4, "two Framework attempts with two task attempts each"

    run(scenario())


def test_f16_concurrent_edits_of_the_spec_and_writes_of_the_status_are_both_stored() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        edits, edit_tasks = iter(range(3)), list[asyncio.Task[Object]]()

        def edit_concurrently(verb: str, kind: ResourceKind, _: Any) -> None:
            if (verb, kind) == ("update_status", FRAMEWORKS) and (number := next(edits, None)) is not None:
                patch = MergePatch({"spec": {"description": f"edit {number}"}})
                edit_tasks.append(asyncio.create_task(store.patch(FRAMEWORKS, "default", "f", patch)))

        store.fail = edit_concurrently
        async with run_controller(store):
            await wait_for_state(store, "Completed")
            stored = await store.get(FRAMEWORKS, "default", "f")

        assert stored["spec"]["description"] == "edit 2"
        assert stored["status"]["observedGeneration"] == stored["metadata"]["generation"] == 4
        assert store.count("create", PODS) == 1

    run(scenario())


def test_f20_a_framework_that_is_replaced_unobserved_by_one_of_the_same_name_is_a_new_one() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            store.paused_watches.add(FRAMEWORKS)
            old = await store.delete(
                FRAMEWORKS, "default", "f", DeleteOptions(propagation=Propagation.BACKGROUND)
            )
            new = await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
            store.paused_watches.clear()
            edit = MergePatch({"spec": {"description": "observed"}})
            await store.patch(FRAMEWORKS, "default", "f", edit)
            await asyncio.sleep(120)

            pods = await store.pods()
            assert old["metadata"]["uid"] != new["metadata"]["uid"]
            assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods.values()} == {
                new["metadata"]["uid"]
            }
            assert set(pods) == {"f-w-0", "f-w-1"}

    run(scenario())


def test_f23_an_outage_of_the_store_loses_no_transition_and_creates_no_pod_twice() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 3, retries=1)))
        async with run_controller(store, seconds=20, code=1):
            await wait_for_state(store, "AttemptRunning")
            store.fail = lambda verb, kind, _: Unavailable("down")
            await asyncio.sleep(30)
            store.fail = lambda *_: None
            await wait_for_state(store, "Completed", timeout_seconds=300)

            status = await store.status()
            assert status["attemptStatus"]["id"] == 0
            assert len(store.auditor.pods) <= 6, "three tasks with at most two attempts each"

    run(scenario())


class LostResponseStore(RecordingStore):
    """Loses the response to the first status write, and then fails three reads of the Framework."""

    def __init__(self) -> None:
        super().__init__()
        self.stored_statuses = self.reads = self.conflicts = 0

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        try:
            response = await super().update_status(kind, obj, dry_run=dry_run)
        except Conflict:
            self.conflicts += kind == FRAMEWORKS
            raise
        self.stored_statuses += kind == FRAMEWORKS
        if kind == FRAMEWORKS and self.stored_statuses == 1:
            raise OutcomeUnknown("response lost")
        return response

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        if BY_CONTROLLER.get() and kind == FRAMEWORKS:
            self.reads += 1
            if self.reads < 4:
                raise Unavailable("down")
        return await super().get(kind, namespace, name)


def test_a_status_write_with_an_unknown_outcome_is_confirmed_before_the_next_one() -> None:
    async def scenario() -> None:
        store = LostResponseStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with run_controller(store):
            store.paused_watches.add(FRAMEWORKS)
            await wait_for_state(store, "Completed")

        # Three failed reads, one to confirm the write, and one before the pod is created without a new write.
        assert (store.reads, store.conflicts) == (5, 0)

    run(scenario())


def test_a_pod_of_an_unobserved_edit_is_not_deleted() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            store.paused_watches.add(FRAMEWORKS)
            live = await store.get(FRAMEWORKS, "default", "f")
            await store.update(FRAMEWORKS, {**live, "spec": a_framework("f", a_role("w", 2))["spec"]})
            other = FrameworkController(store, clock=store.clock, jitter=lambda: 0.5)
            task = asyncio.create_task(other.run())
            await asyncio.sleep(60)
            task.cancel()

        assert list(await store.pods()) == ["f-w-0", "f-w-1"]
        assert store.count("delete", PODS) == 0

    run(scenario())


def test_a_framework_that_cannot_be_parsed_gets_an_event_and_does_not_affect_others() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.audit = lambda *_: None
        broken = await store.create(FRAMEWORKS, a_framework("broken", a_role("w", 1)))
        await store.update_status(FRAMEWORKS, {**broken, "status": {"state": "Unknown"}})
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with run_controller(store):
            await wait_for_state(store, "Completed")
            events = [(e["involvedObject"]["name"], e["reason"]) for e in (await store.list(EVENTS)).items]

        assert ("broken", "InvalidObject") in events

    run(scenario())


def test_an_internal_error_with_one_framework_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    original = Planner.plan

    def fail_for_broken(self: Planner, *args: Any, **kwargs: Any) -> Any:
        if self._state.framework.name == "broken":
            raise RuntimeError("a bug")
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Planner, "plan", fail_for_broken)

    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("broken", a_role("w", 1)))
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        async with run_controller(store):
            await wait_for_state(store, "Completed")
            events = [(e["involvedObject"]["name"], e["reason"]) for e in (await store.list(EVENTS)).items]

        assert ("broken", "InternalError") in events

    run(scenario())


def test_a_burst_of_pod_events_is_one_status_write() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 100)))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            await asyncio.sleep(10)

            assert store.count("create", PODS) == 100
            assert store.count("update_status", FRAMEWORKS) < 50, "200 pod events arrived within some seconds"

    run(scenario())


def test_the_number_of_concurrent_calls_is_limited() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        for name in ("a", "b", "c"):
            await store.create(FRAMEWORKS, a_framework(name, a_role("w", 50)))
        store.max_calls_in_flight = 0
        async with run_controller(store, seconds=1000, max_calls=8, workers=2):
            await wait_for_state(store, "AttemptRunning", "c")

        assert store.count("create", PODS) == 150
        assert store.max_calls_in_flight <= 8 + 2 + 20, (
            "8 for pods, one status write per worker, and the reports of the nodes"
        )

    run(scenario())


def test_an_exceeded_quota_is_in_the_status_and_creation_is_retried_with_back_off() -> None:
    async def scenario() -> None:
        store = RecordingStore()

        remaining = 2

        def quota(verb: str, kind: ResourceKind, _: Any) -> Exception | None:
            nonlocal remaining
            if (verb, kind) != ("create", PODS):
                return None
            remaining -= 1
            return None if remaining >= 0 else Forbidden("exceeded quota: pods=2")

        store.fail = quota
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 50)))
        async with run_controller(store, seconds=100_000):
            await asyncio.sleep(60)
            creations = store.count("create", PODS)
            tasks = (await store.status())["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
            assert any("exceeded quota: pods=2" in task["message"] for task in tasks)
            assert creations < 150, "one rejection stops the other creations of the pass"

            store.fail = lambda *_: None
            await asyncio.sleep(120)
            assert len(await store.pods()) == 50

    run(scenario())


@pytest.mark.timeout(20)
def test_a_suspended_framework_causes_no_calls() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), executionType="Create"))
        async with run_controller(store):
            await wait_for_state(store, "AttemptCreationPending")
            writes = len(store.calls)

            await asyncio.sleep(60)

            assert len(store.calls) == writes
            await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"executionType": "Start"}}))
            await wait_for_state(store, "Completed")

    run(scenario())


def test_a_completed_framework_is_deleted_when_its_ttl_expires() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), ttlSecondsAfterFinished=100))
        async with run_controller(store):
            await wait_for_state(store, "Completed")
            await asyncio.sleep(90)
            assert (await store.status())["state"] == "Completed"
            await asyncio.sleep(30)
            with pytest.raises(NotFound):
                await store.get(FRAMEWORKS, "default", "f")
            await asyncio.sleep(30)
            assert not await store.pods()

    run(scenario())


def test_a_completed_framework_is_not_deleted_if_its_ttl_is_extended_at_the_last_moment() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), ttlSecondsAfterFinished=100))
        edit_tasks: list[asyncio.Task[Object]] = []

        def extend(verb: str, kind: ResourceKind, _: Any) -> None:
            if (verb, kind) == ("delete", FRAMEWORKS) and not edit_tasks:
                patch = MergePatch({"spec": {"ttlSecondsAfterFinished": 1000}})
                edit_tasks.append(asyncio.create_task(store.patch(FRAMEWORKS, "default", "f", patch)))

        store.fail = extend
        async with run_controller(store):
            await wait_for_state(store, "Completed")
            await asyncio.sleep(900)
            assert (await store.status())["state"] == "Completed"
            await asyncio.sleep(200)
            with pytest.raises(NotFound):
                await store.get(FRAMEWORKS, "default", "f")

    run(scenario())


def test_state_transitions_are_recorded_as_events() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2, retries=1)))
        async with run_controller(store, code=137):
            await wait_for_state(store, "Completed")
            await asyncio.sleep(1)
            events = {(e["reason"], e["type"]): e["message"] for e in (await store.list(EVENTS)).items}

        assert ("AttemptRunning", "Normal") in events
        assert any("attempt 2 of 2" in message for message in events.values())
        assert "not retried" in events["FrameworkFailed", "Warning"]

    run(scenario())


def test_a_new_controller_continues_after_a_cancelled_one() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with run_controller(store, seconds=30, max_calls=2):
            await asyncio.sleep(0.008)  # in the middle of creating pods
        before = len(await store.pods())
        async with run_controller(store, seconds=5):
            await wait_for_state(store, "Completed")

        assert 0 < before < 20
        assert len(store.auditor.pods) == 20, "no pod was created twice"

    run(scenario())


def test_a_stopped_controller_finishes_the_reconciles_in_progress_and_starts_no_others() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with run_controller(store, max_calls=2) as controller:
            await asyncio.sleep(0.008)  # in the middle of creating pods
            controller.stop()
            await asyncio.sleep(1)
            pods, calls = len(await store.pods()), len(store.calls)
            await asyncio.sleep(60)

        assert (pods, len(store.calls)) == (20, calls)

    run(scenario())


def test_a_stopped_controller_saves_unsaved_statuses() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store, seconds=1000, coalesce_seconds=1000.0) as controller:
            await asyncio.sleep(30)
            before = (await store.status())["state"]
            controller.stop()
            await asyncio.sleep(1)

        assert (before, (await store.status())["state"]) == ("AttemptCreationPending", "AttemptRunning")

    run(scenario())


def test_a_controller_can_be_stopped_before_its_informers_are_synced() -> None:
    class UnavailableStore(RecordingStore):
        async def list(self, *_: Any, **__: Any) -> Any:
            raise Unavailable("down")

    async def scenario() -> None:
        store = UnavailableStore()
        controller = FrameworkController(store, clock=store.clock, jitter=lambda: 0.5)
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(30)
        controller.stop()

        await asyncio.wait_for(task, 10)

    run(scenario())


class OtherLeader(RecordingStore):
    """A store with another launcher, which retries a task while this launcher lists the pods."""

    def __init__(self) -> None:
        super().__init__()
        self.audit = lambda *_: None  # the test writes in the order that suits it
        #: Tasks that are retried after the store has read the pods of a Framework, before the launcher gets them.
        self.tasks_to_retry: list[int] = []

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        selector: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        continue_token: str | None = None,
    ) -> Page:
        page = await super().list(kind, namespace, selector, limit=limit, continue_token=continue_token)
        if kind is PODS and namespace is not None and self.tasks_to_retry:
            await self.retry_task(self.tasks_to_retry.pop())
            await asyncio.sleep(1)  # the launcher observes the status that was written
        return page

    async def retry_task(self, index: int) -> None:
        """Replaces the pod of the task, and writes the status."""
        pod = (await self.pods())[f"f-w-{index}"]
        await self.delete(PODS, "default", f"f-w-{index}", DeleteOptions(grace=0))
        labels = {**pod["metadata"]["labels"], PodIdentityKey.TASK_ATTEMPT_ID: "1"}
        metadata = {
            name: pod["metadata"][name] for name in ("name", "namespace", "annotations", "ownerReferences")
        }
        framework = await self.get(FRAMEWORKS, "default", "f")
        task = framework["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"][index]
        task["retryPolicyStatus"]["totalRetriedCount"] = 1
        created = await self.create(PODS, {**pod, "metadata": {**metadata, "labels": labels}})
        uid = created["metadata"]["uid"]
        task["attemptStatus"] |= {"id": 1, "podUID": uid, "instanceUID": f"1_{uid}"}
        await self.update_status(FRAMEWORKS, framework)


def test_pods_listed_before_another_leader_wrote_the_status_are_not_its_pods() -> None:
    async def scenario() -> None:
        store = OtherLeader()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2, fancy=True)))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            await asyncio.sleep(10)
            # The watch of the launcher is late, so it lists the pods.
            store.paused_watches.add(PODS)
            store.tasks_to_retry.append(1)
            await store.retry_task(0)
            await asyncio.sleep(60)

            assert store.tasks_to_retry == [], "the pods were listed"
            tasks = (await store.status())["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
            assert [task["retryPolicyStatus"]["totalRetriedCount"] for task in tasks] == [1, 1]

    run(scenario())


def test_a_pod_that_another_controller_created_and_that_is_never_observed_is_diagnosed() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1)))
        store.fail = unavailable("create", PODS)
        async with run_controller(store):
            await wait_for_state(store, "AttemptCreationPending")
        store.fail = lambda *_: None
        obj = await store.get(FRAMEWORKS, "default", "f")
        # FrameworkController saves this state between the creation of a pod and its observation.
        (task,) = obj["status"]["attemptStatus"]["taskRoleStatuses"][0]["taskStatuses"]
        task["state"] = "AttemptCreationRequested"
        await store.update_status(FRAMEWORKS, obj)
        async with run_controller(store):
            await wait_for_state(store, "Completed", timeout_seconds=600)

        obj = await store.get(FRAMEWORKS, "default", "f")
        source = DiagnosisInput(obj, diagnosable_framework(obj), (), None, (), int(store.clock()))
        finding = diagnose(source)[0]
        assert finding.cause is causes.POD_UNOBSERVED
        assert "300s" in finding.summary

    run(scenario())
