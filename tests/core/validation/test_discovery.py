"""Validation of ``spec.discovery``, and of names and mounts that it reserves in pods."""

from typing import Any

import pytest

from launcher.core.validation.framework import validation_errors, validation_warnings
from tests.builders import Json, a_framework, a_pod_template, a_role

_POD = "spec.taskRoles[0].task.pod.spec"
_NAME = 'Invalid value: "launcher-discovery": reserved for spec.discovery; use another name'


def a_pod_with_mount(path: str) -> Json:
    container = {
        "name": "main",
        "image": "busybox",
        "volumeMounts": [{"name": "v", "mountPath": "/other"}, {"name": "v", "mountPath": path}],
    }
    return a_pod_template(volumes=[{"name": "v", "emptyDir": {}}], containers=[container])


def error_messages(pod: Json | None = None, **discovery: Any) -> list[str]:
    framework = a_framework(a_role(pod=pod or a_pod_template()), discovery=discovery)
    return [str(problem) for problem in validation_errors(framework)]


def test_an_empty_discovery_is_valid() -> None:
    framework = a_framework(discovery={})

    assert validation_errors(framework) == ()
    assert validation_warnings(framework) == ()


@pytest.mark.parametrize(
    ("discovery", "problem"),
    [
        pytest.param(
            {"waitForPorts": True},
            "spec.discovery.waitForPorts: Invalid value: true: there is no port to wait for; "
            "set spec.discovery.ports",
            id="waitForPorts without ports",
        ),
        pytest.param(
            {"mountPath": "/"},
            'spec.discovery.mountPath: Invalid value: "/": must be a directory other than /, without a '
            "colon, such as /configdir",
            id="mount at the root",
        ),
        pytest.param(
            {"mountPath": "/a:b"},
            'spec.discovery.mountPath: Invalid value: "/a:b": must be a directory other than /, without a '
            "colon, such as /configdir",
            id="a colon in the path",
        ),
    ],
)
def test_an_invalid_discovery_is_rejected(discovery: dict[str, Any], problem: str) -> None:
    assert error_messages(**discovery) == [problem]


def test_wait_for_ports_is_valid_with_ports() -> None:
    assert error_messages(waitForPorts=True, ports={"worker": 46866}) == []


@pytest.mark.parametrize(
    ("pod", "field"),
    [
        pytest.param(
            a_pod_template(volumes=[{"name": "launcher-discovery", "emptyDir": {}}]),
            "volumes[0]",
            id="a volume",
        ),
        pytest.param(
            a_pod_template(initContainers=[{"name": "launcher-discovery", "image": "busybox"}]),
            "initContainers[0]",
            id="an init container",
        ),
        pytest.param(
            a_pod_template(containers=[{"name": "launcher-discovery", "image": "busybox"}]),
            "containers[0]",
            id="a container",
        ),
    ],
)
def test_the_name_of_the_discovery_container_is_reserved(pod: Json, field: str) -> None:
    assert error_messages(pod) == [f"{_POD}.{field}.name: {_NAME}"]
    assert validation_errors(a_framework(a_role(pod=pod))) == ()


@pytest.mark.parametrize(
    ("path", "discovery"),
    [
        pytest.param("/configdir", {}, id="the default path"),
        pytest.param("/peers/", {"mountPath": "/peers"}, id="the same path with a slash"),
    ],
)
def test_the_mount_path_of_discovery_is_reserved(path: str, discovery: dict[str, Any]) -> None:
    assert error_messages(a_pod_with_mount(path), **discovery) == [
        f'{_POD}.containers[0].volumeMounts[1].mountPath: Invalid value: "{path}": used by spec.discovery.mountPath; '
        "use another path"
    ]
    assert error_messages(a_pod_with_mount("/peers/mine"), mountPath="/peers") == []
