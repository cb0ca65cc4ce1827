"""A launcher killed at any time: its pods continue, and no task is lost, repeated or left behind."""

import random
import subprocess
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.builders import a_framework, a_role
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, PODS, Server

#: Each task records its start and end, and fails as many times as its index before it succeeds.
TASK = """
me="$FC_FRAMEWORK_NAME $FC_TASKROLE_NAME $FC_TASK_INDEX"
echo "start $me $UID_OF_POD $(date +%s.%N)" >> /journal/lines
sleep $(( FC_TASK_INDEX % 3 )).$(( RANDOM % 10 ))
tries=$(grep -c "^start $me " /journal/lines)
echo "end $me $UID_OF_POD $(date +%s.%N)" >> /journal/lines
test "$tries" -gt "$FC_TASK_INDEX"
"""


def a_recording_pod(journal: Path, data: Path) -> dict[str, Any]:
    """A pod that records its start and end in *journal*."""
    env = [
        {"name": "LAUNCHER_TEST", "value": str(data)},
        {"name": "UID_OF_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
    ]
    container = {
        "name": "main",
        "image": "none",
        "command": ["bash", "-c", TASK],
        "env": env,
        "volumeMounts": [{"name": "journal", "mountPath": "/journal"}],
    }
    volume = {"name": "journal", "hostPath": {"path": str(journal), "type": "Directory"}}
    return {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}}


def try_get(server: Server, path: str, *options: str) -> str | None:
    """The response, or None while the server is not running."""
    try:
        return server.curl(path, *options)
    except subprocess.CalledProcessError:
        return None


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kills", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_a_repeatedly_killed_launcher_loses_repeats_and_leaves_behind_no_task(
    serve: Serve, tmp_path: Path, kills: int
) -> None:
    generator = random.Random(4)
    journal = tmp_path / "journal"
    journal.mkdir()
    server = serve(module="tests.local.serve_without_backoff")
    names: list[str] = []

    for number in range(kills):
        if number % 4 == 0:
            names.append(f"job{number}")
            retry = {"fancyRetryPolicy": False, "maxRetryCount": 10}
            role = a_role(tasks=3, pod=a_recording_pod(journal, server.data))
            role["task"]["retryPolicy"] = retry
            framework = a_framework(role, name=names[-1])
            until(lambda: submitted(server, framework), f"{names[-1]} is submitted")  # noqa: B023 - called at once
        time.sleep(generator.expovariate(3.0))  # a random time between kills
        server.kill()
        server.start()
    frameworks = [server.completed(name, within=180) for name in names]

    assert {frozenset(conditions(framework)) for framework in frameworks} == {
        frozenset({"Started", "Succeeded"})
    }
    assert repeated_or_incomplete(journal) == []
    starts = Counter(tuple(line[1:4]) for line in lines(journal) if line[0] == "start")
    assert starts == {(name, "worker", str(index)): index + 1 for name in names for index in range(3)}
    assert overlaps(journal) == []
    assert server.inside() == []
    for name in names:
        server.curl(f"{FRAMEWORKS}/{name}", "-X", "DELETE")
    until(lambda: None if server.get(PODS)["items"] else True, "every pod is deleted")
    until(lambda: None if any((server.data / "runs").iterdir()) else True, "every run record is deleted")


def submitted(server: Server, framework: dict[str, Any]) -> bool | None:
    body = orjson.dumps(framework).decode()
    response = try_get(server, FRAMEWORKS, "-H", "Content-Type: application/json", "--data-binary", body)
    return True if response is not None and orjson.loads(response).get("code", 409) == 409 else None


def conditions(framework: Any) -> set[str]:
    return {c["type"] for c in framework["status"]["conditions"] if c["status"] == "True"}


def lines(journal: Path) -> list[list[str]]:
    return [line.split() for line in (journal / "lines").read_text().splitlines()]


def repeated_or_incomplete(journal: Path) -> list[tuple[str, str]]:
    """Pods that started or ended more than once, or did only one of the two."""
    records = Counter((line[4], line[0]) for line in lines(journal))
    pods = {pod for pod, _ in records}
    return [(pod, word) for pod in pods for word in ("start", "end") if records[pod, word] != 1]


def overlaps(journal: Path) -> list[tuple[str, ...]]:
    """Tasks of which a second pod started before the first had ended."""
    by_task: dict[tuple[str, ...], list[tuple[float, str]]] = defaultdict(list)
    for line in lines(journal):
        by_task[tuple(line[1:4])].append((float(line[5]), line[0]))
    return [
        task
        for task, records in by_task.items()
        if [word for _, word in sorted(records)] != ["start", "end"] * (len(records) // 2)
    ]
