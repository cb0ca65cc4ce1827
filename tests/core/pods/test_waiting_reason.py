"""The message of a task that waits, in the words of its finding."""

from typing import Any

import pytest

from launcher.core.pods.creation_reason import creation_delayed, name_taken
from launcher.core.pods.waiting_reason import waiting_clause

MAIN: dict[str, Any] = {
    "name": "main",
    "image": "registry.test/a:1",
    "resources": {"requests": {"cpu": "500m"}},
}


@pytest.mark.parametrize(
    ("message", "clause"),
    [
        pytest.param(
            "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
            "no node has 500m cpu free",
            id="no capacity",
        ),
        pytest.param("SchedulingGated: held", "held by example.com/gate", id="a gate"),
        pytest.param(
            'ImagePullBackOff: Back-off pulling image "registry.test/a:1": not found',
            "image registry.test/a:1 does not exist in its registry",
            id="no image",
        ),
        pytest.param(
            'CreateContainerConfigError: secret "key" not found',
            'Secret "key" does not exist',
            id="no Secret",
        ),
        pytest.param(
            "ContainerCreating: MountVolume.SetUp failed : mount.nfs: timed out",
            "an NFS export cannot be mounted",
            id="no volume",
        ),
        pytest.param(
            "CreateContainerConfigError: container has runAsNonRoot and image will run as root (pod: a_b(1))",
            "container main cannot be configured: container has runAsNonRoot and image will run as root",
            id="a security context",
        ),
        pytest.param(
            f'RunContainerError: failed to start container "{"63fd" * 16}": no such file',
            "container main cannot be created: failed to start container : no such file",
            id="no command",
        ),
        pytest.param(
            creation_delayed('pods "a" is forbidden: exceeded quota: q, requested: cpu=1'),
            "resource quota exceeded: q, requested: cpu=1",
            id="a quota",
        ),
        pytest.param(
            name_taken("a-worker-0"), "a pod of another owner has the name of the task's pod", id="a name"
        ),
        pytest.param(
            "Waiting for role ps to be Running (startAfter).",
            "Waiting for role ps to be Running (startAfter).",
            id="a message of the launcher",
        ),
    ],
)
def test_the_words_of_a_message_are_those_of_its_finding(message: str, clause: str) -> None:
    spec = {"containers": [MAIN], "schedulingGates": [{"name": "example.com/gate"}]}

    assert waiting_clause(message, spec) == clause


def test_a_message_without_a_container_does_not_blame_one_of_several() -> None:
    spec = {"containers": [MAIN, {"name": "side", "image": "registry.test/b:1"}]}

    named = waiting_clause('ImagePullBackOff: Back-off pulling image "registry.test/b:1": not found', spec)
    created = waiting_clause("CreateContainerError: no command specified", spec)

    assert named == "image registry.test/b:1 does not exist in its registry"
    assert created == "a container cannot be created: no command specified"
