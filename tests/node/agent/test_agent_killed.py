"""A launcher killed at any time neither loses, repeats nor leaves behind a container."""

import asyncio
import os
from pathlib import Path
from random import Random

from launcher.store.interface import NODES, PODS
from tests.eventually import TIMEOUT_SECONDS, eventually
from tests.forked_process import ForkedProcess
from tests.launcher_process import PROJECT
from tests.node.harness import a_container, a_node, a_pod, phase, when
from tests.node.killable import open_store, running_node

KILLS = 12
PODS_PER_ROUND = 3


def a_recording_pod(name: str, shared: Path, seconds: float) -> dict[str, object]:
    """A pod whose containers each write a line at their start and one at their end."""
    mounts = [{"name": "shared", "mountPath": "/shared"}]

    def container(own: str) -> dict[str, object]:
        script = f"echo {own} >> /shared/{name}; sleep {seconds}; echo {own} ends >> /shared/{name}"
        return a_container(own, "sh", "-c", script, volumeMounts=mounts)

    return a_pod(
        name,
        container("main"),
        initContainers=[container("init")],
        volumes=[{"name": "shared", "hostPath": {"path": str(shared), "type": "Directory"}}],
    )


async def run_and_kill(data: Path, random: Random) -> None:
    """Runs a launcher for a moment and kills it."""
    with ForkedProcess(
        "tests.node.killable",
        str(data),
        errors=data.with_name("errors"),
        directory=PROJECT,
        environment=os.environ,
    ) as launcher:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            assert await asyncio.to_thread(launcher.stdout.readline) == "running\n"
        await asyncio.sleep(random.random() * 0.3)


async def test_a_repeatedly_killed_launcher_runs_every_container_once(tmp_path: Path) -> None:
    random = Random(4)
    data, shared = tmp_path / "data", tmp_path / "shared"
    data.mkdir()
    shared.mkdir()
    names: list[str] = []
    for round_ in range(KILLS):
        async with open_store(data) as store:
            if not round_:
                await store.create(NODES, a_node(address="127.0.0.1"))
            for number in range(PODS_PER_ROUND):
                names.append(f"p{round_}-{number}")
                await store.create(PODS, a_recording_pod(names[-1], shared, random.random() * 0.5))
        await run_and_kill(data, random)
    async with open_store(data) as store, running_node(data, store, stop_shim=True) as runtime:
        for name in names:
            await when(store, name, phase("Succeeded"), within=60)
        await eventually(lambda: not runtime.list_containers())

    for name in names:
        assert (shared / name).read_text().splitlines() == ["init", "init ends", "main", "main ends"]
