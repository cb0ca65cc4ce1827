"""A rendezvous token opens only the session of its own Framework."""

import asyncio

import pytest

from launcher.core.errors import NotFound, TooManyRequests
from launcher.rendezvous.session import PeerRequest
from tests.builders import a_role
from tests.eventually import TIMEOUT_SECONDS, eventually
from tests.rendezvous.harness import NAMESPACE, run_harness


async def test_a_token_opens_no_session_for_a_framework_that_does_not_exist() -> None:
    async with run_harness(max_sessions=3) as harness:
        for number in range(10):
            with pytest.raises(NotFound):
                await harness.sessions.wait_for_peers(
                    (NAMESPACE, f"none-{number}"), PeerRequest("some-uid", 0), TIMEOUT_SECONDS
                )
        await harness.submit(a_role(tasks=1))
        await harness.set_address("worker/0", "10.0.0.1")

        assert await harness.addresses() == {"worker": ["10.0.0.1"]}


async def test_a_token_opens_one_session_at_a_time() -> None:
    async with run_harness(max_sessions=3) as harness:
        await harness.submit(a_role(tasks=1))
        names = [(NAMESPACE, f"none-{number}") for number in range(100)]
        requests = [
            asyncio.create_task(
                harness.sessions.wait_for_peers(name, PeerRequest("some-uid", 0), TIMEOUT_SECONDS)
            )
            for name in names
        ]
        await harness.set_address("worker/0", "10.0.0.1")

        assert await harness.addresses() == {"worker": ["10.0.0.1"]}
        results = await asyncio.gather(*requests, return_exceptions=True)
        assert all(isinstance(result, NotFound) for result in results)


async def test_a_token_opens_no_session_of_another_framework() -> None:
    async with run_harness() as harness:
        await harness.submit(a_role(tasks=1))

        with pytest.raises(NotFound):
            await harness.sessions.wait_for_peers(
                (NAMESPACE, "mnist"), PeerRequest("another-uid", 0), TIMEOUT_SECONDS
            )

        await eventually(lambda: harness.store.watches == 0)


async def test_the_waiting_requests_of_a_framework_are_limited_to_its_tasks() -> None:
    async with run_harness() as harness:
        await harness.submit(a_role(tasks=1))
        requests = [asyncio.create_task(harness.wait_for_peers()) for _ in range(16)]
        await harness.until_waiting(16)

        with pytest.raises(TooManyRequests, match="of this Framework"):
            await harness.wait_for_peers()
        for request in requests:
            request.cancel()
        await asyncio.wait(requests)
