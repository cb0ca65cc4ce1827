"""Invalid Frameworks that were stored without admission get a condition and an event, and no pods."""

import asyncio
from itertools import count
from typing import Any

import pytest

from launcher.core.errors import FieldError
from launcher.core.planning.planner import Planner
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, JsonPatch, MergePatch, Object, ResourceKind
from tests.controller.harness import RecordingStore, run_controller, wait_for_state
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run

VALID_SPEC = a_framework("f", a_role("w", 2))["spec"]
LONG_NAME = "f" * 62


def unaudited_store() -> RecordingStore:
    """A store without the auditor, which cannot parse invalid specs."""
    store = RecordingStore()
    store.audit = lambda *_: None
    return store


def valid_condition(status: Object) -> Object | None:
    return next((c for c in status.get("conditions") or [] if c["type"] == "Valid"), None)


async def wait_for_invalid(store: RecordingStore, name: str = "f") -> Object:
    """Returns the condition Valid when it is False."""
    async with asyncio.timeout(60):
        condition = valid_condition(await store.status(name))
        while condition is None or condition["status"] == "True":
            await asyncio.sleep(0.1)
            condition = valid_condition(await store.status(name))
    return condition


async def event_types(store: RecordingStore) -> list[tuple[str, str]]:
    return [(event["reason"], event["type"]) for event in (await store.list(EVENTS)).items]


async def replace_spec(store: RecordingStore, name: str = "f", spec: Object = VALID_SPEC) -> None:
    await store.patch(
        FRAMEWORKS, "default", name, JsonPatch([{"op": "replace", "path": "/spec", "value": spec}])
    )


def role(**fields: Any) -> Object:
    return {**a_role("w", 2), **fields}


INVALID_FRAMEWORKS: dict[str, tuple[Object, str]] = {
    "a sequence of unknown roles": (
        a_framework("f", a_role("w", 2), roleSequence=["w", "ps"]),
        "spec.roleSequence[1]",
    ),
    "indexes out of range": (
        a_framework("f", role(frameworkAttemptCompletionPolicy={"succeededIndexes": "7"})),
        "spec.taskRoles[0].frameworkAttemptCompletionPolicy.succeededIndexes",
    ),
    "indexes that cannot be parsed": (
        a_framework("f", role(frameworkAttemptCompletionPolicy={"succeededIndexes": "first"})),
        "spec.taskRoles[0].frameworkAttemptCompletionPolicy.succeededIndexes",
    ),
    "a pod without containers": (
        a_framework("f", role(task={"pod": {"spec": {}}})),
        "spec.taskRoles[0].task.pod.spec.containers",
    ),
    "roles that are not objects": (a_framework("f") | {"spec": {"taskRoles": [7]}}, "spec.taskRoles[0]"),
    "a spec that is a string": (a_framework("f") | {"spec": "text"}, "spec"),
    "an unknown executionType": (
        a_framework("f", a_role("w", 2), executionType="Unknown"),
        "spec.executionType",
    ),
    "a negative number of tasks": (a_framework("f", role(taskNumber=-1)), "spec.taskRoles[0].taskNumber"),
}


@pytest.mark.parametrize(("framework", "field"), INVALID_FRAMEWORKS.values(), ids=INVALID_FRAMEWORKS)
def test_an_invalid_framework_gets_a_condition_and_an_event_and_no_pods_until_it_is_corrected(
    framework: Object, field: str
) -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, framework)
        async with run_controller(store):
            condition = await wait_for_invalid(store)
            await asyncio.sleep(60)

            assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec")
            assert condition["message"].startswith(f"{field}: ")
            status = await store.status()
            assert status["state"] == "AttemptCreationPending"
            assert field in status["message"]
            assert not await store.pods()
            assert await event_types(store) == [("InvalidSpec", "Warning")]
            assert store.count("update_status", FRAMEWORKS) == 1, "written once"

            await replace_spec(store)
            await wait_for_state(store, "Completed")
            status = await store.status()
            assert (valid_condition(status) or {})["status"] == "True"
            assert status["observedGeneration"] == 2
            assert status["attemptStatus"]["rescaleCount"] == 0, "its first tasks are no rescale"
            assert status["taskCounts"] == {"Completed": 2}

    run(scenario())


def test_a_pod_name_that_is_too_long_is_reported_with_its_length() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework(LONG_NAME, a_role("worker", 2)))
        async with run_controller(store):
            condition = await wait_for_invalid(store, LONG_NAME)

        assert "pod names would have up to 71 characters" in condition["message"]
        assert not await store.pods()

    run(scenario())


def test_an_invalid_framework_does_not_affect_others() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework("invalid") | {"spec": None})
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store):
            await wait_for_invalid(store, "invalid")
            await wait_for_state(store, "Completed")

    run(scenario())


def test_another_validation_error_is_reported_without_a_new_transition_time() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2), roleSequence=["x"]))
        async with run_controller(store):
            first = await wait_for_invalid(store)
            await replace_spec(store, spec={**VALID_SPEC, "roleSequence": ["y"]})
            await asyncio.sleep(30)
            second = await wait_for_invalid(store)

        assert '"y"' in second["message"]
        assert second["lastTransitionTime"] == first["lastTransitionTime"]
        assert await event_types(store) == [("InvalidSpec", "Warning")] * 2

    run(scenario())


def test_a_running_framework_with_an_invalid_edit_keeps_its_state_and_gets_no_new_pods() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2, retries=5)))
        async with run_controller(store, seconds=20, code=1):
            await wait_for_state(store, "AttemptRunning")
            before = set(await store.pods())
            await replace_spec(store, spec={**VALID_SPEC, "roleSequence": ["unknown"]})
            await wait_for_invalid(store)
            created = store.count("create", PODS)
            await asyncio.sleep(300)

            status = await store.status()
            assert status["state"] == "AttemptRunning"
            assert set(await store.pods()) == before
            assert store.count("create", PODS) == created, "the pods failed and are not retried"
            assert status["observedGeneration"] == 1

            await replace_spec(store, spec=a_framework("f", a_role("w", 2, retries=1))["spec"])
            await wait_for_state(store, "Completed")
            assert store.count("create", PODS) == created + 2

    run(scenario())


def test_an_invalid_framework_causes_no_writes_after_a_restart_of_the_controller() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework("new", a_role("w", 2), roleSequence=["x"]))
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store, seconds=1000):
            await wait_for_invalid(store, "new")
            await wait_for_state(store, "AttemptRunning")
            await replace_spec(store, spec={**VALID_SPEC, "roleSequence": ["unknown"]})
            await wait_for_invalid(store)
            await asyncio.sleep(10)
        calls = len(store.calls)
        async with run_controller(store):
            await asyncio.sleep(60)
            assert len(store.calls) == calls, "everything is reported already"
            assert len(await store.pods()) == 2

            for name in ("f", "new"):
                await replace_spec(store, name)
                await wait_for_state(store, "Completed", name)
                assert (await store.status(name))["taskCounts"] == {"Completed": 2}

    run(scenario())


def test_an_invalid_framework_can_be_deleted() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            await replace_spec(store, spec={**VALID_SPEC, "roleSequence": ["unknown"]})
            await wait_for_invalid(store)
            await store.delete(FRAMEWORKS, "default", "f")
            await asyncio.sleep(60)

            assert not await store.pods()
            assert not (await store.list(FRAMEWORKS)).items

    run(scenario())


def test_a_completed_framework_keeps_its_message_after_an_invalid_edit() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store):
            await wait_for_state(store, "Completed")
            message = (await store.status())["message"]
            await replace_spec(store, spec={**VALID_SPEC, "roleSequence": ["unknown"]})
            await wait_for_invalid(store)

            assert (await store.status())["message"] == message

    run(scenario())


def test_each_generation_is_validated_once_also_over_restarts() -> None:
    validated: list[int] = []

    def validate(obj: Object) -> tuple[FieldError, ...]:
        validated.append(obj["metadata"]["generation"])
        assert "status" not in obj, "the status is not validated"
        return ()

    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        for _ in range(2):
            async with run_controller(store, validate=validate, seconds=5):
                await asyncio.sleep(30)
        edit = MergePatch({"metadata": {"labels": {"team": "a"}}})
        await store.patch(FRAMEWORKS, "default", "f", edit)
        async with run_controller(store, validate=validate):
            await asyncio.sleep(30)

        assert validated == [1]

    run(scenario())


def test_a_framework_that_the_admission_policy_rejects_gets_no_pods() -> None:
    def validate(_: Object) -> tuple[FieldError, ...]:
        return (FieldError("spec.taskRoles[0].task.pod.spec.hostNetwork", "Forbidden: no"),)

    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store, validate=validate):
            condition = await wait_for_invalid(store)

        assert condition["message"] == "spec.taskRoles[0].task.pod.spec.hostNetwork: Forbidden: no"
        assert not await store.pods()

    run(scenario())


def test_an_invalid_edit_during_the_creation_of_pods_stops_it() -> None:
    async def scenario() -> None:
        store = unaudited_store()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 30)))
        edits: list[asyncio.Task[None]] = []

        def edit_at_first_creation(verb: str, kind: ResourceKind, _: Any) -> None:
            if (verb, kind) == ("create", PODS) and not edits:
                edits.append(
                    asyncio.create_task(replace_spec(store, spec={**VALID_SPEC, "roleSequence": ["unknown"]}))
                )

        store.fail = edit_at_first_creation
        async with run_controller(store, max_calls=2):
            await wait_for_invalid(store)
            await asyncio.sleep(60)

            assert 0 < store.count("create", PODS) < 10
            assert ("InternalError", "Warning") not in await event_types(store)
            await replace_spec(store, spec=a_framework("f", a_role("w", 30))["spec"])
            await wait_for_state(store, "Completed")
            assert store.count("create", PODS) == 30

    run(scenario())


def test_a_deadline_that_passes_while_the_spec_is_invalid_causes_few_planning_passes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes = count()
    plan = Planner.plan
    monkeypatch.setattr(Planner, "plan", lambda *args, **kwargs: (next(passes), plan(*args, **kwargs))[1])

    async def scenario() -> None:
        store = unaudited_store()
        role = a_role("w", 1)
        role["task"]["podGracefulDeletionTimeoutSec"] = 60
        role["task"]["pod"] = {**role["task"]["pod"], "metadata": {"finalizers": ["example.com/hold"]}}
        await store.create(FRAMEWORKS, a_framework("f", role))
        async with run_controller(store, seconds=1000):
            await wait_for_state(store, "AttemptRunning")
            await store.delete(PODS, "default", "f-w-0")
            await asyncio.sleep(5)
            await replace_spec(store, spec={**VALID_SPEC, "roleSequence": ["unknown"]})
            await asyncio.sleep(300)

            assert next(passes) < 50

    run(scenario())


def test_a_role_that_is_removed_during_the_creation_of_its_pods_causes_no_error() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 30), a_role("ps", 30)))
        removed: list[asyncio.Task[None]] = []

        def remove_at_first_creation(verb: str, kind: ResourceKind, _: Any) -> None:
            if (verb, kind) == ("create", PODS) and not removed:
                spec = a_framework("f", a_role("w", 30))["spec"]
                removed.append(asyncio.create_task(replace_spec(store, spec=spec)))

        store.fail = remove_at_first_creation
        async with run_controller(store, max_calls=2):
            await wait_for_state(store, "Completed")

            assert ("InternalError", "Warning") not in await event_types(store)
            assert (await store.status())["taskCounts"] == {"Completed": 30}

    run(scenario())
