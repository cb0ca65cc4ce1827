"""The nodes of local mode: how they are written, what this machine is, and the Node objects."""

import asyncio
import ipaddress
import os
from pathlib import Path

import pytest

from launcher.core.validation.names import name_error
from launcher.node import machine
from launcher.node.node_spec import NodeRegistration, NodeSpec, parse, parse_nodes, this_machine
from launcher.scheduling.cluster_state import Taint
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import NODES, MergePatch, Object
from tests.controller.simulation import virtual_time
from tests.eventually import eventually
from tests.node.clusters import a_store, quiet, running
from tests.scheduling.builders import a_spec


def test_a_node_is_parsed_from_its_name_and_parts() -> None:
    text = (
        "gpu-1,ip=127.0.0.9,zone=a,cpu=8,memory=16Gi,ephemeral-storage=1Gi,pods=50,nvidia.com/gpu=4,"
        "taint=team=ml:NoSchedule,taint=slow:PreferNoSchedule"
    )

    assert parse(text) == NodeSpec(
        name="gpu-1",
        address="127.0.0.9",
        labels={"zone": "a"},
        capacity={
            "cpu": "8",
            "memory": "16Gi",
            "ephemeral-storage": "1Gi",
            "pods": "50",
            "nvidia.com/gpu": "4",
        },
        taints=(Taint("team", "ml", "NoSchedule"), Taint("slow", "", "PreferNoSchedule")),
    )


@pytest.mark.parametrize(
    ("part", "resource"),
    [
        pytest.param("cpu=500m", True, id="cpu"),
        pytest.param("hugepages-2Mi=1Gi", True, id="huge pages"),
        pytest.param("amd.com/gpu=2", True, id="a domain and a whole number"),
        pytest.param("example.com/rack=r12", False, id="a domain and a word"),
        pytest.param("topology.kubernetes.io/zone=1", False, id="Kubernetes' own domain"),
        pytest.param("k8s.io/rank=1", False, id="Kubernetes' other domain"),
        pytest.param("rack=12", False, id="no domain"),
        pytest.param("label:example.com/rack=12", False, id="marked as a label"),
        pytest.param("label:cpu=fast", False, id="a reserved word marked as a label"),
    ],
)
def test_parts_are_resources_or_labels(part: str, resource: bool) -> None:
    spec = parse(f"n,{part}")
    key, _, value = part.removeprefix("label:").partition("=")

    assert (spec.capacity if resource else spec.labels) == {key: value}
    assert (spec.labels if resource else spec.capacity) == {}


@pytest.mark.parametrize(
    ("part", "meant"),
    [
        ("gpu=4", "nvidia.com/gpu=4"),
        ("GPUs=4", "nvidia.com/gpu=4"),
        ("CPU=8", "cpu=8"),
        ("ram=4Gi", "memory=4Gi"),
    ],
)
def test_a_number_with_an_alias_of_a_resource_is_rejected(part: str, meant: str) -> None:
    with pytest.raises(
        ValueError, match=f"{part!r} is not a resource; write {meant}, or label:{part} for a label"
    ):
        parse(f"gpu0,{part}")
    assert parse(f"gpu0,label:{part}").labels == dict([part.split("=")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "must begin with the node's name", id="nothing"),
        pytest.param("cpu=4", "must begin with the node's name", id="no name"),
        pytest.param("Big_One", "'Big_One' is not a valid node name: must consist", id="a bad name"),
        pytest.param("n,fast", "node n: 'fast' must be written KEY=VALUE", id="no value"),
        pytest.param(
            "n,ip=localhost", "node n: ip=localhost: write an address such as 127.0.0.2", id="no address"
        ),
        pytest.param("n,cpu=lots", "node n: cpu: 'lots' is not a quantity", id="no amount"),
        pytest.param("n,cpu=-1", "node n: cpu=-1: must not be negative", id="a negative amount"),
        pytest.param("n,cpu=1,cpu=2", "node n: cpu is set twice", id="twice"),
        pytest.param("n,ip=127.0.0.2,ip=127.0.0.3", "node n: ip is set twice", id="two addresses"),
        pytest.param("n,zone=a b", "node n: label zone=a b: must consist", id="a bad value"),
        pytest.param("n,-zone=a", "node n: label -zone=a: name must consist", id="a bad key"),
        pytest.param("n,taint=a", "write taint=KEY=VALUE:EFFECT or taint=KEY:EFFECT", id="no effect"),
        pytest.param("n,taint=a=b:Never", "the effect must be one of NoSchedule", id="no such effect"),
        pytest.param("n,taint=-a:NoSchedule", "node n: taint=-a:NoSchedule: name must", id="a bad taint"),
    ],
)
def test_an_invalid_part_is_rejected_with_a_correction(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        parse(text)


def test_nodes_without_an_address_get_unused_loopback_addresses() -> None:
    specs = parse_nodes(["a", "b,ip=127.0.0.3", "c"])

    assert [spec.address for spec in specs] == ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


def test_capacity_defaults_to_that_of_this_machine() -> None:
    here = this_machine().capacity
    (spec,) = parse_nodes(["a,cpu=64"])

    assert spec.capacity == {"cpu": "64", "memory": here["memory"], "pods": "110"}


@pytest.mark.parametrize(
    ("texts", "message"), [(["a", "a"], "name 'a'"), (["a,ip=127.0.0.2", "b,ip=127.0.0.2"], "ip '127.0.0.2'")]
)
def test_two_nodes_with_one_name_or_address_are_rejected(texts: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=f"{message} is used by two nodes"):
        parse_nodes(texts)


# This machine


def test_this_machine_is_a_node_with_its_name_address_and_resources() -> None:
    spec = this_machine()

    assert name_error(spec.name) is None
    assert not ipaddress.ip_address(spec.address).is_unspecified
    assert 0 < float(machine.cpus()) <= len(os.sched_getaffinity(0))
    assert spec.capacity["memory"].endswith("Ki")


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Alices_Laptop.local", "alices-laptop.local"),
        ("a..b-", "a.b"),
        ("---", "localhost"),
        ("x" * 80, "x" * 63),
    ],
)
def test_a_host_name_is_converted_to_a_valid_node_name(host: str, name: str) -> None:
    assert machine.valid_name(host) == name


def files(root: Path, **contents: str) -> Path:
    """A directory tree with these files; ``__`` in a name is a slash."""
    for name, text in contents.items():
        path = root / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_limits_of_all_ancestor_cgroups_count(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        proc__self__cgroup="0::/outer/inner\n",
        proc__meminfo="MemTotal:       16384 kB\nMemFree: 1 kB\n",
        sys__fs__cgroup__outer__cpuDOTmax="5000 100000\n",
        sys__fs__cgroup__outer__inner__cpuDOTmax="max 100000\n",
        sys__fs__cgroup__outer__memoryDOTmax="max\n",
        sys__fs__cgroup__outer__inner__memoryDOTmax="1048576\n",
    )

    assert machine.cpus(root) == 0.05
    assert machine.memory(root) == 1048576


def test_without_cgroups_the_capacity_is_that_of_the_machine(tmp_path: Path) -> None:
    root = files(tmp_path, proc__meminfo="MemTotal:       16384 kB\n")

    assert machine.cpus(root) == len(os.sched_getaffinity(0))
    assert machine.memory(root) == 16384 * 1024


def test_gpus_are_counted_from_the_driver_and_the_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    devices = files(tmp_path / "a", dev__nvidia0="", dev__nvidia1="", dev__nvidiactl="")
    listed = files(tmp_path / "b", proc__driver__nvidia__gpus__x__info="", dev__nvidia0="", dev__nvidia1="")
    container = files(
        tmp_path / "c",
        proc__driver__nvidia__gpus__x__info="",
        proc__driver__nvidia__gpus__y__info="",
        dev__nvidia1="",
    )

    assert machine.gpus(devices) == 2
    assert machine.gpus(listed) == 1
    assert machine.gpus(container) == 1
    assert machine.gpus(tmp_path) == 0


@pytest.mark.parametrize(
    ("script", "gpus"),
    [
        pytest.param(
            "echo 'GPU 0: A100 (UUID: GPU-a)'; echo '  MIG 1g.5gb Device 0: x'; echo 'GPU 1: A100 (UUID: GPU-b)'",
            2,
            id="MIG instances are not counted",
        ),
        pytest.param("echo 'GPU 0: A100'; exit 9", 0, id="it fails"),
        pytest.param("echo 'No devices found'", 0, id="it finds none"),
    ],
)
def test_without_device_files_gpus_are_counted_by_nvidia_smi(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, gpus: int
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n[ "$1" = -L ] || exit 2\n{script}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))

    assert machine.gpus(tmp_path) == gpus


def test_gpus_are_not_detected_for_configured_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: 8)

    assert "nvidia.com/gpu" not in parse_nodes(["cpu0"])[0].capacity
    assert this_machine().capacity["nvidia.com/gpu"] == "8"


# The Node objects


async def nodes(store: MemoryStore) -> dict[str, Object]:
    return {node["metadata"]["name"]: node for node in (await store.list(NODES)).items}


async def test_configured_nodes_are_registered_like_by_a_kubelet() -> None:
    store = a_store()
    spec = parse("n1,ip=127.0.0.5,zone=a,cpu=2,memory=1Gi,nvidia.com/gpu=1,taint=k=v:NoSchedule")

    async with running(NodeRegistration(store, [spec], lambda: 0.0, "process://1")):
        await eventually(lambda: _is_there(store, "n1"))
        node = (await nodes(store))["n1"]

    amounts = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert node["metadata"]["labels"] == {
        "kubernetes.io/arch": machine.info()["architecture"],
        "kubernetes.io/hostname": "n1",
        "kubernetes.io/os": "linux",
        "zone": "a",
    }
    assert node["spec"] == {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    assert node["status"]["capacity"] == node["status"]["allocatable"] == amounts
    assert node["status"]["addresses"] == [
        {"type": "InternalIP", "address": "127.0.0.5"},
        {"type": "Hostname", "address": "n1"},
    ]
    (ready,) = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["lastHeartbeatTime"]) == ("True", "1970-01-01T00:00:00Z")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "process://1"
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


async def _is_there(store: MemoryStore, name: str) -> bool:
    return name in await nodes(store)


async def test_nodes_follow_the_configuration_after_a_restart() -> None:
    store = a_store()
    async with running(
        NodeRegistration(store, [a_spec("old"), a_spec("same", cpu="1")], lambda: 0.0, "process://1")
    ):
        await quiet(store)

    async with running(
        NodeRegistration(store, [a_spec("same", cpu="2"), a_spec("new")], lambda: 60.0, "process://1")
    ):
        await quiet(store)
        found = await nodes(store)

    assert sorted(found) == ["new", "same"]
    assert found["same"]["status"]["allocatable"]["cpu"] == "2"
    ready = found["same"]["status"]["conditions"][-1]
    assert (ready["lastTransitionTime"], ready["lastHeartbeatTime"]) == (
        "1970-01-01T00:00:00Z",
        "1970-01-01T00:01:00Z",
    )


async def test_a_cordoned_node_stays_cordoned() -> None:
    store = a_store()
    async with running(NodeRegistration(store, [a_spec("n1")], lambda: 0.0, "process://1")):
        await quiet(store)
        await store.patch(NODES, "", "n1", MergePatch({"spec": {"unschedulable": True}}))

    async with running(NodeRegistration(store, [a_spec("n1", cpu="9")], lambda: 0.0, "process://1")):
        await quiet(store)

    assert (await nodes(store))["n1"]["spec"]["unschedulable"] is True


def test_a_heartbeat_is_written_every_five_minutes() -> None:
    async def scenario() -> list[Object]:
        clock = asyncio.get_running_loop().time
        store = a_store(clock)
        seen = []
        async with running(NodeRegistration(store, [a_spec("n1")], clock, "process://1")):
            for _ in range(3):
                await asyncio.sleep(301)
                seen.append((await nodes(store))["n1"])
        return seen

    seen = virtual_time.run(scenario())

    heartbeats = [node["status"]["conditions"][-1]["lastHeartbeatTime"] for node in seen]
    assert heartbeats == ["1970-01-01T00:05:00Z", "1970-01-01T00:10:00Z", "1970-01-01T00:15:00Z"]
    assert len({node["metadata"]["generation"] for node in seen}) == 1
