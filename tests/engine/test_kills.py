"""
The launcher, and the container engine, are killed at random moments: no task is lost, doubled or left behind.

``make test-engine KILLS=100 ENGINE_KILLS=20`` kills them more often.
"""

import os
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.builders import a_framework, a_pod_template, a_role
from tests.engine.archives import BUSYBOX
from tests.engine.conftest import ServeWith
from tests.engine.engines import EngineProcess
from tests.engine.fixtures import ENGINES, Engines
from tests.eventually import until
from tests.local.server import FRAMEWORKS, PODS, Server, ended
from tests.pod_networks import left_behind

pytestmark = pytest.mark.engine

LAUNCHER_KILLS = int(os.environ.get("KILLS", "8"))
ENGINE_KILLS = int(os.environ.get("ENGINE_KILLS", "3"))
#: Seconds for one kill, with the containers that are started meanwhile, on a busy machine.
SECONDS_PER_KILL = 15
#: A Framework is submitted each time that this many kills have happened.
KILLS_PER_FRAMEWORK = 4
TASKS = 6
STEPS = 8
#: Each step is recorded with the task, and with the instance of it.
TASK = f"""
instance=$(cat /proc/sys/kernel/random/uuid)
for step in $(seq {STEPS}); do
  echo "$FC_FRAMEWORK_NAME-$taskindex $instance $step" >> /work/journal
  echo $step
  sleep 0.4
done
"""
ALL_STEPS = list(range(1, STEPS + 1))
OUTPUT = "".join(f"{step}\n" for step in ALL_STEPS)


def a_recording_framework(name: str, work: Path) -> dict[str, Any]:
    """A Framework whose tasks record their steps in *work*. They are retried only if their exits are not known."""
    work.mkdir(exist_ok=True)
    container = {
        "name": "main",
        "image": BUSYBOX,
        "command": ["sh", "-c", TASK],
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
    }
    volume = {"name": "work", "hostPath": {"path": str(work)}}
    pod = a_pod_template(container, volumes=[volume])
    role = a_role(tasks=TASKS, pod=pod)
    role["task"]["retryPolicy"] = {"fancyRetryPolicy": True}
    return a_framework(role, name=name)


def tasks_of(names: Sequence[str]) -> list[str]:
    return [f"{name}-{index}" for name in names for index in range(TASKS)]


def instances(work: Path) -> dict[str, list[list[int]]]:
    """The steps of each instance of each task, in the order of their first steps."""
    steps: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for line in (work / "journal").read_text().splitlines():
        task, instance, step = line.split()
        steps[task][instance].append(int(step))
    return {task: list(found.values()) for task, found in steps.items()}


def lost_or_doubled(work: Path, names: Sequence[str]) -> list[str]:
    """Tasks of which no instance has done all steps, or of which two have run at the same time."""
    journal = [line.split()[:2] for line in (work / "journal").read_text().splitlines()]
    found = instances(work)
    return [
        task
        for task in tasks_of(names)
        if found.get(task, [[]])[-1] != ALL_STEPS
        or len(list(groupby(instance for each, instance in journal if each == task))) != len(found[task])
    ]


def delete_completed(server: Server, name: str) -> None:
    """Waits until the Framework has succeeded without a retry, checks its logs, and deletes it."""
    framework = server.completed(name)

    assert ended(framework) == "Succeeded"
    assert framework["status"]["retryPolicyStatus"]["totalRetriedCount"] == 0
    logs = [server.log(f"{name}-worker-{index}") for index in range(TASKS)]
    assert logs == [OUTPUT] * TASKS
    server.delete(f"{FRAMEWORKS}/{name}")


def end_with_nothing_left(server: Server, engine: EngineProcess) -> None:
    """Stops the launcher when nothing of its pods is left."""
    until(lambda: not server.get(PODS)["items"], "every pod is deleted")
    until(lambda: not engine.containers(), "every container is removed")
    server.stop()
    assert left_behind(server.data) == []


@pytest.mark.timeout(120 + LAUNCHER_KILLS * SECONDS_PER_KILL)
@pytest.mark.parametrize("kind", ENGINES)
def test_no_task_is_lost_doubled_or_left_behind_when_the_launcher_is_killed(
    serve_with: ServeWith, engines: Engines, tmp_path: Path, kind: str
) -> None:
    engine, generator = engines.get(kind), random.Random(LAUNCHER_KILLS)
    server = serve_with(engine)
    names = []
    for number in range(LAUNCHER_KILLS):
        if number % KILLS_PER_FRAMEWORK == 0:
            names.append(f"job{number}")
            server.post(FRAMEWORKS, a_recording_framework(names[-1], tmp_path))
            if len(names) > 2:
                delete_completed(server, names[-3])
        time.sleep(generator.random())  # a random time between kills
        server.kill()
        if number % 2:
            server.start_and_kill(after=generator.random() / 2)
        server.start()
    for name in names[-2:]:
        delete_completed(server, name)

    assert instances(tmp_path) == {task: [ALL_STEPS] for task in tasks_of(names)}
    end_with_nothing_left(server, engine)


@pytest.mark.timeout(120 + ENGINE_KILLS * SECONDS_PER_KILL)
@pytest.mark.parametrize("kind", ENGINES)
def test_no_task_is_lost_or_left_behind_when_the_engine_is_killed(
    serve_with: ServeWith, engines: Engines, tmp_path: Path, kind: str
) -> None:
    engine, generator = engines.new(kind), random.Random(ENGINE_KILLS)
    server = serve_with(engine)
    names = []
    for number in range(ENGINE_KILLS):
        if number % 2 == 0:
            names.append(f"job{number}")
            server.post(FRAMEWORKS, a_recording_framework(names[-1], tmp_path))
        server.post(FRAMEWORKS, a_recording_framework(f"deleted{number}", tmp_path / "deleted"))
        time.sleep(generator.random() * 2)  # a random time between kills
        engine.kill()
        server.delete(f"{FRAMEWORKS}/deleted{number}")
        time.sleep(generator.random() / 2)
        engine.start()
    frameworks = [server.completed(name, within=180) for name in names]

    assert [ended(framework) for framework in frameworks] == ["Succeeded"] * len(names)
    repeated = {task: each for task, each in instances(tmp_path).items() if len(each) > 1}
    print(f"{kind}: killed {ENGINE_KILLS} times; started again: {repeated}")
    assert lost_or_doubled(tmp_path, names) == []
    for name in names:
        server.delete(f"{FRAMEWORKS}/{name}")
    end_with_nothing_left(server, engine)
    until(lambda: not engine.container_processes(), "every process of a container has ended")
