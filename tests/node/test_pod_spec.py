"""A container of an image that a program of ours stands for runs that program."""

from typing import Any

import pytest

from launcher.node.pods.pod_spec import Container, containers_of, stood_in_for
from tests.core.manifests import a_pod

STAND_INS = {"frameworkcontroller/frameworkbarrier": ("/bin/sh", "-c", "echo passed")}


def a_container(**spec: Any) -> Container:
    return containers_of({**a_pod(containers=[{"name": "main", **spec}]), "metadata": {"name": "p"}})[0]


@pytest.mark.parametrize(
    "image",
    [
        "frameworkcontroller/frameworkbarrier",
        "frameworkcontroller/frameworkbarrier:v1.0.0",
        "docker.io/frameworkcontroller/frameworkbarrier@sha256:0123",
        "registry.example.org:5000/mirror/frameworkcontroller/frameworkbarrier:v1.0.0",
    ],
)
def test_an_image_is_known_whatever_its_registry_and_tag(image: str) -> None:
    known = stood_in_for(a_container(image=image), STAND_INS)

    assert known.spec["command"] == ["/bin/sh", "-c", "echo passed"]


@pytest.mark.parametrize(
    "image", ["", "frameworkbarrier", "others/frameworkbarrier", "notframeworkcontroller/frameworkbarrier"]
)
def test_other_images_are_left_alone(image: str) -> None:
    container = a_container(image=image)

    assert stood_in_for(container, STAND_INS) == container


def test_a_command_of_ones_own_counts() -> None:
    container = a_container(image="frameworkcontroller/frameworkbarrier", command=["true"])

    assert stood_in_for(container, STAND_INS) == container
