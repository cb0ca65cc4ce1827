"""What ``spec.discovery`` must keep to, and what the pods must leave free for it."""

from typing import Any

import pytest

from launcher.core.validation.framework import validation_errors, validation_warnings
from tests.core.manifests import Json, a_framework, a_pod, a_role

_POD = "spec.taskRoles[0].task.pod.spec"
_NAME = 'Invalid value: "launcher-discovery": this is the name of what spec.discovery adds to the pod; choose another'


def mounting(path: str) -> Json:
    container = {
        "name": "main",
        "image": "busybox",
        "volumeMounts": [{"name": "v", "mountPath": "/other"}, {"name": "v", "mountPath": path}],
    }
    return a_pod(volumes=[{"name": "v", "emptyDir": {}}], containers=[container])


def told(pod: Json | None = None, **discovery: Any) -> list[str]:
    framework = a_framework(a_role(pod=pod or a_pod()), discovery=discovery)
    return [str(problem) for problem in validation_errors(framework)]


def test_nothing_has_to_be_said_but_that_it_is_wanted() -> None:
    framework = a_framework(discovery={})

    assert validation_errors(framework) == ()
    assert validation_warnings(framework) == ()


@pytest.mark.parametrize(
    ("discovery", "problem"),
    [
        pytest.param(
            {"waitForPorts": True},
            "spec.discovery.waitForPorts: Invalid value: true: there is no port to wait for; "
            "name those of the roles in spec.discovery.ports",
            id="to wait for ports that nobody has",
        ),
        pytest.param(
            {"mountPath": "/"},
            'spec.discovery.mountPath: Invalid value: "/": must be a directory of its own without a colon in its '
            "name, such as /configdir",
            id="to put the files over everything",
        ),
        pytest.param(
            {"mountPath": "/a:b"},
            'spec.discovery.mountPath: Invalid value: "/a:b": must be a directory of its own without a colon in its '
            "name, such as /configdir",
            id="a colon, which no cluster takes",
        ),
    ],
)
def test_it_is_refused(discovery: dict[str, Any], problem: str) -> None:
    assert told(**discovery) == [problem]


def test_to_wait_for_ports_that_are_named_is_fine() -> None:
    assert told(waitForPorts=True, ports={"worker": 46866}) == []


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        pytest.param(
            a_pod(volumes=[{"name": "launcher-discovery", "emptyDir": {}}]), "volumes[0]", id="a volume"
        ),
        pytest.param(
            a_pod(initContainers=[{"name": "launcher-discovery", "image": "busybox"}]),
            "initContainers[0]",
            id="an init container",
        ),
        pytest.param(
            a_pod(containers=[{"name": "launcher-discovery", "image": "busybox"}]),
            "containers[0]",
            id="a container",
        ),
    ],
)
def test_nothing_else_in_the_pod_may_have_our_name(pod: Json, field: str) -> None:
    assert told(pod) == [f"{_POD}.{field}.name: {_NAME}"]
    assert validation_errors(a_framework(a_role(pod=pod))) == ()


@pytest.mark.parametrize(
    ("path", "discovery"),
    [
        pytest.param("/configdir", {}, id="where the files are if nothing is said"),
        pytest.param("/peers/", {"mountPath": "/peers"}, id="where they are to be, but for a slash"),
    ],
)
def test_nothing_else_may_be_mounted_there(path: str, discovery: dict[str, Any]) -> None:
    assert told(mounting(path), **discovery) == [
        f'{_POD}.containers[0].volumeMounts[1].mountPath: Invalid value: "{path}": spec.discovery puts its files '
        "there; mount one of the two somewhere else"
    ]
    assert told(mounting("/peers/mine"), mountPath="/peers") == []
