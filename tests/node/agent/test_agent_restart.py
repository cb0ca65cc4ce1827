"""A restarted agent continues where the last one stopped, without starting anything twice."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from launcher.node.container_runtime import ContainerConfig, RunId
from launcher.store.interface import NODES, PODS, DeleteOptions
from tests.eventually import eventually
from tests.node.harness import (
    NodeAgentHarness,
    a_container,
    a_pod,
    container_status,
    in_virtual_time,
    phase,
    runs,
    state,
    waits,
)


def test_a_running_container_is_recovered_with_its_start_time(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "sleep", "60")))
        async with harness.agent():
            await harness.when("p", runs())
        await asyncio.sleep(10)
        async with harness.agent():
            done = await harness.when("p", phase("Succeeded"))

        assert len(harness.runtime.configs) == 1
        assert state(done)["terminated"]["startedAt"] == "2026-01-01T00:00:00Z"
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:01:00Z"
        assert harness.store.status_writes == 2

    in_virtual_time(scenario, tmp_path)


def test_an_exit_without_an_agent_is_reported_by_the_next_one(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "sh", "-c", "sleep 5; exit 9")))
        async with harness.agent():
            await harness.when("p", runs())
        await asyncio.sleep(100)
        async with harness.agent():
            done = await harness.when("p", phase("Failed"))

        assert state(done)["terminated"]["exitCode"] == 9
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:05Z"

    in_virtual_time(scenario, tmp_path)


def test_the_restart_count_continues_after_an_agent_restart(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        pod = a_pod("p", a_container("main", "sh", "-c", "sleep 1; exit 1"), restartPolicy="Always")
        await harness.create(pod)
        async with harness.agent():
            await harness.when("p", runs(restarts=2))
        await asyncio.sleep(1000)
        async with harness.agent():
            running = await harness.when("p", runs(restarts=3))

        assert [order.id.split(".")[2] for order in harness.runtime.configs] == ["0", "1", "2", "3"]
        assert container_status(running)["lastState"]["terminated"]["exitCode"] == 1

    in_virtual_time(scenario, tmp_path)


def test_a_start_whose_response_was_lost_is_not_repeated(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.runtime.lost_responses = 1
        await harness.create(a_pod("p", a_container("main", "sleep", "30")))
        async with harness.agent():
            done = await harness.when("p", phase("Succeeded"))

        assert len(harness.runtime.configs) == 1
        assert state(done)["terminated"]["finishedAt"] == "2026-01-01T00:00:30Z"

    in_virtual_time(scenario, tmp_path)


def test_a_run_that_no_longer_exists_has_status_unknown(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "sleep", "60")))
        async with harness.agent():
            pod = await harness.when("p", runs())
        harness.runtime.lose(RunId(f"{pod['metadata']['uid']}.main.0"))
        async with harness.agent():
            done = await harness.when("p", phase("Failed"))

        assert state(done)["terminated"]["reason"] == "ContainerStatusUnknown"
        assert state(done)["terminated"]["exitCode"] == 137

    in_virtual_time(scenario, tmp_path)


def test_runs_of_deleted_pods_are_killed_and_removed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")))
        async with harness.agent():
            await harness.when("p", runs())
        await harness.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
        foreign = RunId("not-a-pods-run")
        await harness.runtime.start_container(
            ContainerConfig(foreign, "x", ["sleep", "1000"], {}, tmp_path / "log")
        )
        async with harness.agent():
            await eventually(lambda: len(harness.runtime.list_containers()) == 1)

        assert list(harness.runtime.list_containers()) == [foreign]
        assert list((tmp_path / "ends").iterdir()) == []

    in_virtual_time(scenario, tmp_path)


def test_a_deletion_without_an_agent_is_completed_by_the_next_one(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "sh", "-c", "trap '' TERM; sleep 1000")))
        async with harness.agent():
            await harness.when("p", runs())
        await harness.store.delete(PODS, "default", "p")
        await asyncio.sleep(100)
        began = harness.clock()
        async with harness.agent():
            await harness.wait_until_deleted("p")

        # Its grace period ended long ago.
        assert harness.clock() - began < 1

    in_virtual_time(scenario, tmp_path)


def test_a_deleted_pod_with_a_final_status_is_removed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "sleep", "1000")))
        async with harness.agent():
            await harness.when("p", runs())
        await harness.store.delete(PODS, "default", "p")
        pod = await harness.pod("p")
        await harness.store.update_status(PODS, {**pod, "status": {"phase": "Failed"}})
        async with harness.agent():
            last = await harness.wait_until_deleted("p")
            assert last["status"] == {"phase": "Failed"}
            await eventually(lambda: not harness.runtime.list_containers())

    in_virtual_time(scenario, tmp_path)


def test_a_deleted_pod_is_killed_even_if_its_node_is_deleted(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "sleep", "1000")))
        async with harness.agent():
            await harness.when("p", runs())
        await harness.store.delete(NODES, "", "n1")
        async with harness.agent():
            await asyncio.sleep(5)
            assert len(harness.runtime.running()) == 1
            await harness.store.delete(PODS, "default", "p", DeleteOptions(grace=0))
            await eventually(lambda: not harness.runtime.list_containers())

    in_virtual_time(scenario, tmp_path)


def test_an_evicted_pod_stays_evicted(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        volumes = [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}]
        container = a_container(
            "main", "sh", "-c", "trap '' TERM; sleep 900", volumeMounts=[{"name": "v", "mountPath": "/v"}]
        )
        await harness.create(a_pod("p", container, volumes=volumes))
        async with harness.agent():
            await harness.when("p", runs())
            big = harness.runtime.configs[0].mounts[0].source / "big"
            big.write_bytes(b"x" * 2_000_000)
            await harness.when("p", lambda pod: pod["status"].get("reason") == "Evicted")
        big.unlink()
        async with harness.agent():
            done = await harness.when("p", phase("Failed"))

        assert done["status"]["reason"] == "Evicted"

    in_virtual_time(scenario, tmp_path)


def test_completed_init_containers_are_not_restarted(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        init = [a_container("a", "sleep", "1")]
        await harness.create(a_pod("p", a_container("main", "sleep", "60"), initContainers=init))
        async with harness.agent():
            await harness.when("p", runs())
        async with harness.agent():
            await harness.when("p", phase("Succeeded"))

        assert [order.id.split(".")[1] for order in harness.runtime.configs] == ["a", "main"]

    in_virtual_time(scenario, tmp_path)


def test_the_restart_backoff_continues_after_an_agent_restart(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        await harness.create(a_pod("p", a_container("main", "false"), restartPolicy="Always"))
        async with harness.agent():
            await harness.when("p", waits("CrashLoopBackOff"))
        async with harness.agent():
            await asyncio.sleep(5)
            assert len(harness.runtime.configs) == 2
            await harness.when("p", lambda pod: container_status(pod)["restartCount"] == 2)

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_a_repeatedly_stopped_agent_runs_every_pod_to_the_same_end(tmp_path: Path, seed: int) -> None:
    """Various pods, an agent that is restarted every few seconds, and a store and a runtime that fail randomly."""

    async def scenario(harness: NodeAgentHarness) -> None:
        generator = Random(seed)
        for number in range(10):
            seconds, code = generator.randrange(12), generator.choice((0, 0, 1))
            main = a_container("main", "sh", "-c", f"sleep {seconds}; exit {code}")
            init = [a_container("init", "sleep", str(generator.randrange(4)))]
            policy = generator.choice(("Never", "OnFailure"))
            await harness.create(a_pod(f"p{number}", main, restartPolicy=policy, initContainers=init))
        pods = {pod["metadata"]["name"]: pod for pod in (await harness.store.list(PODS)).items}
        harness.store.random = generator
        for _ in range(25):
            async with harness.agent():
                await asyncio.sleep(generator.random() * 3)
                harness.runtime.failing_calls = generator.randrange(3)
                harness.runtime.lost_responses = generator.randrange(2)
        harness.runtime.failing_calls = harness.runtime.lost_responses = 0
        harness.store.random = None
        async with harness.agent():
            for name, pod in pods.items():
                await harness.when(name, lambda pod: _is_final(pod))
                ids = [
                    order.id
                    for order in harness.runtime.configs
                    if order.id.startswith(pod["metadata"]["uid"])
                ]
                assert len(ids) == len(set(ids))
                restarts = [int(run.rpartition(".")[2]) for run in ids if ".main." in run]
                assert restarts == list(range(len(restarts)))
                assert [run for run in ids if ".init." in run] == [f"{pod['metadata']['uid']}.init.0"]

    in_virtual_time(scenario, tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_deleted_pods_are_removed_despite_failing_calls(tmp_path: Path, seed: int) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        generator = Random(seed)
        for number in range(10):
            argv = generator.choice(
                (["sleep", "1000"], ["sh", "-c", "trap '' TERM; sleep 1000"], ["sleep", "3"])
            )
            await harness.create(a_pod(f"p{number}", a_container("main", *argv)))
        async with harness.agent():
            await asyncio.sleep(generator.random() * 4)
            for number in range(10):
                await harness.store.delete(PODS, "default", f"p{number}")
        harness.store.random = generator
        for _ in range(10):
            async with harness.agent():
                await asyncio.sleep(generator.random() * 2)
                harness.runtime.failing_calls = generator.randrange(4)
        harness.store.random, harness.runtime.failing_calls = None, 0
        async with harness.agent():
            await eventually(lambda: not harness.runtime.list_containers())
            await asyncio.sleep(1)

        assert (await harness.store.list(PODS)).items == []
        assert harness.runtime.running() == []

    in_virtual_time(scenario, tmp_path)


def _is_final(pod: dict[str, object]) -> bool:
    """Whether the pod has terminated, or was restarted often enough to show that it never will."""
    status = pod.get("status")
    assert isinstance(status, dict)
    return status["phase"] in ("Succeeded", "Failed") or container_status(pod)["restartCount"] >= 2
