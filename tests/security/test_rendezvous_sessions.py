"""One rendezvous token opens the session of its own Framework, and no more of it than that needs."""

import asyncio

import pytest

from launcher.core.errors import NotFound, TooManyRequests
from launcher.rendezvous.session import PeerRequest
from tests.api.client import until
from tests.core.manifests import a_role
from tests.rendezvous.places import PATIENCE, a_place
from tests.rendezvous.world import NAMESPACE


async def test_a_token_opens_no_sessions_for_names_that_do_not_exist() -> None:
    async with a_place(rooms=3) as place, asyncio.timeout(PATIENCE):
        for number in range(10):
            with pytest.raises(NotFound):
                await place.rooms.answer((NAMESPACE, f"none-{number}"), PeerRequest("some-uid", 0), PATIENCE)
        await place.submit(a_role(tasks=1))
        await place.place("worker/0", "10.0.0.1")

        assert await place.told() == {"worker": ["10.0.0.1"]}


async def test_a_token_opens_one_session_at_a_time() -> None:
    async with a_place(rooms=3) as place, asyncio.timeout(PATIENCE):
        await place.submit(a_role(tasks=1))
        names = [(NAMESPACE, f"none-{number}") for number in range(100)]
        asking = [
            asyncio.create_task(place.rooms.answer(name, PeerRequest("some-uid", 0), PATIENCE))
            for name in names
        ]
        await place.place("worker/0", "10.0.0.1")

        assert await place.told() == {"worker": ["10.0.0.1"]}
        found = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(each, NotFound) for each in found)


async def test_a_token_opens_no_session_of_another_framework() -> None:
    async with a_place() as place, asyncio.timeout(PATIENCE):
        await place.submit(a_role(tasks=1))

        with pytest.raises(NotFound):
            await place.rooms.answer((NAMESPACE, "mnist"), PeerRequest("another-uid", 0), PATIENCE)

        await until(lambda: place.store.followers == 0)


async def test_the_waiters_of_one_framework_are_bounded_by_its_tasks() -> None:
    async with a_place() as place, asyncio.timeout(PATIENCE):
        await place.submit(a_role(tasks=1))
        asking = [asyncio.create_task(place.answer()) for _ in range(16)]
        await place.waiting(16)

        with pytest.raises(TooManyRequests, match="of this Framework"):
            await place.answer()
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)
