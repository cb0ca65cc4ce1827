"""Status changes are coalesced: each write costs as much as the creation of a pod."""

import asyncio

from launcher.store.interface import FRAMEWORKS
from tests.controller.harness import RecordingStore, run_controller, wait_for_state
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run


def test_changes_between_start_and_completion_are_saved_together() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with run_controller(store, seconds=5, coalesce_seconds=20.0):
            await wait_for_state(store, "Completed")

        assert store.count("update_status", FRAMEWORKS) == 2

    run(scenario())


def test_the_status_of_more_tasks_is_saved_later() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with run_controller(store, seconds=1000, coalesce_seconds=1.0, coalesce_seconds_per_task=1.0):
            await asyncio.sleep(15)
            state = (await store.status())["state"]
            await wait_for_state(store, "AttemptRunning", timeout_seconds=15)

        assert state == "AttemptCreationPending"

    run(scenario())


def test_statuses_are_saved_later_if_many_frameworks_change() -> None:
    async def scenario(frameworks: int) -> int:
        """Returns the number of status writes per Framework."""
        store = RecordingStore()
        for number in range(frameworks):
            await store.create(FRAMEWORKS, a_framework(f"f{number}", a_role("w", 20)))
        async with run_controller(
            store,
            seconds=10,
            coalesce_seconds=0.01,
            coalesce_seconds_per_framework=0.5,
            max_coalesce_seconds=60.0,
        ):
            for number in range(frameworks):
                await wait_for_state(store, "Completed", f"f{number}")
        return store.count("update_status", FRAMEWORKS) // frameworks

    assert run(scenario(1)) > 5
    assert run(scenario(40)) <= 3


def test_the_creation_of_pods_is_saved_late_and_their_start_is_saved_soon() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with run_controller(store, seconds=1000, coalesce_seconds=1.0, coalesce_seconds_at_start=300.0):
            await wait_for_state(store, "AttemptRunning", timeout_seconds=30)

        assert store.count("update_status", FRAMEWORKS) == 2

    run(scenario())


def test_the_status_of_a_framework_without_pods_is_saved_soon() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2), executionType="Create"))
        async with run_controller(store, coalesce_seconds=1.0, coalesce_seconds_at_start=300.0):
            await asyncio.sleep(5)
            conditions = {c["type"]: c["status"] for c in (await store.status())["conditions"]}

        assert conditions == {"Suspended": "True"}

    run(scenario())
