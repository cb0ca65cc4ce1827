"""GPUs of nodes and containers, with real processes; the machine needs none."""

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_container, a_framework, a_pod, a_pod_template, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server, ended

NODES = ("--node", "gpu0,nvidia.com/gpu=2", "--node", "gpu1,nvidia.com/gpu=2,big=yes")
PRINT = 'echo "cuda=$CUDA_VISIBLE_DEVICES nvidia=$NVIDIA_VISIBLE_DEVICES"'


def a_gpu_container(server: Server, script: str, gpus: int) -> Any:
    env = [{"name": "LAUNCHER_TEST", "value": str(server.data)}]
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    return a_container("sh", "-c", script, env=env, resources={"limits": limits})


def a_gpu_role(server: Server, name: str, tasks: int, gpus: int, script: str) -> Any:
    return a_role(name, tasks, pod=a_pod_template(a_gpu_container(server, script, gpus)))


def devices(server: Server, pod: str) -> list[str]:
    """The GPUs in the status of the pod's container."""
    (status,) = server.get(f"{PODS}/{pod}")["status"]["containerStatuses"]
    return [device["resourceID"] for device in status["allocatedResourcesStatus"][0]["resources"]]


def first_line(server: Server, pod: str) -> str:
    """The line that PRINT writes."""

    def probe() -> str | None:
        line = server.log(pod).partition("\n")[0]
        return line if line.startswith("cuda=") else None

    return until(probe, f"{pod} prints a line")


@pytest.mark.timeout(120)
def test_each_task_has_gpus_of_its_own_and_others_have_none(serve: Serve) -> None:
    server = serve(*NODES)
    hold = f"{PRINT}; exec sleep 1000"
    roles = (a_gpu_role(server, "worker", 4, 1, hold), a_gpu_role(server, "ps", 1, 0, hold))
    server.post(FRAMEWORKS, a_framework(*roles, name="train"))
    names = [f"train-worker-{index}" for index in range(4)]

    lines = {name: first_line(server, name) for name in names}

    assert sorted(lines.values()) == [f"cuda={gpu} nvidia={gpu}" for gpu in range(4)]
    assert first_line(server, "train-ps-0") == "cuda= nvidia=void"
    for name, line in lines.items():
        pod = server.get(f"{PODS}/{name}")
        first = 0 if pod["spec"]["nodeName"] == "gpu0" else 2
        assert devices(server, name) in ([str(first)], [str(first + 1)])
        assert line.startswith(f"cuda={devices(server, name)[0]} ")


@pytest.mark.timeout(120)
def test_released_gpus_are_used_by_the_next_task(serve: Serve) -> None:
    server = serve(*NODES)
    role = a_gpu_role(server, "worker", 6, 2, PRINT)
    role["task"]["pod"]["spec"]["nodeSelector"] = {"big": "yes"}
    server.post(FRAMEWORKS, a_framework(role, name="train"))

    assert ended(server.completed("train")) == "Succeeded"

    assert {server.log(f"train-worker-{index}") for index in range(6)} == {"cuda=2,3 nvidia=2,3\n"}
    assert not list((server.data / "devices").iterdir())


@pytest.mark.timeout(120)
def test_a_container_keeps_its_gpus_when_it_or_the_launcher_is_killed(serve: Serve, tmp_path: Path) -> None:
    server = serve("--node", "gpu0,nvidia.com/gpu=2")
    journal = tmp_path / "journal"
    record = f"echo $CUDA_VISIBLE_DEVICES >>{journal}; exec sleep 1000"
    server.post(PODS, a_pod("first", a_gpu_container(server, "exec sleep 1000", 1)))
    server.runs("first")
    server.post(PODS, a_pod("p", a_gpu_container(server, record, 1), restartPolicy="Always"))
    server.runs("p")
    (pid,) = [pid for pid in server.inside() if _has_gpu(pid, "1")]

    server.kill()
    os.kill(pid, signal.SIGKILL)
    server.start()
    until(lambda: journal.read_text() == "1\n1\n", "the container is restarted")
    server.delete(f"{PODS}/first")
    server.post(PODS, a_pod("next", a_gpu_container(server, "exec sleep 1000", 1)))
    server.runs("next")

    assert devices(server, "p") == ["1"]
    assert devices(server, "next") == ["0"]


@pytest.mark.timeout(180)
def test_no_gpu_has_two_containers_while_the_launcher_is_killed_again_and_again(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve("--node", "gpu0,nvidia.com/gpu=3")
    journal, generator = tmp_path / "journal", random.Random(15)
    script = (
        f'echo "start $CUDA_VISIBLE_DEVICES $(date +%s%N)" >>{journal}; sleep 0.$((FC_TASK_INDEX % 5 + 1)); '
        f'echo "end $CUDA_VISIBLE_DEVICES $(date +%s%N)" >>{journal}'
    )
    server.post(FRAMEWORKS, a_framework(a_gpu_role(server, "worker", 15, 1, script), name="train"))

    for _ in range(6):
        time.sleep(generator.uniform(0.1, 1.0))  # a random time between kills
        server.kill()
        server.start()

    assert ended(server.completed("train", within=120)) == "Succeeded"
    lines = [line.split() for line in journal.read_text().splitlines()]
    for gpu in ("0", "1", "2"):
        steps = [step for step, index, _ in sorted(lines, key=lambda line: int(line[2])) if index == gpu]
        assert steps == ["start", "end"] * (len(steps) // 2)
    assert len(lines) == 30
    assert {index for _, index, _ in lines} == {"0", "1", "2"}


def _has_gpu(pid: int, gpu: str) -> bool:
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return f"CUDA_VISIBLE_DEVICES={gpu}".encode() in variables
