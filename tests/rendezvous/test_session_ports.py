"""Tasks with ``auto`` ports reserve them, and all tasks get them, through any replica of the launcher."""

import asyncio

import pytest

from launcher.core.errors import BadRequest, Conflict
from launcher.rendezvous.peer_files import PeerFiles
from launcher.rendezvous.peer_tracker import PORT_ANNOTATION
from launcher.rendezvous.session import MissingPeers
from launcher.store.interface import PODS, MergePatch
from tests.builders import a_role
from tests.rendezvous.harness import NAMESPACE, WORKER, RendezvousHarness, task_id

AUTO = {"discovery": {"ports": {"worker": "auto"}}}


async def test_all_tasks_get_the_ports_that_tasks_have_chosen(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2), **AUTO)
    for index in range(2):
        await harness.set_address(f"worker/{index}", f"10.0.0.{index}")
    requests = [
        asyncio.create_task(harness.wait_for_peers(f"worker/{index}", port=20000 + index))
        for index in range(2)
    ]

    results = await asyncio.gather(*requests)

    for result in results:
        assert isinstance(result, PeerFiles)
        assert [peer.port for peer in result.peer_list.roles[WORKER]] == [20000, 20001]
    assert (await harness.pod("worker/1"))["metadata"]["annotations"][PORT_ANNOTATION] == "20001"


async def test_a_port_reserved_through_another_replica_is_returned(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=2), **AUTO)
    for index in range(2):
        await harness.set_address(f"worker/{index}", f"10.0.0.{index}")
    request = asyncio.create_task(harness.wait_for_peers("worker/0", port=20000))
    await harness.until_waiting()

    patch = {"metadata": {"annotations": {PORT_ANNOTATION: "20009"}}}
    await harness.store.patch(PODS, NAMESPACE, "mnist-worker-1", MergePatch(patch))
    result = await request

    assert isinstance(result, PeerFiles)
    assert [peer.port for peer in result.peer_list.roles[WORKER]] == [20000, 20009]


async def test_a_pod_keeps_its_first_port(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1), **AUTO)
    await harness.set_address("worker/0", "10.0.0.1")
    await harness.wait_for_peers("worker/0", port=20000)

    result = await harness.wait_for_peers("worker/0", port=20001)

    assert isinstance(result, PeerFiles)
    assert result.peer_list.roles[WORKER][0].port == 20000


async def test_a_port_of_a_node_is_reserved_once(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=3), **AUTO)
    for index, node in enumerate(("n1", "n1", "n2")):
        await harness.set_address(f"worker/{index}", f"10.0.0.{index}", node=node)
    await harness.wait_for_peers("worker/0", port=20000, wait_seconds=0.01)

    with pytest.raises(Conflict, match="port 20000 of node n1 is used by another task"):
        await harness.wait_for_peers("worker/1", port=20000)
    result = await harness.wait_for_peers("worker/2", port=20000, wait_seconds=0.01)
    assert result == MissingPeers((task_id("worker/1"),), 1)


async def test_a_reservation_waits_until_the_pod_is_observed(harness: RendezvousHarness) -> None:
    await harness.submit(a_role(tasks=1), **AUTO)
    request = asyncio.create_task(harness.wait_for_peers("worker/0", port=20000))
    await harness.until_waiting()

    await harness.set_address("worker/0", "10.0.0.1")

    assert isinstance(await request, PeerFiles)


@pytest.mark.parametrize("task", ["", "ps/0"])
async def test_a_port_of_a_task_without_auto_ports_is_rejected(harness: RendezvousHarness, task: str) -> None:
    await harness.submit(a_role(tasks=1), a_role("ps", 1), **AUTO)

    with pytest.raises(BadRequest, match="requires task=ROLE/INDEX of a role with `auto`"):
        await harness.wait_for_peers(task, port=20000)
