"""Heartbeats of tasks: an annotation of their pods."""

import asyncio

import pytest

from launcher.core.errors import Forbidden, NotFound
from launcher.core.names import HEARTBEAT_ANNOTATION, PROGRESS_DEADLINE_ANNOTATION
from launcher.rendezvous.heartbeats import HeartbeatRecorder
from launcher.store.interface import PODS, MergePatch, Object
from tests.builders import a_role
from tests.controller.simulation.virtual_time import run
from tests.rendezvous.harness import KEY, NAMESPACE, RendezvousHarness, task_id
from tests.rendezvous.test_handler import PATH, ServerHarness, serve

TASK = task_id("worker/0")
NOW = 1_800_000_000.0


async def a_harness(deadline: str | None = "40") -> RendezvousHarness:
    harness = RendezvousHarness()
    await prepare(harness, deadline)
    return harness


async def prepare(harness: RendezvousHarness, deadline: str | None) -> None:
    """A Framework with one task, whose pod has this deadline."""
    await harness.submit(a_role(tasks=1))
    await harness.set_address("worker/0", "10.0.0.1")
    if deadline is not None:
        change = {"metadata": {"annotations": {PROGRESS_DEADLINE_ANNOTATION: deadline}}}
        await harness.store.patch(PODS, NAMESPACE, "mnist-worker-0", MergePatch(change))


async def pod_of(harness: RendezvousHarness) -> Object:
    return await harness.store.get(PODS, NAMESPACE, "mnist-worker-0")


async def heartbeat_of(harness: RendezvousHarness) -> str | None:
    found: str | None = (await pod_of(harness))["metadata"]["annotations"].get(HEARTBEAT_ANNOTATION)
    return found


def test_a_heartbeat_is_written_at_most_four_times_within_the_deadline() -> None:
    async def scenario() -> None:
        harness = await a_harness()
        loop = asyncio.get_running_loop()
        recorder = HeartbeatRecorder(harness.store, lambda: NOW + loop.time())
        versions = set()

        for _ in range(40):
            await recorder.record(KEY, harness.uid, 0, TASK)
            versions.add((await pod_of(harness))["metadata"]["resourceVersion"])
            await asyncio.sleep(1)

        assert len(versions) == 4

    run(scenario())


async def test_the_annotation_is_the_time_of_the_heartbeat() -> None:
    harness = await a_harness()

    await HeartbeatRecorder(harness.store, lambda: NOW).record(KEY, harness.uid, 0, TASK)

    assert await heartbeat_of(harness) == "2027-01-15T08:00:00Z"


async def test_a_task_without_a_deadline_causes_no_write() -> None:
    harness = await a_harness(deadline=None)

    await HeartbeatRecorder(harness.store, lambda: NOW).record(KEY, harness.uid, 0, TASK)

    assert await heartbeat_of(harness) is None


@pytest.mark.parametrize(
    ("uid", "attempt"),
    [pytest.param("other", 0, id="another Framework"), pytest.param("", 1, id="another attempt")],
)
async def test_a_pod_of_another_framework_or_attempt_is_not_changed(uid: str, attempt: int) -> None:
    harness = await a_harness()

    with pytest.raises(Forbidden):
        await HeartbeatRecorder(harness.store, lambda: NOW).record(KEY, uid or harness.uid, attempt, TASK)

    assert await heartbeat_of(harness) is None


async def test_a_task_without_a_pod_is_not_found() -> None:
    harness = await a_harness()

    with pytest.raises(NotFound):
        await HeartbeatRecorder(harness.store, lambda: NOW).record(KEY, harness.uid, 0, task_id("worker/7"))


async def test_a_pod_sends_a_heartbeat_with_its_token() -> None:
    harness = ServerHarness()
    async with serve(harness):
        await prepare(harness, "40")

        accepted = await harness.post(f"{PATH}/heartbeat?task=worker/0")
        without_task = await harness.post(f"{PATH}/heartbeat")
        without_token = await harness.client.post(f"{PATH}/heartbeat?task=worker/0", {})

    assert accepted.status == 204
    assert await heartbeat_of(harness) is not None
    assert (without_task.status, without_token.status) == (400, 403)
    assert "task=ROLE/INDEX" in without_task.json()["message"]
