"""Who wrote the status that is stored: this desk, or somebody else."""

from random import Random

from launcher.controller.framework_state import FrameworkState
from launcher.core.planning.options import PlannerOptions
from launcher.core.validation.framework import validation_errors
from launcher.store.interface import FRAMEWORKS, MergePatch, Object
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.scenes import a_framework, a_role
from tests.controller.simulation.virtual_time import run


async def a_desk(store: SimulatedStore) -> FrameworkState:
    """A desk that has looked at its Framework once."""
    desk = FrameworkState(
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2))),
        PlannerOptions(),
        [],
        validation_errors,
    )
    desk.planner.plan(store.clock())
    return desk


async def somebody_writes(store: SimulatedStore, message: str) -> Object:
    patch = MergePatch({"status": {"message": message}})
    return await store.patch(FRAMEWORKS, "default", "f", patch, subresource="status")


def test_its_own_write_is_known_by_the_watch_as_well_as_by_the_answer() -> None:
    async def story() -> None:
        store = SimulatedStore(Random(1))
        desk = await a_desk(store)
        answer = await store.update_status(FRAMEWORKS, desk.status_update())
        planner = desk.planner

        assert not desk.observe(answer), "the watch was faster, and it is nothing to look at"
        assert desk.status_stored(answer)
        assert (desk.planner, desk.planner.changed) == (planner, False)

    run(story())


def test_a_write_whose_answer_was_lost_is_found_again() -> None:
    async def story() -> None:
        store = SimulatedStore(Random(1))
        desk = await a_desk(store)
        await store.update_status(FRAMEWORKS, desk.status_update())
        edited = await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"description": "new"}}))

        assert desk.settle(edited)
        assert not desk.planner.changed

    run(story())


def test_a_write_that_never_arrived_is_not_taken_for_saved() -> None:
    async def story() -> None:
        store = SimulatedStore(Random(1))
        desk = await a_desk(store)
        desk.status_update()
        edited = await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"description": "new"}}))

        assert not desk.settle(edited)
        assert desk.planner.changed, "it is still to be saved"
        assert desk.framework.generation == 2, "and what the user wrote is known"

    run(story())


def test_somebody_elses_status_is_taken_over_and_an_answer_that_comes_after_it_changes_nothing() -> None:
    async def story() -> None:
        store = SimulatedStore(Random(1))
        desk = await a_desk(store)
        answer = await store.update_status(FRAMEWORKS, desk.status_update())
        theirs = await somebody_writes(store, "theirs")

        assert desk.observe(theirs)
        assert not desk.status_stored(answer), "so nothing is done that rests on it"
        assert desk.planner.status().message == "theirs"
        assert desk.version == int(theirs["metadata"]["resourceVersion"])

    run(story())


def test_an_old_sight_of_the_framework_is_passed_over() -> None:
    async def story() -> None:
        store = SimulatedStore(Random(1))
        desk = await a_desk(store)
        old = await store.get(FRAMEWORKS, "default", "f")
        desk.status_stored(await store.update_status(FRAMEWORKS, desk.status_update()))
        planner = desk.planner

        assert not desk.observe(old)
        assert desk.planner is planner

    run(story())
