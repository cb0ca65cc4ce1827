"""The status writes of one Framework: own writes are distinguished from those of other clients."""

from random import Random

from launcher.controller.framework_state import FrameworkState
from launcher.core.planning.options import PlannerOptions
from launcher.core.validation.framework import validation_errors
from launcher.store.interface import FRAMEWORKS, MergePatch, Object
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run


async def a_planned_state(store: SimulatedStore) -> FrameworkState:
    """The state of a new Framework after its first planning pass."""
    obj = await store.create(FRAMEWORKS, a_framework("f", a_role("w", 2)))
    state = FrameworkState(obj, PlannerOptions(), [], validation_errors)
    state.plan(store.clock())
    return state


async def write_status_as_other_client(store: SimulatedStore, message: str) -> Object:
    patch = MergePatch({"status": {"message": message}})
    return await store.patch(FRAMEWORKS, "default", "f", patch, subresource="status")


def test_an_own_write_is_recognised_in_the_watch_and_in_the_response() -> None:
    async def scenario() -> None:
        store = SimulatedStore(Random(1))
        state = await a_planned_state(store)
        response = await store.update_status(FRAMEWORKS, state.status_update())

        assert not state.observe_framework(response), "the watch event needs no reconcile"
        assert state.status_stored(response)
        assert not state.status_changed

    run(scenario())


def test_a_stored_write_without_a_response_is_recognised() -> None:
    async def scenario() -> None:
        store = SimulatedStore(Random(1))
        state = await a_planned_state(store)
        await store.update_status(FRAMEWORKS, state.status_update())
        edited = await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"description": "new"}}))

        assert state.resolve_status_write(edited)
        assert not state.status_changed

    run(scenario())


def test_a_lost_write_is_not_considered_stored() -> None:
    async def scenario() -> None:
        store = SimulatedStore(Random(1))
        state = await a_planned_state(store)
        state.status_update()
        edited = await store.patch(FRAMEWORKS, "default", "f", MergePatch({"spec": {"description": "new"}}))

        assert not state.resolve_status_write(edited)
        assert state.status_changed, "it has to be written again"
        assert state.framework.generation == 2, "the edit of the spec is observed"

    run(scenario())


def test_the_status_of_another_client_is_adopted_and_a_later_response_is_ignored() -> None:
    async def scenario() -> None:
        store = SimulatedStore(Random(1))
        state = await a_planned_state(store)
        response = await store.update_status(FRAMEWORKS, state.status_update())
        other = await write_status_as_other_client(store, "other")

        assert state.observe_framework(other)
        assert not state.status_stored(response), "no action may follow from it"
        assert state.status_update()["status"]["message"] == "other"
        assert state.writer.version == int(other["metadata"]["resourceVersion"])

    run(scenario())


def test_an_older_version_of_the_framework_is_ignored() -> None:
    async def scenario() -> None:
        store = SimulatedStore(Random(1))
        state = await a_planned_state(store)
        old = await store.get(FRAMEWORKS, "default", "f")
        state.status_stored(await store.update_status(FRAMEWORKS, state.status_update()))
        status = state.status_update()["status"]

        assert not state.observe_framework(old)
        assert state.status_update()["status"] == status

    run(scenario())
