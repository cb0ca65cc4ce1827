"""Requests wait until all tasks have addresses, and all of them share one watch and one set of files."""

import asyncio
from typing import Any

import pytest

from launcher.core.errors import BadRequest, Forbidden, NotFound, Unavailable
from launcher.rendezvous.peer_files import PeerFiles
from launcher.rendezvous.session import MissingPeers, PeerRequest
from launcher.store.interface import FRAMEWORKS
from tests.builders import a_role
from tests.controller.simulation.virtual_time import run
from tests.eventually import TIMEOUT_SECONDS
from tests.rendezvous.harness import KEY, PS, WORKER, RendezvousHarness, run_harness, task_id


async def test_a_request_waits_until_all_tasks_have_addresses(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2))
    await harness.set_address("worker/0", "10.0.0.1")
    request = asyncio.create_task(harness.addresses())
    await harness.until_waiting()

    await harness.create_pod("worker/1")
    await asyncio.sleep(0)
    assert not request.done()
    await harness.set_address("worker/1", "10.0.0.2")

    assert await request == {"worker": ["10.0.0.1", "10.0.0.2"]}


async def test_a_request_is_answered_at_once_when_all_addresses_are_known(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))
    await harness.set_address("worker/0", "10.0.0.1")

    assert await harness.addresses(wait_seconds=0) == {"worker": ["10.0.0.1"]}


async def test_a_request_that_times_out_names_missing_tasks(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=30), a_role("ps", 1))
    await harness.set_address("worker/0", "10.0.0.1")

    result = await harness.wait_for_peers(wait_seconds=0.01)

    assert isinstance(result, MissingPeers)
    assert result.tasks[:2] == (task_id("worker/1"), task_id("worker/2"))
    assert (len(result.tasks), result.count) == (20, 30)


async def test_all_requests_share_one_read_one_watch_and_one_set_of_files(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1000))
    requests = [asyncio.create_task(harness.wait_for_peers(f"worker/{index}")) for index in range(1000)]
    await harness.until_waiting(1000)
    for index in range(1000):
        await harness.set_address(f"worker/{index}", f"10.0.0.{index}")

    results = await asyncio.gather(*requests)

    assert harness.store.reads["frameworks"] == 1
    assert harness.store.watches == 1
    assert len({id(result) for result in results}) == 1
    assert isinstance(results[0], PeerFiles)
    assert len({id(results[0].segments("hosts.json", None)[0]) for _ in range(2)}) == 1


async def test_a_retried_task_creates_a_new_generation(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2))
    for index in range(2):
        await harness.set_address(f"worker/{index}", f"10.0.0.{index}")
    first = await harness.wait_for_peers()
    assert isinstance(first, PeerFiles)
    request = asyncio.create_task(harness.wait_for_peers("worker/0", after=first.peer_list.generation))
    await harness.until_waiting()

    await harness.delete_pod("worker/1")
    await harness.set_address("worker/1", "10.0.0.9", task_attempt=1)
    second = await request

    assert isinstance(second, PeerFiles)
    assert second.peer_list.generation > first.peer_list.generation
    assert [peer.ip for peer in second.peer_list.roles[WORKER]] == ["10.0.0.0", "10.0.0.9"]


async def test_a_request_after_the_current_generation_waits_for_a_newer_one(
    harness: RendezvousHarness,
) -> None:
    await harness.submit(a_role(tasks=1))
    await harness.set_address("worker/0", "10.0.0.1")
    first = await harness.wait_for_peers()
    assert isinstance(first, PeerFiles)

    result = await harness.wait_for_peers(wait_seconds=0.01, after=first.peer_list.generation)

    assert result == MissingPeers((), 0)


async def test_the_address_of_a_replaced_pod_is_not_returned(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2))
    for index in range(2):
        await harness.set_address(f"worker/{index}", f"10.0.0.{index}")
    await harness.addresses()
    await harness.delete_pod("worker/1")
    await harness.create_pod("worker/1", task_attempt=1)
    await harness.until_handled()

    result = await harness.wait_for_peers(wait_seconds=0.01)

    assert result == MissingPeers((task_id("worker/1"),), 1)


async def test_a_request_waits_for_tasks_added_by_a_rescale(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))
    await harness.set_address("worker/0", "10.0.0.1")
    first = await harness.wait_for_peers()
    assert isinstance(first, PeerFiles)
    request = asyncio.create_task(harness.addresses(after=first.peer_list.generation))
    await harness.until_waiting()

    await harness.update_spec(lambda spec: spec["taskRoles"][0].update(taskNumber=2))
    await harness.set_status(rescales=1)
    await harness.set_address("worker/1", "10.0.0.2")

    assert await request == {"worker": ["10.0.0.1", "10.0.0.2"]}


async def test_a_request_does_not_wait_for_tasks_removed_by_a_rescale(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2))
    await harness.set_address("worker/0", "10.0.0.1")
    await harness.create_pod("worker/1")
    request = asyncio.create_task(harness.addresses())
    await harness.until_waiting()

    await harness.update_spec(lambda spec: spec["taskRoles"][0].update(taskNumber=1))
    await harness.set_status(rescales=1)
    await harness.delete_pod("worker/1")

    assert await request == {"worker": ["10.0.0.1"]}


async def test_a_task_does_not_wait_for_roles_that_start_after_its_own(harness: RendezvousHarness) -> None:
    await harness.submit(a_role("ps", 1), a_role("worker", 1, startAfter=[{"role": "ps"}]))
    await harness.set_address("ps/0", "10.0.0.1")

    assert await harness.addresses("ps/0") == {"ps": ["10.0.0.1"]}
    request = asyncio.create_task(harness.addresses("worker/0"))
    await harness.until_waiting()
    await harness.set_address("worker/0", "10.0.0.2")

    assert await request == {"ps": ["10.0.0.1"], "worker": ["10.0.0.2"]}


async def test_a_framework_that_does_not_exist_is_not_found(harness: RendezvousHarness) -> None:
    with pytest.raises(NotFound, match=r'frameworks\.launcher\.microsoft\.com "mnist" not found'):
        await harness.sessions.wait_for_peers(KEY, PeerRequest("uid", 0), TIMEOUT_SECONDS)


async def test_a_waiting_request_fails_when_the_framework_is_deleted(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2))
    await harness.set_address("worker/0", "10.0.0.1")
    request = asyncio.create_task(harness.wait_for_peers())
    await harness.until_waiting()

    await harness.store.delete(FRAMEWORKS, *KEY)
    await harness.delete_pod("worker/0")

    with pytest.raises(NotFound):
        await request


async def test_a_recreated_framework_rejects_tokens_of_the_deleted_one(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))
    old_request = harness.request()
    await harness.set_address("worker/0", "10.0.0.1")
    await harness.addresses()
    await harness.store.delete(FRAMEWORKS, *KEY)
    await harness.delete_pod("worker/0")
    await harness.submit(a_role(tasks=1))
    await harness.set_address("worker/0", "10.0.0.2")

    assert await harness.addresses() == {"worker": ["10.0.0.2"]}
    with pytest.raises(NotFound):
        await harness.sessions.wait_for_peers(KEY, old_request, TIMEOUT_SECONDS)


async def test_a_request_of_an_ended_attempt_is_forbidden(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))
    await harness.set_status(attempt=2)
    await harness.set_address("worker/0", "10.0.0.1", attempt=2)

    with pytest.raises(Forbidden, match="attempt 1 of this Framework has ended"):
        await harness.wait_for_peers(attempt=1)
    assert await harness.addresses(attempt=2) == {"worker": ["10.0.0.1"]}


async def test_a_waiting_request_fails_when_its_attempt_ends(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2))
    await harness.set_address("worker/0", "10.0.0.1")
    request = asyncio.create_task(harness.wait_for_peers())
    await harness.until_waiting()

    await harness.set_status("AttemptDeletionPending")
    await harness.delete_pod("worker/0")

    with pytest.raises(Forbidden, match="attempt 0 of this Framework has ended"):
        await request


async def test_a_request_of_a_new_attempt_gets_the_addresses_of_that_attempt(
    harness: RendezvousHarness,
) -> None:
    await harness.submit(a_role(tasks=1))
    await harness.set_address("worker/0", "10.0.0.1")
    await harness.addresses()

    await harness.delete_pod("worker/0")
    await harness.set_status(attempt=1)
    await harness.set_address("worker/0", "10.0.0.2", attempt=1)

    assert await harness.addresses(attempt=1) == {"worker": ["10.0.0.2"]}


async def test_a_request_of_an_attempt_that_has_not_started_is_retried(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))

    with pytest.raises(Unavailable, match="attempt 5 has not started; retry"):
        await harness.wait_for_peers(attempt=5)


async def test_a_role_that_does_not_exist_is_named(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))

    with pytest.raises(BadRequest, match="role boss does not exist"):
        await harness.wait_for_peers("boss/0")


async def test_framework_json_is_read_once_for_all_requests(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))
    await harness.set_address("worker/0", "10.0.0.1")
    session, files = await harness.sessions.wait_for_peers(KEY, harness.request(), TIMEOUT_SECONDS)
    assert isinstance(files, PeerFiles)
    before = harness.store.reads["frameworks"]

    contents = [await session.framework_json(files) for _ in range(3)]

    assert len({id(each) for each in contents}) == 1
    assert harness.store.reads["frameworks"] == before + 1


async def test_a_failed_read_is_retried(harness: RendezvousHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    await harness.submit(a_role(tasks=1), a_role("ps", 1))
    await harness.set_address("worker/0", "10.0.0.1")
    await harness.set_address("ps/0", "10.0.0.2")
    get, errors = harness.store.get, [Unavailable("away"), Forbidden("no permission yet")]

    async def failing_get(*args: Any) -> Any:
        if errors:
            raise errors.pop()
        return await get(*args)

    monkeypatch.setattr(harness.store, "get", failing_get)

    assert await harness.addresses() == {WORKER: ["10.0.0.1"], PS: ["10.0.0.2"]}


@pytest.mark.parametrize(
    ("duration", "pause"),
    [pytest.param(0.001, 0.05, id="small Framework"), pytest.param(0.1, 1.0, id="large Framework")],
)
def test_the_pause_between_two_reads_depends_on_their_duration(
    duration: float, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with run_harness() as harness:
            await harness.submit(a_role(tasks=1))
            await harness.set_address("worker/0", "10.0.0.1")
            await harness.addresses()
            get, before = harness.store.get, harness.store.reads["frameworks"]

            async def slow_get(*args: Any) -> Any:
                await asyncio.sleep(duration)
                return await get(*args)

            monkeypatch.setattr(harness.store, "get", slow_get)
            # Each replacement of a pod requires a read.
            for _ in range(100):
                await harness.delete_pod("worker/0")
                await harness.create_pod("worker/0")
                await asyncio.sleep((duration + pause) / 10)

            assert harness.store.reads["frameworks"] - before in (9, 10, 11)

    run(scenario())
