"""Tasks that find their ports themselves tell them to all, whichever launcher they ask."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from launcher.core.errors import BadRequest, Conflict
from launcher.rendezvous.peer_files import Files
from launcher.rendezvous.peer_tracker import PORT
from launcher.rendezvous.session import MissingPeers
from launcher.store.interface import PODS, MergePatch
from tests.core.manifests import a_role
from tests.rendezvous.places import PATIENCE, Place, a_place
from tests.rendezvous.world import NAMESPACE, WORKER


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with a_place() as place, asyncio.timeout(PATIENCE):
        yield place


AUTO = {"discovery": {"ports": {"worker": "auto"}}}


async def test_ports_that_tasks_find_are_told_to_all(place: Place) -> None:
    await place.submit(a_role(tasks=2), **AUTO)
    for number in range(2):
        await place.place(f"worker/{number}", f"10.0.0.{number}")
    asking = [
        asyncio.create_task(place.answer(f"worker/{number}", port=20000 + number)) for number in range(2)
    ]

    answers = await asyncio.gather(*asking)

    for answer in answers:
        assert isinstance(answer, Files)
        assert [peer.port for peer in answer.roster.roles[WORKER]] == [20000, 20001]
    assert (await place.pod("worker/1"))["metadata"]["annotations"][PORT] == "20001"


async def test_a_port_that_was_told_to_another_launcher_is_known_here(place: Place) -> None:
    await place.submit(a_role(tasks=2), **AUTO)
    for number in range(2):
        await place.place(f"worker/{number}", f"10.0.0.{number}")
    here = asyncio.create_task(place.answer("worker/0", port=20000))
    await place.waiting()

    note = {"metadata": {"annotations": {PORT: "20009"}}}
    await place.store.patch(PODS, NAMESPACE, "mnist-worker-1", MergePatch(note))
    answer = await here

    assert isinstance(answer, Files)
    assert [peer.port for peer in answer.roster.roles[WORKER]] == [20000, 20009]


async def test_what_a_pod_said_first_holds(place: Place) -> None:
    await place.submit(a_role(tasks=1), **AUTO)
    await place.place("worker/0", "10.0.0.1")
    await place.answer("worker/0", port=20000)

    again = await place.answer("worker/0", port=20001)

    assert isinstance(again, Files)
    assert again.roster.roles[WORKER][0].port == 20000


async def test_a_port_of_the_same_node_is_given_out_once(place: Place) -> None:
    await place.submit(a_role(tasks=3), **AUTO)
    for number, node in enumerate(("n1", "n1", "n2")):
        await place.place(f"worker/{number}", f"10.0.0.{number}", node=node)
    await place.answer("worker/0", port=20000, seconds=0.01)

    with pytest.raises(Conflict, match="port 20000 of node n1 is another task's: take another one"):
        await place.answer("worker/1", port=20000, seconds=PATIENCE)
    assert await place.answer("worker/2", port=20000, seconds=0.01) == MissingPeers(("worker/1",), 1)


async def test_who_tells_his_port_before_his_pod_is_in_sight_is_waited_for(place: Place) -> None:
    await place.submit(a_role(tasks=1), **AUTO)
    asking = asyncio.create_task(place.answer("worker/0", port=20000))
    await place.waiting()

    await place.place("worker/0", "10.0.0.1")

    assert isinstance(await asking, Files)


@pytest.mark.parametrize("task", ["", "ps/0"])
async def test_a_port_of_somebody_whose_port_is_not_asked_for_is_refused(place: Place, task: str) -> None:
    await place.submit(a_role(tasks=1), a_role("ps", 1), **AUTO)

    with pytest.raises(BadRequest, match="only a task of a role with `auto`"):
        await place.answer(task, port=20000)
