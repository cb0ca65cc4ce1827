"""The launcher is killed at any moment: no container is lost, doubled, or left behind."""

import asyncio
import sys
from pathlib import Path
from random import Random

from launcher.store.interface import NODES, PODS
from tests.node.killable import at_work, opened
from tests.node.world import a_container, a_node, a_pod, eventually, phase, when

KILLS = 12
PODS_EACH = 3


def a_witness(name: str, shared: Path, seconds: float) -> dict[str, object]:
    """A pod whose containers each write a line when they start and one when they end."""
    mounts = [{"name": "shared", "mountPath": "/shared"}]

    def container(called: str) -> dict[str, object]:
        script = f"echo {called} >> /shared/{name}; sleep {seconds}; echo {called} ends >> /shared/{name}"
        return a_container(called, "sh", "-c", script, volumeMounts=mounts)

    return a_pod(
        name,
        container("main"),
        initContainers=[container("init")],
        volumes=[{"name": "shared", "hostPath": {"path": str(shared), "type": "Directory"}}],
    )


async def one_life(data: Path, chance: Random) -> None:
    """A launcher works for a moment, and is killed."""
    launcher = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.node.killable", str(data)), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert launcher.stdout is not None
        async with asyncio.timeout(30):
            assert await launcher.stdout.readline() == b"at work\n"
        await asyncio.sleep(chance.random() * 0.3)
    finally:
        launcher.kill()
        await launcher.wait()


async def test_a_launcher_that_is_killed_again_and_again_runs_everything_once(tmp_path: Path) -> None:
    chance = Random(4)
    data, shared = tmp_path / "data", tmp_path / "shared"
    data.mkdir()
    shared.mkdir()
    names: list[str] = []
    for life in range(KILLS):
        async with opened(data) as store:
            if not life:
                await store.create(NODES, a_node(address="127.0.0.1"))
            for number in range(PODS_EACH):
                names.append(f"p{life}-{number}")
                await store.create(PODS, a_witness(names[-1], shared, chance.random() * 0.5))
        await one_life(data, chance)
    async with opened(data) as store, at_work(data, store, stop_keeper=True) as runtime:
        for name in names:
            await when(store, name, phase("Succeeded"), within=60)
        await eventually(lambda: not runtime.runs())

    for name in names:
        assert (shared / name).read_text().splitlines() == ["init", "init ends", "main", "main ends"]
