"""How often a status is written: as seldom as its readers can bear, since each write costs as much as a pod."""

import asyncio

from launcher.store.interface import FRAMEWORKS
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run
from tests.controller.watched import Watched, launched, reaches


def test_between_its_beginning_and_its_end_changes_are_saved_together() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with launched(store, seconds=5, coalesce_seconds=20.0):
            await reaches(store, "Completed")

        assert store.count("update_status", FRAMEWORKS) == 2

    run(story())


def test_the_status_of_more_tasks_waits_longer() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 20)))
        async with launched(store, seconds=1000, coalesce_seconds=1.0, gather_per_task=1.0):
            await asyncio.sleep(15)
            early = (await store.status())["state"]
            await reaches(store, "AttemptRunning", within=15)

        assert early == "AttemptCreationPending"

    run(story())


def test_where_many_frameworks_change_each_of_them_waits_longer() -> None:
    async def story(frameworks: int) -> int:
        """Writes for each Framework."""
        store = Watched()
        for number in range(frameworks):
            await store.create(FRAMEWORKS, a_framework(f"f{number}", a_role("w", 20)))
        async with launched(
            store, seconds=10, coalesce_seconds=0.01, gather_per_framework=0.5, longest_gather=60.0
        ):
            for number in range(frameworks):
                await reaches(store, "Completed", f"f{number}")
        return store.count("update_status", FRAMEWORKS) // frameworks

    assert run(story(1)) > 5
    assert run(story(40)) <= 3


def test_that_pods_are_there_is_told_late_and_that_they_run_is_told_soon() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
        async with launched(store, seconds=1000, coalesce_seconds=1.0, gather_at_first=300.0):
            await reaches(store, "AttemptRunning", within=30)

        assert store.count("update_status", FRAMEWORKS) == 2

    run(story())


def test_a_framework_without_pods_has_only_its_status_to_speak_for_it() -> None:
    async def story() -> None:
        store = Watched()
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2), executionType="Create"))
        async with launched(store, coalesce_seconds=1.0, gather_at_first=300.0):
            await asyncio.sleep(5)
            conditions = {each["type"]: each["status"] for each in (await store.status())["conditions"]}

        assert conditions == {"Suspended": "True"}

    run(story())
