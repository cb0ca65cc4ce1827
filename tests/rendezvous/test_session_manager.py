"""Tasks wait for each other's addresses, however many they are, and are told as soon as there is something to tell."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launcher.core.errors import (
    BadRequest,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from launcher.rendezvous.peer_files import Files
from launcher.rendezvous.session import MissingPeers, PeerRequest
from launcher.store.interface import FRAMEWORKS
from tests.api.client import until
from tests.core.manifests import a_pod, a_role
from tests.rendezvous.places import KEY, PATIENCE, Place, a_place
from tests.rendezvous.world import NAMESPACE, PS, WORKER


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with a_place() as place, asyncio.timeout(PATIENCE):
        yield place


async def test_who_asks_waits_until_everybody_is_there(place: Place) -> None:
    await place.submit(a_role(tasks=2))
    await place.place("worker/0", "10.0.0.1")
    asking = asyncio.create_task(place.told())
    await place.waiting()

    await place.create("worker/1")
    await asyncio.sleep(0)
    assert not asking.done()
    await place.place("worker/1", "10.0.0.2")

    assert await asking == {"worker": ["10.0.0.1", "10.0.0.2"]}


async def test_who_comes_late_is_answered_at_once(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    await place.place("worker/0", "10.0.0.1")

    assert await place.told(seconds=0) == {"worker": ["10.0.0.1"]}


async def test_when_the_time_is_up_it_is_told_who_is_missing(place: Place) -> None:
    await place.submit(a_role(tasks=30), a_role("ps", 1))
    await place.place("worker/0", "10.0.0.1")

    found = await place.answer(seconds=0.01)

    assert isinstance(found, MissingPeers)
    assert (found.names[:2], len(found.names), found.count) == (("worker/1", "worker/2"), 20, 30)


async def test_any_number_of_waiters_costs_one_look_and_one_text(place: Place) -> None:
    await place.submit(a_role(tasks=1000))
    asking = [asyncio.create_task(place.answer(f"worker/{n}")) for n in range(1000)]
    await place.waiting(1000)
    for number in range(1000):
        await place.place(f"worker/{number}", f"10.0.0.{number}")

    answers = await asyncio.gather(*asking)

    assert place.store.read["frameworks"] == 1
    assert place.store.followers == 1
    assert len({id(answer) for answer in answers}) == 1
    assert isinstance(answers[0], Files)
    assert len({id(answers[0].pieces("hosts.json", None)[0]) for _ in range(2)}) == 1


async def test_a_task_that_is_retried_is_told_anew_to_those_who_ask_again(place: Place) -> None:
    await place.submit(a_role(tasks=2))
    for number in range(2):
        await place.place(f"worker/{number}", f"10.0.0.{number}")
    first = await place.answer()
    assert isinstance(first, Files)
    asking = asyncio.create_task(place.answer("worker/0", after=first.roster.generation))
    await place.waiting()

    await place.remove("worker/1")
    await place.place("worker/1", "10.0.0.9", task_attempt=1)
    second = await asking

    assert isinstance(second, Files)
    assert second.roster.generation > first.roster.generation
    assert [peer.ip for peer in second.roster.roles[WORKER]] == ["10.0.0.0", "10.0.0.9"]


async def test_who_knows_the_newest_waits_for_a_newer_one(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    await place.place("worker/0", "10.0.0.1")
    first = await place.answer()
    assert isinstance(first, Files)

    assert await place.answer(seconds=0.01, after=first.roster.generation) == MissingPeers((), 0)


async def test_while_a_pod_is_replaced_nobody_is_told_its_old_address(place: Place) -> None:
    await place.submit(a_role(tasks=2))
    for number in range(2):
        await place.place(f"worker/{number}", f"10.0.0.{number}")
    await place.told()
    await place.remove("worker/1")
    await place.create("worker/1", task_attempt=1)
    await place.heard()

    assert await place.answer(seconds=0.01) == MissingPeers(("worker/1",), 1)


async def test_tasks_that_a_rescale_adds_are_waited_for(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    await place.place("worker/0", "10.0.0.1")
    first = await place.answer()
    assert isinstance(first, Files)
    asking = asyncio.create_task(place.told(after=first.roster.generation))
    await place.waiting()

    await place.edit(lambda spec: spec["taskRoles"][0].update(taskNumber=2))
    await place.status(rescales=1)
    await place.place("worker/1", "10.0.0.2")

    assert await asking == {"worker": ["10.0.0.1", "10.0.0.2"]}


async def test_tasks_that_a_rescale_takes_away_are_not(place: Place) -> None:
    await place.submit(a_role(tasks=2))
    await place.place("worker/0", "10.0.0.1")
    await place.create("worker/1")
    asking = asyncio.create_task(place.told())
    await place.waiting()

    await place.edit(lambda spec: spec["taskRoles"][0].update(taskNumber=1))
    await place.status(rescales=1)
    await place.remove("worker/1")

    assert await asking == {"worker": ["10.0.0.1"]}


async def test_nobody_waits_for_those_who_wait_for_him(place: Place) -> None:
    await place.submit(a_role("ps", 1), a_role("worker", 1, startAfter=[{"role": "ps"}]))
    await place.place("ps/0", "10.0.0.1")

    assert await place.told("ps/0") == {"ps": ["10.0.0.1"]}
    later = asyncio.create_task(place.told("worker/0"))
    await place.waiting()
    await place.place("worker/0", "10.0.0.2")

    assert await later == {"ps": ["10.0.0.1"], "worker": ["10.0.0.2"]}


async def test_a_framework_that_there_is_not_is_not_found(place: Place) -> None:
    with pytest.raises(NotFound, match=r'frameworks\.launcher\.microsoft\.com "mnist" not found'):
        await place.rooms.answer(KEY, PeerRequest("uid", 0), PATIENCE)


async def test_who_waits_for_a_framework_that_is_deleted_hears_so(place: Place) -> None:
    await place.submit(a_role(tasks=2))
    await place.place("worker/0", "10.0.0.1")
    asking = asyncio.create_task(place.answer())
    await place.waiting()

    await place.store.delete(FRAMEWORKS, *KEY)
    await place.remove("worker/0")

    with pytest.raises(NotFound):
        await asking


async def test_one_made_anew_under_the_same_name_is_another(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    old = place.ask()
    await place.place("worker/0", "10.0.0.1")
    await place.told()
    await place.store.delete(FRAMEWORKS, *KEY)
    await place.remove("worker/0")
    await place.submit(a_role(tasks=1))
    await place.place("worker/0", "10.0.0.2")

    assert await place.told() == {"worker": ["10.0.0.2"]}
    with pytest.raises(NotFound):
        await place.rooms.answer(KEY, old, PATIENCE)


async def test_an_attempt_that_is_over_tells_nobody_anything(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    await place.status(attempt=2)
    await place.place("worker/0", "10.0.0.1", attempt=2)

    with pytest.raises(Forbidden, match="attempt 1 of this Framework is over"):
        await place.answer(attempt=1)
    assert await place.told(attempt=2) == {"worker": ["10.0.0.1"]}


async def test_who_waits_hears_that_the_attempt_is_over(place: Place) -> None:
    await place.submit(a_role(tasks=2))
    await place.place("worker/0", "10.0.0.1")
    asking = asyncio.create_task(place.answer())
    await place.waiting()

    await place.status("AttemptDeletionPending")
    await place.remove("worker/0")

    with pytest.raises(Forbidden, match="attempt 0 of this Framework is over"):
        await asking


async def test_a_new_attempt_is_heard_of_by_who_comes_from_it(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    await place.place("worker/0", "10.0.0.1")
    await place.told()

    await place.remove("worker/0")
    await place.status(attempt=1)
    await place.place("worker/0", "10.0.0.2", attempt=1)

    assert await place.told(attempt=1) == {"worker": ["10.0.0.2"]}


async def test_an_attempt_that_has_not_begun_is_asked_for_later(place: Place) -> None:
    await place.submit(a_role(tasks=1))

    with pytest.raises(Unavailable, match="attempt 5 has not begun yet"):
        await place.answer(attempt=5)


async def test_a_role_that_there_is_not_is_said_to_be_none(place: Place) -> None:
    await place.submit(a_role(tasks=1))

    with pytest.raises(BadRequest, match="there is no role boss"):
        await place.answer("boss/0")


async def test_when_the_launcher_ends_everybody_hears_so_at_once(place: Place) -> None:
    await place.submit(a_role(tasks=2), discovery={"ports": {"worker": "auto"}})
    asking = [
        asyncio.create_task(place.answer()),
        asyncio.create_task(place.answer("worker/1", port=20000)),
    ]
    await place.waiting(2)

    place.rooms.close()

    for each in asking:
        with pytest.raises(Unavailable, match="about to stop"):
            await each
    with pytest.raises(Unavailable, match="about to stop"):
        await place.answer()


async def test_more_than_there_is_room_for_are_sent_away_for_a_while() -> None:
    async with a_place(waiters=2) as place, asyncio.timeout(PATIENCE):
        await place.submit(a_role(tasks=1))
        asking = [asyncio.create_task(place.answer()) for _ in range(2)]
        await place.waiting(2)

        with pytest.raises(TooManyRequests):
            await place.answer()
        await place.place("worker/0", "10.0.0.1")
        await asyncio.gather(*asking)


async def test_so_are_frameworks() -> None:
    async with a_place(rooms=1) as place, asyncio.timeout(PATIENCE):
        await place.submit(a_role(tasks=1))
        asking = asyncio.create_task(place.answer())
        await place.waiting()

        with pytest.raises(TooManyRequests):
            await place.rooms.answer((NAMESPACE, "another"), PeerRequest("uid", 0), PATIENCE)
        await place.place("worker/0", "10.0.0.1")
        await asking


async def test_nothing_is_followed_when_nobody_has_waited_for_a_while() -> None:
    async with a_place(linger=0.01) as place, asyncio.timeout(PATIENCE):
        await place.submit(a_role(tasks=1))
        await place.place("worker/0", "10.0.0.1")
        await place.told()

        await until(lambda: place.store.followers == 0)

        assert await place.told() == {"worker": ["10.0.0.1"]}


async def test_who_goes_is_not_waited_for(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    asking = asyncio.create_task(place.answer())
    await place.waiting()

    asking.cancel()
    await asyncio.wait([asking])

    assert place.rooms.waiters == 0


async def test_framework_json_is_read_once_for_all(place: Place) -> None:
    await place.submit(a_role(tasks=1))
    await place.place("worker/0", "10.0.0.1")
    room, files = await place.rooms.answer(KEY, place.ask(), PATIENCE)
    assert isinstance(files, Files)
    before = place.store.read["frameworks"]

    texts = [await room.framework(files) for _ in range(3)]

    assert len({id(each) for each in texts}) == 1
    assert place.store.read["frameworks"] == before + 1


async def test_a_store_that_is_away_is_asked_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    await place.submit(a_role(tasks=1, pod=a_pod()), a_role("ps", 1))
    await place.place("worker/0", "10.0.0.1")
    await place.place("ps/0", "10.0.0.2")
    get, refusals = place.store.get, [Unavailable("away"), Forbidden("no right yet")]

    async def unsteady(*where: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return await get(*where)

    monkeypatch.setattr(place.store, "get", unsteady)

    assert await place.told() == {WORKER: ["10.0.0.1"], PS: ["10.0.0.2"]}
