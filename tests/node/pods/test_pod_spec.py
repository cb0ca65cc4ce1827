"""Commands that are configured for images."""

from typing import Any

import pytest

from launcher.node.pods.pod_spec import Container, containers_of, with_image_command
from tests.builders import a_pod_template

IMAGE_COMMANDS = {"frameworkcontroller/frameworkbarrier": ("/bin/sh", "-c", "echo passed")}


def a_container(**spec: Any) -> Container:
    return containers_of(
        {**a_pod_template(containers=[{"name": "main", **spec}]), "metadata": {"name": "p"}}
    )[0]


@pytest.mark.parametrize(
    "image",
    [
        "frameworkcontroller/frameworkbarrier",
        "frameworkcontroller/frameworkbarrier:v1.0.0",
        "docker.io/frameworkcontroller/frameworkbarrier@sha256:0123",
        "registry.example.org:5000/mirror/frameworkcontroller/frameworkbarrier:v1.0.0",
    ],
)
def test_an_image_matches_with_any_registry_and_tag(image: str) -> None:
    known = with_image_command(a_container(image=image), {}, IMAGE_COMMANDS)

    assert known.spec["command"] == ["/bin/sh", "-c", "echo passed"]


@pytest.mark.parametrize(
    "image", ["", "frameworkbarrier", "others/frameworkbarrier", "notframeworkcontroller/frameworkbarrier"]
)
def test_other_images_get_no_command(image: str) -> None:
    container = a_container(image=image)

    assert with_image_command(container, {}, IMAGE_COMMANDS) == container


def test_a_command_of_the_container_overrides_that_of_the_image() -> None:
    container = a_container(image="frameworkcontroller/frameworkbarrier", command=["true"])

    assert with_image_command(container, {}, IMAGE_COMMANDS) == container


@pytest.mark.parametrize(
    ("spec", "command"),
    [
        pytest.param({"image": "tf:2"}, ["python3", "-u"], id="the entrypoint"),
        pytest.param({"image": "tf:2", "command": ["true"]}, ["true"], id="a command of its own"),
        pytest.param({"image": "tf:1"}, None, id="another tag"),
        pytest.param({"image": "plain"}, None, id="an image with a directory only"),
    ],
)
def test_an_entrypoint_is_the_command_of_containers_that_name_none(
    spec: dict[str, Any], command: list[str] | None
) -> None:
    container = with_image_command(a_container(**spec), {"tf:2": ("python3", "-u"), "plain": ()}, {})

    assert container.spec.get("command") == command
