"""All or nothing on a launcher: a job that does not fit is all PENDING, and once room comes, all RUNNING."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.core.manifests import a_framework, a_role
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PATIENCE, PODS, PROJECT, Server, until

#: Two workers with a GPU each, and a parameter server.
DIST = ("--name=tf-dist", "--gpus=1", "--workers=2", "--ps=1", "--image=none")


@pytest.fixture
def two_gpus(serve: Serve) -> Iterator[Server]:
    """A launcher with a GPU on each of two nodes; what was mounted for its pods is gone with the test."""
    server = serve("--node=one,nvidia.com/gpu=1", "--node=two,nvidia.com/gpu=1")
    yield server
    server.curl(FRAMEWORKS, "-X", "DELETE")
    until(lambda: None if server.get(PODS)["items"] else True, "every pod is gone")
    mounts = Path("/proc/mounts")
    until(lambda: None if str(server.data) in mounts.read_text() else True, "nothing of them is mounted")


def launcher(server: Server, home: Path, *words: str) -> list[str]:
    """What the command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "launcher", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        cwd=PROJECT,
        env={**os.environ, "HOME": str(home), "LAUNCHER_SERVER": server.url, "ARENA_CONFIG": str(home / "c")},
    )
    assert done.returncode == 0, f"launcher {' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout.splitlines()


def a_pod(server: Server, gpus: int) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "none",
        "command": ["sleep", "1000"],
        "env": [{"name": "LAUNCHER_TEST", "value": str(server.data)}],
        "resources": {"limits": {"nvidia.com/gpu": gpus}},
    }
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def hold(server: Server, name: str, gpus: int) -> None:
    """Somebody has so many GPUs."""
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_pod(server, gpus)), name=name))
    server.runs(f"{name}-worker-0")


def a_gang(server: Server, tasks: int, name: str = "gang", **gang: int) -> dict[str, Any]:
    return a_framework(a_role(tasks=tasks, pod=a_pod(server, 1)), name=name, gang=gang)


def let_go(server: Server, name: str) -> None:
    server.curl(f"{FRAMEWORKS}/{name}", "-X", "DELETE")


def submit(server: Server, home: Path, *flags: str) -> None:
    env = f"--env=LAUNCHER_TEST={server.data}"
    launcher(server, home, "arena", "submit", "tfjob", *DIST, env, *flags, "sleep 1000")


def instances(server: Server, home: Path) -> dict[str, tuple[str, str]]:
    """Status and node of each instance, as ``arena get`` prints them."""
    header, *rows = launcher(server, home, "arena", "get", "tf-dist")
    assert header.split() == ["NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE"]
    return {words[4]: (words[1], words[5]) for words in map(str.split, rows)}


def statuses(server: Server, home: Path) -> list[str]:
    return sorted(status for status, _ in instances(server, home).values())


def waits(server: Server, name: str, words: str) -> str:
    """The message of that Framework's condition, once it has these words."""

    def look() -> str | None:
        conditions = (server.framework(name).get("status") or {}).get("conditions") or ()
        told = next((each["message"] for each in conditions if each["type"] == "GangPlaced"), "")
        return told if words in told else None

    return until(look, f"{name} says {words}")


def on_nodes(server: Server, name: str) -> list[str]:
    pods = server.get(f"{PODS}?labelSelector=FC_FRAMEWORK_NAME={name}")["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


def test_35_a_job_that_does_not_fit_is_all_pending_and_once_room_comes_all_running(
    two_gpus: Server, tmp_path: Path
) -> None:
    server = two_gpus
    hold(server, "other", 1)

    submit(server, tmp_path, "--gang")
    told = waits(server, "tf-dist", "gang of 3: 2 fit now")
    before, listed = instances(server, tmp_path), launcher(server, tmp_path, "get", "tf-dist")
    let_go(server, "other")
    until(lambda: statuses(server, tmp_path) == ["RUNNING"] * 3 or None, "all of them run")
    after = instances(server, tmp_path)

    assert before == {f"tf-dist-{task}": ("PENDING", "N/A") for task in ("ps-0", "worker-0", "worker-1")}
    assert "0 of 3 tasks placed" in told
    assert sum("Preparing" in line for line in listed) >= 3
    assert sum("gang of 3: 2 fit now" in line for line in listed) >= 3
    assert set(after) == set(before)
    assert after["tf-dist-worker-0"][1] != after["tf-dist-worker-1"][1]


def test_36_without_gang_some_run_and_some_wait(two_gpus: Server, tmp_path: Path) -> None:
    server = two_gpus
    hold(server, "other", 1)

    submit(server, tmp_path)
    server.runs("tf-dist-ps-0")
    until(lambda: statuses(server, tmp_path).count("RUNNING") == 2 or None, "one worker runs")
    (job,) = [line for line in launcher(server, tmp_path, "arena", "list") if line.startswith("tf-dist ")]

    assert statuses(server, tmp_path) == ["PENDING", "RUNNING", "RUNNING"]
    assert job.split()[1] == "PENDING"


def test_a_gang_that_is_not_placed_in_time_is_taken_back_and_says_why(serve: Serve) -> None:
    server = serve("--node=one,nvidia.com/gpu=2")

    server.post(FRAMEWORKS, a_gang(server, 3))
    waits(server, "gang", "gang of 3: 2 fit now")
    patch = '{"spec":{"gang":{"timeoutSeconds":2}}}'
    server.curl(
        f"{FRAMEWORKS}/gang", "-X", "PATCH", "-H", "Content-Type: application/merge-patch+json", "-d", patch
    )
    framework = server.completed("gang")

    end = framework["status"]["attemptStatus"]["completionStatus"]
    assert (end["code"], end["phrase"]) == (-113, "GangTimeout")
    assert "the gang has waited 2 s for room (gang.timeoutSeconds): 0 of 3 tasks placed" in end["diagnostics"]
    assert "gang of 3: 2 fit now" in end["diagnostics"]
    assert server.get(f"{PODS}?labelSelector=FC_FRAMEWORK_NAME=gang")["items"] == []


def test_two_gangs_that_fit_one_at_a_time_come_one_after_the_other(serve: Serve) -> None:
    server = serve("--node=one,nvidia.com/gpu=2", "--node=two,nvidia.com/gpu=1")
    hold(server, "other", 1)
    for name in ("first", "second"):
        server.post(FRAMEWORKS, a_gang(server, 3, name))
        waits(server, name, "gang of 3: 2 fit now")

    let_go(server, "other")
    until(lambda: on_nodes(server, "first") or on_nodes(server, "second") or None, "one of them is placed")
    one = "first" if on_nodes(server, "first") else "second"
    two = "second" if one == "first" else "first"
    for index in range(3):
        server.runs(f"{one}-worker-{index}")
    beside = on_nodes(server, two)
    let_go(server, one)
    for index in range(3):
        server.runs(f"{two}-worker-{index}")

    assert (one, beside) == ("first", [])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_gang_waits_on_while_its_launcher_is_restarted(serve: Serve, number: signal.Signals) -> None:
    server = serve("--node=one,nvidia.com/gpu=3")
    hold(server, "other", 1)
    server.post(FRAMEWORKS, a_gang(server, 3))
    waits(server, "gang", "gang of 3: 2 fit now")

    (server.kill if number is signal.SIGKILL else server.stop)()
    server.start()
    before = on_nodes(server, "gang")
    let_go(server, "other")
    for index in range(3):
        server.runs(f"gang-worker-{index}")

    assert before == []
