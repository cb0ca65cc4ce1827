"""Gang scheduling in local mode: the instances of a job are PENDING or RUNNING all together."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.eventually import TIMEOUT_SECONDS, until
from tests.launcher_process import PROJECT
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server

#: Two workers with a GPU each, and a parameter server.
DIST = ("--name=tf-dist", "--gpus=1", "--workers=2", "--ps=1", "--image=none")


@pytest.fixture
def two_gpus(serve: Serve) -> Iterator[Server]:
    """A launcher with a GPU on each of two nodes; mounts of its pods are removed after the test."""
    server = serve("--node=one,nvidia.com/gpu=1", "--node=two,nvidia.com/gpu=1")
    yield server
    server.curl(FRAMEWORKS, "-X", "DELETE")
    until(lambda: None if server.get(PODS)["items"] else True, "every pod is deleted")
    mounts = Path("/proc/mounts")
    until(lambda: None if str(server.data) in mounts.read_text() else True, "nothing of them is mounted")


def launcher(server: Server, home: Path, *arguments: str) -> list[str]:
    """Runs the command and returns the lines of its output."""
    done = subprocess.run(
        [sys.executable, "-m", "launcher", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS * 2,
        cwd=PROJECT,
        env={**os.environ, "HOME": str(home), "LAUNCHER_SERVER": server.url, "ARENA_CONFIG": str(home / "c")},
    )
    assert done.returncode == 0, f"launcher {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout.splitlines()


def a_gpu_pod(server: Server, gpus: int) -> dict[str, Any]:
    """A pod template that sleeps and requests GPUs."""
    env = [{"name": "LAUNCHER_TEST", "value": str(server.data)}]
    resources = {"limits": {"nvidia.com/gpu": gpus}}
    return a_pod_template(a_container("sleep", "1000", env=env, resources=resources))


def use_gpus(server: Server, name: str, gpus: int) -> None:
    """Creates a Framework that uses that many GPUs."""
    server.post(FRAMEWORKS, a_framework(a_role(tasks=1, pod=a_gpu_pod(server, gpus)), name=name))
    server.runs(f"{name}-worker-0")


def a_gang(server: Server, tasks: int, name: str = "gang", **gang: int) -> dict[str, Any]:
    return a_framework(a_role(tasks=tasks, pod=a_gpu_pod(server, 1)), name=name, gang=gang)


def delete_framework(server: Server, name: str) -> None:
    server.curl(f"{FRAMEWORKS}/{name}", "-X", "DELETE")


def submit(server: Server, home: Path, *flags: str) -> None:
    env = f"--env=LAUNCHER_TEST={server.data}"
    launcher(server, home, "arena", "submit", "tfjob", *DIST, env, *flags, "sleep 1000")


def instances(server: Server, home: Path) -> dict[str, tuple[str, str]]:
    """Status and node of each instance, as ``arena get`` prints them."""
    header, *rows = launcher(server, home, "arena", "get", "tf-dist")
    assert header.split() == ["NAME", "STATUS", "TRAINER", "AGE", "INSTANCE", "NODE"]
    return {arguments[4]: (arguments[1], arguments[5]) for arguments in map(str.split, rows)}


def statuses(server: Server, home: Path) -> list[str]:
    return sorted(status for status, _ in instances(server, home).values())


def wait_for_gang_message(server: Server, name: str, text: str) -> str:
    """Waits until the message of the condition GangPlaced contains *text*, and returns it."""

    def probe() -> str | None:
        conditions = (server.framework(name).get("status") or {}).get("conditions") or ()
        message = next((each["message"] for each in conditions if each["type"] == "GangPlaced"), "")
        return message if text in message else None

    return until(probe, f"{name} has the message {text!r}")


def scheduled_pods(server: Server, name: str) -> list[str]:
    pods = server.get(f"{PODS}?labelSelector=FC_FRAMEWORK_NAME={name}")["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]


def test_35_a_gang_job_is_pending_as_a_whole_until_capacity_is_available(
    two_gpus: Server, tmp_path: Path
) -> None:
    server = two_gpus
    use_gpus(server, "other", 1)

    submit(server, tmp_path, "--gang")
    message = wait_for_gang_message(server, "tf-dist", "Gang of 3: 2 of 3 pods fit")
    before, listed = instances(server, tmp_path), launcher(server, tmp_path, "get", "tf-dist")
    delete_framework(server, "other")
    until(lambda: statuses(server, tmp_path) == ["RUNNING"] * 3 or None, "all of them run")
    after = instances(server, tmp_path)

    assert before == {f"tf-dist-{task}": ("PENDING", "N/A") for task in ("ps-0", "worker-0", "worker-1")}
    assert "0 of 3 tasks have a node" in message
    assert sum("Preparing" in line for line in listed) >= 3
    assert sum("Gang of 3: 2 of 3 pods fit" in line for line in listed) >= 3
    assert set(after) == set(before)
    assert after["tf-dist-worker-0"][1] != after["tf-dist-worker-1"][1]


def test_36_without_a_gang_some_instances_run_while_others_are_pending(
    two_gpus: Server, tmp_path: Path
) -> None:
    server = two_gpus
    use_gpus(server, "other", 1)

    submit(server, tmp_path)
    server.runs("tf-dist-ps-0")
    until(lambda: statuses(server, tmp_path).count("RUNNING") == 2 or None, "one worker runs")
    (job,) = [line for line in launcher(server, tmp_path, "arena", "list") if line.startswith("tf-dist ")]

    assert statuses(server, tmp_path) == ["PENDING", "RUNNING", "RUNNING"]
    assert job.split()[1] == "PENDING"


def test_a_gang_that_exceeds_its_timeout_fails_with_the_reason(serve: Serve) -> None:
    server = serve("--node=one,nvidia.com/gpu=2")

    server.post(FRAMEWORKS, a_gang(server, 3))
    wait_for_gang_message(server, "gang", "Gang of 3: 2 of 3 pods fit")
    patch = '{"spec":{"gang":{"timeoutSeconds":2}}}'
    server.curl(
        f"{FRAMEWORKS}/gang", "-X", "PATCH", "-H", "Content-Type: application/merge-patch+json", "-d", patch
    )
    framework = server.completed("gang")

    end = framework["status"]["attemptStatus"]["completionStatus"]
    assert (end["code"], end["phrase"]) == (-113, "GangTimeout")
    assert "gang.timeoutSeconds (2) exceeded: 0 of 3 tasks have a node" in end["diagnostics"]
    assert "Gang of 3: 2 of 3 pods fit" in end["diagnostics"]
    assert server.get(f"{PODS}?labelSelector=FC_FRAMEWORK_NAME=gang")["items"] == []


def test_two_gangs_that_do_not_fit_together_run_one_after_the_other(serve: Serve) -> None:
    server = serve("--node=one,nvidia.com/gpu=2", "--node=two,nvidia.com/gpu=1")
    use_gpus(server, "other", 1)
    for name in ("first", "second"):
        server.post(FRAMEWORKS, a_gang(server, 3, name))
        wait_for_gang_message(server, name, "Gang of 3: 2 of 3 pods fit")

    delete_framework(server, "other")
    until(
        lambda: scheduled_pods(server, "first") or scheduled_pods(server, "second") or None,
        "one of them is placed",
    )
    one = "first" if scheduled_pods(server, "first") else "second"
    two = "second" if one == "first" else "first"
    for index in range(3):
        server.runs(f"{one}-worker-{index}")
    second_pods = scheduled_pods(server, two)
    delete_framework(server, one)
    for index in range(3):
        server.runs(f"{two}-worker-{index}")

    assert (one, second_pods) == ("first", [])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_gang_stays_pending_during_a_restart_of_the_launcher(serve: Serve, number: signal.Signals) -> None:
    server = serve("--node=one,nvidia.com/gpu=3")
    use_gpus(server, "other", 1)
    server.post(FRAMEWORKS, a_gang(server, 3))
    wait_for_gang_message(server, "gang", "Gang of 3: 2 of 3 pods fit")

    (server.kill if number is signal.SIGKILL else server.stop)()
    server.start()
    before = scheduled_pods(server, "gang")
    delete_framework(server, "other")
    for index in range(3):
        server.runs(f"gang-worker-{index}")

    assert before == []
