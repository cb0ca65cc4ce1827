"""The allocation of GPUs to pods, over restarts of containers and of the agent."""

from pathlib import Path
from typing import Any

import pytest

from launcher.core.errors import Unavailable
from launcher.node.agent.device_manager import DeviceManager
from launcher.node.container_runtime import ContainerConfig
from launcher.store.interface import PODS, DeleteOptions, Object, ResourceKind
from tests.eventually import eventually
from tests.node.harness import (
    NODE,
    NodeAgentHarness,
    a_container,
    a_pod,
    container_status,
    in_virtual_time,
    phase,
    runs,
    state,
)

SLEEP = ("sleep", "1000")


def a_gpu_pod(name: str, *argv: str, gpus: int = 1, **spec: Any) -> Object:
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    return a_pod(name, a_container("main", *(argv or SLEEP), resources=resources), **spec)


def a_stored_pod(uid: str, gpus: int = 1) -> Object:
    pod = a_gpu_pod(uid, gpus=gpus)
    pod["metadata"]["uid"] = uid
    return pod


def visible(config: ContainerConfig) -> str:
    return config.environment["CUDA_VISIBLE_DEVICES"]


def devices_of(pod: Object, container: str = "main") -> list[str]:
    """The GPUs in the status."""
    (resource,) = container_status(pod, container)["allocatedResourcesStatus"]
    assert resource["name"] == "nvidia.com/gpu"
    return [device["resourceID"] for device in resource["resources"]]


def test_no_gpu_is_allocated_to_two_pods(tmp_path: Path) -> None:
    manager = DeviceManager(tmp_path / "devices", {NODE: ["0", "1", "2"]})

    assert manager.allocate(a_stored_pod("a", 2)) == {"main": ["0", "1"]}
    assert manager.allocate(a_stored_pod("b")) == {"main": ["2"]}
    with pytest.raises(Unavailable, match="node n1 has 0 free"):
        manager.allocate(a_stored_pod("c"))
    assert manager.release("a") == {"main": ["0", "1"]}
    assert manager.release("a") == {}
    assert manager.allocate(a_stored_pod("c")) == {"main": ["0"]}


def test_allocations_are_found_again_also_on_a_smaller_node(tmp_path: Path) -> None:
    DeviceManager(tmp_path, {NODE: ["0", "1"]}).allocate(a_stored_pod("a"))
    (tmp_path / "broken.json").write_text("{")

    again = DeviceManager(tmp_path, {NODE: ["0"]})

    assert again.pod_uids() == ["a"]
    assert again.allocate(a_stored_pod("a")) == {"main": ["0"]}
    with pytest.raises(Unavailable):
        again.allocate(a_stored_pod("b"))


def test_an_allocation_that_cannot_be_written_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    manager = DeviceManager(tmp_path / "file", {NODE: ["0"]})

    with pytest.raises(Unavailable, match="cannot be written"):
        manager.allocate(a_stored_pod("a"))

    assert manager.allocated("a") == {}


def test_containers_have_different_gpus_and_the_status_shows_them(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.gpus = ("0", "1", "2", "3")
        await harness.create(a_gpu_pod("a", gpus=2))
        await harness.create(a_gpu_pod("b"))
        await harness.create(a_pod("c", a_container("main", *SLEEP)))
        async with harness.agent():
            pods = [await harness.when(name, runs()) for name in ("a", "b", "c")]
            events = await harness.events("DevicesAllocated")

        assert sorted(map(visible, harness.runtime.configs)) == ["", "0,1", "2"]
        assert [devices_of(pod) for pod in pods[:2]] == [["0", "1"], ["2"]]
        assert "allocatedResourcesStatus" not in container_status(pods[2])
        assert "Allocated nvidia.com/gpu 0,1 to container main" in events

    in_virtual_time(scenario, tmp_path)


def test_a_container_keeps_its_gpus_over_restarts_of_itself_and_of_the_agent(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.gpus = ("0", "1")
        first = await harness.create(a_gpu_pod("first"))
        pod = a_gpu_pod("p", "sh", "-c", "sleep 100; exit 1", restartPolicy="Always")
        async with harness.agent():
            await harness.when("first", runs())
            await harness.create(pod)
            await harness.when("p", runs(restarts=1))
        await harness.store.delete(PODS, "default", "first", DeleteOptions(grace=0))
        async with harness.agent():
            await harness.when("p", runs(restarts=2))
            await eventually(lambda: not (tmp_path / "devices" / f"{first['metadata']['uid']}.json").exists())
            await harness.create(a_gpu_pod("next"))
            await harness.when("next", runs())

        assert list(map(visible, harness.runtime.configs)) == ["0", "1", "1", "1", "0"]

    in_virtual_time(scenario, tmp_path)


def test_gpus_are_released_before_the_pods_final_status_which_shows_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        files: list[list[Path]] = []
        update_status = harness.store.update_status

        async def recorded(kind: ResourceKind, obj: Object, **options: Any) -> Object:
            if phase("Succeeded")(obj):
                files.append(list((tmp_path / "devices").iterdir()))
            return await update_status(kind, obj, **options)

        monkeypatch.setattr(harness.store, "update_status", recorded)
        harness.gpus = ("0",)
        await harness.create(a_gpu_pod("a", "true"))
        async with harness.agent():
            done = await harness.when("a", phase("Succeeded"))

        assert files == [[]]
        assert devices_of(done) == ["0"]

    in_virtual_time(scenario, tmp_path)


def test_a_pod_waits_until_a_deleted_one_has_ended(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.gpus, harness.runtime.kill_seconds = ("0",), 20.0
        await harness.create(a_gpu_pod("a"))
        async with harness.agent():
            await harness.when("a", runs())
            await harness.store.delete(PODS, "default", "a", DeleteOptions(grace=0))
            began = harness.clock()
            await harness.create(a_gpu_pod("b"))
            waiting = await harness.when(
                "b", lambda pod: bool(pod.get("status", {}).get("containerStatuses"))
            )
            await harness.when("b", runs())

        assert "node n1 has 0 free nvidia.com/gpu" in state(waiting)["waiting"]["message"]
        assert harness.clock() - began >= 20

    in_virtual_time(scenario, tmp_path)


def test_a_run_left_by_the_last_agent_keeps_its_gpu_until_it_is_killed(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.gpus, harness.runtime.kill_seconds = ("0",), 20.0
        await harness.create(a_gpu_pod("a"))
        async with harness.agent():
            await harness.when("a", runs())
        await harness.store.delete(PODS, "default", "a", DeleteOptions(grace=0))
        await harness.create(a_gpu_pod("b"))
        began = harness.clock()
        async with harness.agent():
            await harness.when("b", runs())

        assert harness.clock() - began >= 20
        assert len(list((tmp_path / "devices").iterdir())) == 1

    in_virtual_time(scenario, tmp_path)


def test_a_variable_of_the_spec_that_selects_other_gpus_is_reported(tmp_path: Path) -> None:
    async def scenario(harness: NodeAgentHarness) -> None:
        harness.gpus = ("0",)
        pod = a_gpu_pod("a")
        pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        await harness.create(pod)
        async with harness.agent():
            await harness.when("a", runs())
            (message,) = await harness.events("NotSupported")

        assert "env NVIDIA_VISIBLE_DEVICES is ignored" in message
        assert harness.runtime.configs[0].environment["NVIDIA_VISIBLE_DEVICES"] == "0"

    in_virtual_time(scenario, tmp_path)
