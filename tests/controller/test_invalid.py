"""Frameworks that slipped past every check: told, not run, and none the worse for it once they are corrected."""

import asyncio
from itertools import count
from typing import Any

import pytest

from launcher.core.errors import FieldError
from launcher.core.planning.planner import Planner
from launcher.store.interface import EVENTS, FRAMEWORKS, PODS, JsonPatch, MergePatch, Object, ResourceKind
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run
from tests.controller.watched import Watched, launched, reaches

SOUND = a_framework("f", a_role("w", 2))["spec"]
LONG = "f" * 62


def unaudited() -> Watched:
    """A store whose auditor looks away: it reads every spec, and these cannot be read."""
    store = Watched()
    store.audit = lambda *_: None
    return store


def valid(status: Object) -> Object | None:
    return next((c for c in status.get("conditions") or [] if c["type"] == "Valid"), None)


async def is_told(store: Watched, name: str = "f") -> Object:
    """The condition that says what is wrong."""
    async with asyncio.timeout(60):
        while (condition := valid(await store.status(name))) is None or condition["status"] == "True":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    return condition


async def events(store: Watched) -> list[tuple[str, str]]:
    return [(event["reason"], event["type"]) for event in (await store.list(EVENTS)).items]


async def correct(store: Watched, name: str = "f", spec: Object = SOUND) -> None:
    await store.patch(
        FRAMEWORKS, "default", name, JsonPatch([{"op": "replace", "path": "/spec", "value": spec}])
    )


def role(**more: Any) -> Object:
    return {**a_role("w", 2), **more}


NONSENSE: dict[str, tuple[Object, str]] = {
    "a sequence of unknown roles": (
        a_framework("f", a_role("w", 2), roleSequence=["w", "ps"]),
        "spec.roleSequence[1]",
    ),
    "indexes that are not there": (
        a_framework("f", role(frameworkAttemptCompletionPolicy={"succeededIndexes": "7"})),
        "spec.taskRoles[0].frameworkAttemptCompletionPolicy.succeededIndexes",
    ),
    "indexes that are none": (
        a_framework("f", role(frameworkAttemptCompletionPolicy={"succeededIndexes": "first"})),
        "spec.taskRoles[0].frameworkAttemptCompletionPolicy.succeededIndexes",
    ),
    "a pod without containers": (
        a_framework("f", role(task={"pod": {"spec": {}}})),
        "spec.taskRoles[0].task.pod.spec.containers",
    ),
    "roles that are no objects": (a_framework("f") | {"spec": {"taskRoles": [7]}}, "spec.taskRoles[0]"),
    "a spec that is a word": (a_framework("f") | {"spec": "nothing"}, "spec"),
    "an unknown wish": (a_framework("f", a_role("w", 2), executionType="Perhaps"), "spec.executionType"),
    "a number of tasks below none": (a_framework("f", role(taskNumber=-1)), "spec.taskRoles[0].taskNumber"),
}


@pytest.mark.parametrize(("broken", "field"), NONSENSE.values(), ids=NONSENSE)
def test_it_gets_a_condition_and_an_event_and_no_pods_until_it_is_corrected(
    broken: Object, field: str
) -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, broken)
        async with launched(store):
            condition = await is_told(store)
            await asyncio.sleep(60)

            assert (condition["status"], condition["reason"]) == ("False", "InvalidSpec")
            assert condition["message"].startswith(f"{field}: ")
            status = await store.status()
            assert status["state"] == "AttemptCreationPending"
            assert field in status["message"]
            assert not await store.pods()
            assert await events(store) == [("InvalidSpec", "Warning")]
            assert store.count("update_status", FRAMEWORKS) == 1, "told once"

            await correct(store)
            await reaches(store, "Completed")
            status = await store.status()
            assert (valid(status) or {})["status"] == "True"
            assert status["observedGeneration"] == 2
            assert status["attemptStatus"]["rescaleCount"] == 0, "its tasks are the first"
            assert status["taskCounts"] == {"Completed": 2}

    run(story())


def test_a_pod_name_that_would_be_too_long_is_told_with_the_sum() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework(LONG, a_role("worker", 2)))
        async with launched(store):
            condition = await is_told(store, LONG)

        assert "pod names would have up to 71 characters" in condition["message"]
        assert not await store.pods()

    run(story())


def test_one_that_cannot_be_run_keeps_nobody_else_from_running() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework("broken") | {"spec": None})
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store):
            await is_told(store, "broken")
            await reaches(store, "Completed")

    run(story())


def test_another_fault_is_told_as_well_and_the_condition_keeps_its_time() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2), roleSequence=["x"]))
        async with launched(store):
            first = await is_told(store)
            await correct(store, spec={**SOUND, "roleSequence": ["y"]})
            await asyncio.sleep(30)
            second = await is_told(store)

        assert '"y"' in second["message"]
        assert second["lastTransitionTime"] == first["lastTransitionTime"]
        assert await events(store) == [("InvalidSpec", "Warning")] * 2

    run(story())


def test_a_running_framework_that_an_edit_made_invalid_keeps_its_state_and_begins_nothing() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2, retries=5)))
        async with launched(store, seconds=20, code=1):
            await reaches(store, "AttemptRunning")
            before = set(await store.pods())
            await correct(store, spec={**SOUND, "roleSequence": ["nobody"]})
            await is_told(store)
            made = store.count("create", PODS)
            await asyncio.sleep(300)

            status = await store.status()
            assert status["state"] == "AttemptRunning"
            assert set(await store.pods()) == before
            assert store.count("create", PODS) == made, "the pods have failed, and nothing is tried again"
            assert status["observedGeneration"] == 1

            await correct(store, spec=a_framework("f", a_role("w", 2, retries=1))["spec"])
            await reaches(store, "Completed")
            assert store.count("create", PODS) == made + 2

    run(story())


def test_a_new_controller_finds_it_as_the_old_one_left_it() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework("new", a_role("w", 2), roleSequence=["x"]))
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store, seconds=1000):
            await is_told(store, "new")
            await reaches(store, "AttemptRunning")
            await correct(store, spec={**SOUND, "roleSequence": ["nobody"]})
            await is_told(store)
            await asyncio.sleep(10)
        calls = len(store.calls)
        async with launched(store):
            await asyncio.sleep(60)
            assert len(store.calls) == calls, "everything is told already"
            assert len(await store.pods()) == 2

            for name in ("f", "new"):
                await correct(store, name)
                await reaches(store, "Completed", name)
                assert (await store.status(name))["taskCounts"] == {"Completed": 2}

    run(story())


def test_one_that_is_deleted_goes_all_the_same() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            await correct(store, spec={**SOUND, "roleSequence": ["nobody"]})
            await is_told(store)
            await store.delete(FRAMEWORKS, "default", "f")
            await asyncio.sleep(60)

            assert not await store.pods()
            assert not (await store.list(FRAMEWORKS)).items

    run(story())


def test_the_end_of_a_framework_is_told_before_what_was_done_to_it_afterwards() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store):
            await reaches(store, "Completed")
            end = (await store.status())["message"]
            await correct(store, spec={**SOUND, "roleSequence": ["nobody"]})
            await is_told(store)

            assert (await store.status())["message"] == end

    run(story())


def test_a_framework_is_checked_once_for_each_generation_and_not_again_after_a_restart() -> None:
    checked: list[int] = []

    def check(obj: Object) -> tuple[FieldError, ...]:
        checked.append(obj["metadata"]["generation"])
        assert "status" not in obj, "it is large, and ours"
        return ()

    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        for _ in range(2):
            async with launched(store, check=check, seconds=5):
                await asyncio.sleep(30)
        touch = MergePatch({"metadata": {"labels": {"team": "a"}}})
        await store.patch(FRAMEWORKS, "default", "f", touch)
        async with launched(store, check=check):
            await asyncio.sleep(30)

        assert checked == [1]

    run(story())


def test_what_the_admin_forbids_is_not_run_either() -> None:
    def check(_: Object) -> tuple[FieldError, ...]:
        return (FieldError("spec.taskRoles[0].task.pod.spec.hostNetwork", "Forbidden: no"),)

    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store, check=check):
            condition = await is_told(store)

        assert condition["message"] == "spec.taskRoles[0].task.pod.spec.hostNetwork: Forbidden: no"
        assert not await store.pods()

    run(story())


def test_an_edit_that_comes_while_pods_are_created_stops_that_at_once() -> None:
    async def story() -> None:
        store = unaudited()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 30)))
        edited: list[asyncio.Task[None]] = []

        def edit_meanwhile(verb: str, kind: ResourceKind, _: Any) -> None:
            if (verb, kind) == ("create", PODS) and not edited:
                edited.append(asyncio.create_task(correct(store, spec={**SOUND, "roleSequence": ["nobody"]})))

        store.fails = edit_meanwhile
        async with launched(store, calls=2):
            await is_told(store)
            await asyncio.sleep(60)

            assert 0 < store.count("create", PODS) < 10
            assert ("InternalError", "Warning") not in await events(store)
            await correct(store, spec=a_framework("f", a_role("w", 30))["spec"])
            await reaches(store, "Completed")
            assert store.count("create", PODS) == 30

    run(story())


def test_nobody_is_kept_busy_by_a_moment_that_passes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count()
    look = Planner.plan
    monkeypatch.setattr(Planner, "plan", lambda *args, **more: (next(looks), look(*args, **more))[1])

    async def story() -> None:
        store = unaudited()
        held = a_role("w", 1)
        held["task"]["podGracefulDeletionTimeoutSec"] = 60
        held["task"]["pod"] = {**held["task"]["pod"], "metadata": {"finalizers": ["example.com/hold"]}}
        await store.create(FRAMEWORKS, a_framework("f", held))
        async with launched(store, seconds=1000):
            await reaches(store, "AttemptRunning")
            await store.delete(PODS, "default", "f-w-0")
            await asyncio.sleep(5)
            await correct(store, spec={**SOUND, "roleSequence": ["nobody"]})
            await asyncio.sleep(300)

            assert next(looks) < 50

    run(story())


def test_a_role_that_is_removed_while_its_pods_are_created_is_no_fault_of_anybodys() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 30), a_role("ps", 30)))
        removed: list[asyncio.Task[None]] = []

        def remove_meanwhile(verb: str, kind: ResourceKind, _: Any) -> None:
            if (verb, kind) == ("create", PODS) and not removed:
                spec = a_framework("f", a_role("w", 30))["spec"]
                removed.append(asyncio.create_task(correct(store, spec=spec)))

        store.fails = remove_meanwhile
        async with launched(store, calls=2):
            await reaches(store, "Completed")

            assert ("InternalError", "Warning") not in await events(store)
            assert (await store.status())["taskCounts"] == {"Completed": 30}

    run(story())
