"""Sessions are opened on request, limited in number, and ended when they are idle or the launcher stops."""

import asyncio

import pytest

from launcher.core.errors import TooManyRequests, Unavailable
from launcher.rendezvous.session import PeerRequest
from tests.builders import a_role
from tests.eventually import TIMEOUT_SECONDS, eventually
from tests.rendezvous.harness import NAMESPACE, RendezvousHarness, run_harness


async def test_all_requests_fail_at_once_when_the_launcher_stops(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2), discovery={"ports": {"worker": "auto"}})
    requests = [
        asyncio.create_task(harness.wait_for_peers()),
        asyncio.create_task(harness.wait_for_peers("worker/1", port=20000)),
    ]
    await harness.until_waiting(2)

    harness.sessions.close()

    for request in requests:
        with pytest.raises(Unavailable, match="shutting down"):
            await request
    with pytest.raises(Unavailable, match="shutting down"):
        await harness.wait_for_peers()


async def test_the_number_of_waiting_requests_is_limited() -> None:
    async with run_harness(max_waiters=2) as harness:
        await harness.submit(a_role(tasks=1))
        requests = [asyncio.create_task(harness.wait_for_peers()) for _ in range(2)]
        await harness.until_waiting(2)

        with pytest.raises(TooManyRequests):
            await harness.wait_for_peers()
        await harness.set_address("worker/0", "10.0.0.1")
        await asyncio.gather(*requests)


async def test_the_number_of_sessions_is_limited() -> None:
    async with run_harness(max_sessions=1) as harness:
        await harness.submit(a_role(tasks=1))
        request = asyncio.create_task(harness.wait_for_peers())
        await harness.until_waiting()

        with pytest.raises(TooManyRequests):
            await harness.sessions.wait_for_peers(
                (NAMESPACE, "another"), PeerRequest("uid", 0), TIMEOUT_SECONDS
            )
        await harness.set_address("worker/0", "10.0.0.1")
        await request


async def test_an_idle_session_ends_its_watch() -> None:
    async with run_harness(idle_seconds=0.01) as harness:
        await harness.submit(a_role(tasks=1))
        await harness.set_address("worker/0", "10.0.0.1")
        await harness.addresses()

        await eventually(lambda: harness.store.watches == 0)

        assert await harness.addresses() == {"worker": ["10.0.0.1"]}


async def test_a_cancelled_request_does_not_count_as_waiting(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1))
    request = asyncio.create_task(harness.wait_for_peers())
    await harness.until_waiting()

    request.cancel()
    await asyncio.wait([request])

    assert harness.sessions.waiters == 0
