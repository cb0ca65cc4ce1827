"""Frameworks that only the CRD has looked at, as on a cluster whose webhook is away."""

from typing import Any

import orjson
import pytest

from tests.core.manifests import Json, a_framework, a_role
from tests.kubernetes.world import World, a_task_pod
from tests.local.server import ended

pytestmark = pytest.mark.usefixtures("shared_launcher")


def apply(world: World, framework: Json) -> None:
    world.kubectl("apply", "-f", "-", stdin=orjson.dumps(framework).decode())


def sound(name: str = "mnist") -> Json:
    framework = a_framework(a_role(tasks=2, pod=a_task_pod("succeeded")))
    framework["metadata"]["name"] = name
    return framework


def _sequence(framework: Json) -> None:
    framework["spec"]["roleSequence"] = ["worker", "nobody"]


def _indexes(framework: Json) -> None:
    framework["spec"]["taskRoles"][0]["frameworkAttemptCompletionPolicy"] = {"succeededIndexes": "9-3"}


def _containers(framework: Json) -> None:
    del framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]


def _mount(framework: Json) -> None:
    (container,) = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": "nowhere", "mountPath": "/data"}]


@pytest.mark.parametrize(
    ("breaks", "field"),
    [
        pytest.param(_sequence, "spec.roleSequence[1]", id="a role that is not there"),
        pytest.param(_indexes, "succeededIndexes", id="indexes that are not there"),
        pytest.param(_containers, "spec.containers", id="a pod without containers"),
        pytest.param(_mount, "volumeMounts[0].name", id="a volume that is not there"),
    ],
)
def test_it_is_told_what_is_wrong_and_runs_once_it_is_corrected(
    world: World, breaks: Any, field: str
) -> None:
    broken = sound()
    breaks(broken)
    apply(world, broken)

    world.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")
    condition = next(c for c in world.framework()["status"]["conditions"] if c["type"] == "Valid")
    pods = world.pods()
    world.until(lambda: world.events("InvalidSpec") or None, "it is told")
    apply(world, sound())

    assert field in condition["message"]
    assert pods == {}
    assert ended(world.completed()) == "Succeeded"
    assert len(world.asked("create", "pods")) == 2


def test_pod_names_that_would_be_too_long_are_told_with_the_sum(world: World) -> None:
    name = "m" * 60
    apply(world, sound(name))

    world.kubectl("wait", "--for=condition=Valid=False", f"fw/{name}", "--timeout=60s")

    assert "pod names would have up to 69 characters" in world.framework(name)["status"]["message"]
    assert world.asked("create", "pods") == []


def test_a_running_framework_is_left_alone_until_its_edit_is_corrected(world: World) -> None:
    running = a_framework(a_role(tasks=2, pod=a_task_pod()))
    apply(world, running)
    world.running("mnist-worker-0", "mnist-worker-1")
    apply(world, {**running, "spec": {**running["spec"], "roleSequence": ["nobody"]}})
    world.kubectl("wait", "--for=condition=Valid=False", "fw/mnist", "--timeout=60s")
    before = world.pods()

    apply(world, {**running, "spec": {**running["spec"], "description": "corrected"}})
    world.kubectl("wait", "--for=condition=Valid", "fw/mnist", "--timeout=60s")
    for pod in before:
        world.end(pod, "succeeded")

    assert ended(world.completed()) == "Succeeded"
    assert {pod["metadata"]["uid"] for pod in world.pods().values()} == {
        pod["metadata"]["uid"] for pod in before.values()
    }
