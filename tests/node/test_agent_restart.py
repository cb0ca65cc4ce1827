"""An agent that starts anew goes on where the last one was: nothing is started twice, and nothing is lost."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from launcher.node.container_runtime import ContainerConfig, RunId
from launcher.store.interface import NODES, PODS, DeleteOptions
from tests.node.world import (
    World,
    a_container,
    a_pod,
    container_status,
    eventually,
    in_virtual_time,
    phase,
    runs,
    state,
    waits,
)


def test_a_container_that_runs_is_found_again_with_its_start_time(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "sleep", "60")))
        async with world.agent():
            await world.when("p", runs())
        await asyncio.sleep(10)
        async with world.agent():
            done = await world.when("p", phase("Succeeded"))

        assert len(world.runtime.orders) == 1
        assert state(done)["terminated"]["startedAt"] == "2026-01-01T00:00:00Z"
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:01:00Z"
        assert world.store.status_writes == 2

    in_virtual_time(scenario, tmp_path)


def test_an_end_that_came_while_nobody_looked_is_told_as_it_was(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "sh", "-c", "sleep 5; exit 9")))
        async with world.agent():
            await world.when("p", runs())
        await asyncio.sleep(100)
        async with world.agent():
            done = await world.when("p", phase("Failed"))

        assert state(done)["terminated"]["exitCode"] == 9
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:05Z"

    in_virtual_time(scenario, tmp_path)


def test_restarts_go_on_counting(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        pod = a_pod("p", a_container("main", "sh", "-c", "sleep 1; exit 1"), restartPolicy="Always")
        await world.create(pod)
        async with world.agent():
            await world.when("p", runs(restarts=2))
        await asyncio.sleep(1000)
        async with world.agent():
            running = await world.when("p", runs(restarts=3))

        assert [order.id.split(".")[2] for order in world.runtime.orders] == ["0", "1", "2", "3"]
        assert container_status(running)["lastState"]["terminated"]["exitCode"] == 1

    in_virtual_time(scenario, tmp_path)


def test_a_start_whose_answer_was_lost_is_not_made_twice(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        world.runtime.answers_lost = 1
        await world.create(a_pod("p", a_container("main", "sleep", "30")))
        async with world.agent():
            done = await world.when("p", phase("Succeeded"))

        assert len(world.runtime.orders) == 1
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:30Z"

    in_virtual_time(scenario, tmp_path)


def test_a_run_that_nobody_knows_any_more_has_ended_unseen(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "sleep", "60")))
        async with world.agent():
            pod = await world.when("p", runs())
        world.runtime.lose(RunId(f"{pod['metadata']['uid']}.main.0"))
        async with world.agent():
            done = await world.when("p", phase("Failed"))

        assert state(done)["terminated"]["reason"] == "ContainerStatusUnknown"
        assert state(done)["terminated"]["exitCode"] == 137

    in_virtual_time(scenario, tmp_path)


def test_runs_of_pods_that_went_meanwhile_are_ended_and_forgotten(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")))
        async with world.agent():
            await world.when("p", runs())
        await world.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
        foreign = RunId("not-a-pods-run")
        await world.runtime.start(ContainerConfig(foreign, "x", ["sleep", "1000"], {}, tmp_path / "log"))
        async with world.agent():
            await eventually(lambda: len(world.runtime.runs()) == 1)

        assert list(world.runtime.runs()) == [foreign]
        assert list((tmp_path / "ends").iterdir()) == []

    in_virtual_time(scenario, tmp_path)


def test_a_deletion_that_came_meanwhile_is_carried_out(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")))
        async with world.agent():
            await world.when("p", runs())
        await world.store.delete(PODS, "default", "p")
        await asyncio.sleep(100)
        began = world.clock()
        async with world.agent():
            await world.gone("p")

        # Its grace was over long ago.
        assert world.clock() - began < 1

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_was_written_off_and_not_let_go_of_is_let_go_of(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "sleep", "1000")))
        async with world.agent():
            await world.when("p", runs())
        await world.store.delete(PODS, "default", "p")
        pod = await world.pod("p")
        await world.store.update_status(PODS, {**pod, "status": {"phase": "Failed"}})
        async with world.agent():
            last = await world.gone("p")
            assert last["status"] == {"phase": "Failed"}
            await eventually(lambda: not world.runtime.runs())

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_vanishes_with_its_node_is_killed_all_the_same(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "sleep", "1000")))
        async with world.agent():
            await world.when("p", runs())
        await world.store.delete(NODES, "", "n1")
        async with world.agent():
            await asyncio.sleep(5)
            assert len(world.runtime.running()) == 1
            await world.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await eventually(lambda: not world.runtime.runs())

    in_virtual_time(scenario, tmp_path)


def test_a_pod_that_was_evicted_stays_so(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        container = a_container(
            "main", "sh", "-c", "trap '' TERM; sleep 900", volumeMounts=[{"name": "v", "mountPath": "/v"}]
        )
        await world.create(a_pod("p", container, volumes=volumes))
        async with world.agent():
            await world.when("p", runs())
            big = world.runtime.orders[0].mounts[0].source / "big"
            big.write_bytes(b"x" * 2_000_000)
            await world.when("p", lambda pod: pod["status"].get("reason") == "Evicted")
        big.unlink()
        async with world.agent():
            done = await world.when("p", phase("Failed"))

        assert done["status"]["reason"] == "Evicted"

    in_virtual_time(scenario, tmp_path)


def test_init_containers_that_are_done_do_not_run_again(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        init = [a_container("a", "sleep", "1")]
        await world.create(a_pod("p", a_container("main", "sleep", "60"), initContainers=init))
        async with world.agent():
            await world.when("p", runs())
        async with world.agent():
            await world.when("p", phase("Succeeded"))

        assert [order.id.split(".")[1] for order in world.runtime.orders] == ["a", "main"]

    in_virtual_time(scenario, tmp_path)


def test_a_pause_between_restarts_goes_on(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await world.create(a_pod("p", a_container("main", "false"), restartPolicy="Always"))
        async with world.agent():
            await world.when("p", waits("CrashLoopBackOff"))
        async with world.agent():
            await asyncio.sleep(5)
            assert len(world.runtime.orders) == 2
            await world.when("p", lambda pod: container_status(pod)["restartCount"] == 2)

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_an_agent_that_is_ended_again_and_again_does_the_same_work(tmp_path: Path, seed: int) -> None:
    """Pods of many kinds, an agent that lives for seconds only, and a store and a runtime that fail now and then."""

    async def scenario(world: World) -> None:
        chance = Random(seed)
        for number in range(10):
            seconds, code = chance.randrange(12), chance.choice((0, 0, 1))
            main = a_container("main", "sh", "-c", f"sleep {seconds}; exit {code}")
            init = [a_container("init", "sleep", str(chance.randrange(4)))]
            policy = chance.choice(("Never", "OnFailure"))
            await world.create(a_pod(f"p{number}", main, restartPolicy=policy, initContainers=init))
        wanted = {pod["metadata"]["name"]: pod for pod in (await world.store.list(PODS)).items}
        world.store.chance = chance
        for _ in range(25):
            async with world.agent():
                await asyncio.sleep(chance.random() * 3)
                world.runtime.broken = chance.randrange(3)
                world.runtime.answers_lost = chance.randrange(2)
        world.runtime.broken = world.runtime.answers_lost = 0
        world.store.chance = None
        async with world.agent():
            for name, pod in wanted.items():
                await world.when(name, lambda pod: _is_settled(pod))
                ids = [
                    order.id for order in world.runtime.orders if order.id.startswith(pod["metadata"]["uid"])
                ]
                assert len(ids) == len(set(ids))
                restarts = [int(run.rpartition(".")[2]) for run in ids if ".main." in run]
                assert restarts == list(range(len(restarts)))
                assert [run for run in ids if ".init." in run] == [f"{pod['metadata']['uid']}.init.0"]

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_pods_that_are_deleted_amid_failures_all_go(tmp_path: Path, seed: int) -> None:
    async def scenario(world: World) -> None:
        chance = Random(seed)
        for number in range(10):
            argv = chance.choice(
                (["sleep", "1000"], ["sh", "-c", "trap '' TERM; sleep 1000"], ["sleep", "3"])
            )
            await world.create(a_pod(f"p{number}", a_container("main", *argv)))
        async with world.agent():
            await asyncio.sleep(chance.random() * 4)
            for number in range(10):
                await world.store.delete(PODS, "default", f"p{number}")
        world.store.chance = chance
        for _ in range(10):
            async with world.agent():
                await asyncio.sleep(chance.random() * 2)
                world.runtime.broken = chance.randrange(4)
        world.store.chance, world.runtime.broken = None, 0
        async with world.agent():
            await eventually(lambda: not world.runtime.runs())
            await asyncio.sleep(1)

        assert (await world.store.list(PODS)).items == []
        assert world.runtime.running() == []

    in_virtual_time(scenario, tmp_path)


def _is_settled(pod: dict[str, object]) -> bool:
    """Whether the pod is over, or has been tried often enough to see that it never will be."""
    status = pod.get("status")
    assert isinstance(status, dict)
    return status["phase"] in ("Succeeded", "Failed") or container_status(pod)["restartCount"] >= 2
