"""Pods whose images are pulled by Docker and Podman from a registry, with the reasons and events of the kubelet."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from launcher.store.interface import SECRETS, Object
from tests.engine.archives import BUSYBOX
from tests.engine.fixtures import ENGINES, Engines
from tests.engine.registry import PASSWORD, USER
from tests.eventually import eventually
from tests.node.contract_node import ContractNode, contract_node
from tests.node.harness import phase, state, waits


@pytest.fixture(params=ENGINES)
async def node(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ContractNode]:
    async with contract_node(request, tmp_path / "data") as node:
        yield node
        assert node.runtimes.engine is not None
        for image in json.loads(node.runtimes.engine.request("GET", "/images/json")[1]):
            for tag in image["RepoTags"] or ():
                if tag.startswith("127.0.0.1"):
                    node.runtimes.engine.request("DELETE", f"/images/{tag}?force=true")


def container(image: str, **more: Any) -> Object:
    return {"name": "main", "image": image, "command": ["echo", "ran"], **more}


def docker_config(address: str, password: str = PASSWORD) -> str:
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    return json.dumps({"auths": {address: {"auth": auth}}})


async def create_secret(node: ContractNode, name: str, config: str) -> None:
    data = {".dockerconfigjson": base64.b64encode(config.encode()).decode()}
    metadata = {"name": name, "namespace": "default"}
    kind = "kubernetes.io/dockerconfigjson"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}
    await node.store.create(SECRETS, secret)


async def test_a_missing_image_is_pulled_once(node: ContractNode, engines: Engines) -> None:
    image = engines.push(engines.public, "plain")

    await node.run(container(image))
    pod = await node.when(phase("Succeeded"))
    await node.run(container(image), name="q")
    await node.when(phase("Succeeded"), "q")

    assert await node.when_events("Pulling") == [f'Pulling image "{image}"']
    pulled = await node.when_events("Pulled", 2)
    assert [message for message in pulled if message.startswith(f'Successfully pulled image "{image}" in ')]
    assert f'Container image "{image}" already present on machine' in pulled
    ref = pod["status"]["containerStatuses"][0]["imageID"]
    assert ref.startswith(f"{image.removesuffix(':1')}@sha256:")


async def test_the_policy_always_pulls_each_time(node: ContractNode, engines: Engines) -> None:
    image = engines.push(engines.public, "always")
    for name in ("p", "q"):
        await node.run(container(image, imagePullPolicy="Always"), name=name)
        await node.when(phase("Succeeded"), name)

    pulled = await node.when_events("Pulled", 2)
    assert len(pulled) == 2
    assert all(message.startswith("Successfully pulled") for message in pulled)


async def test_the_policy_never_does_not_pull(node: ContractNode, engines: Engines) -> None:
    image = engines.push(engines.public, "never")
    await node.run(container(image, imagePullPolicy="Never"))
    await node.run(container(BUSYBOX, imagePullPolicy="Never"), name="q")

    pod = await node.when(waits("ErrImageNeverPull"))
    await node.when(phase("Succeeded"), "q")
    message = f'Container image "{image}" is not present with pull policy of Never'
    assert state(pod)["waiting"]["message"] == message
    assert await node.when_events("ErrImageNeverPull") == [message]
    assert await node.events("Pulling") == []


async def test_an_image_that_does_not_exist_is_pulled_with_back_off(
    node: ContractNode, engines: Engines
) -> None:
    image = engines.public.image("missing:1")
    await node.run(container(image))

    failed = await node.when(waits("ErrImagePull"))
    backing_off = await node.when(waits("ImagePullBackOff"))
    assert "manifest unknown" in state(failed)["waiting"]["message"].lower().replace("_", " ")
    message = state(backing_off)["waiting"]["message"]
    assert message.startswith(f'Back-off pulling image "{image}": ErrImagePull: ')

    async def has_events() -> bool:
        failures = await node.events("Failed")
        return (
            {"Error: ErrImagePull", "Error: ImagePullBackOff"} <= set(failures)
            and any(text.startswith(f'Failed to pull image "{image}": ') for text in failures)
            and await node.events("BackOff") == [f'Back-off pulling image "{image}"']
        )

    await eventually(has_events, "the events of a failed pull are recorded")


@pytest.mark.parametrize("image", ["UPPER/case:1", "a b", "x:!", ""])
async def test_an_invalid_name_is_reported(node: ContractNode, image: str) -> None:
    await node.run(container(image))

    pod = await node.when(waits("InvalidImageName"))
    assert f'couldn\'t parse image name "{image}"' in state(pod)["waiting"]["message"]


async def test_a_private_image_needs_credentials(node: ContractNode, engines: Engines) -> None:
    image = engines.push(engines.private, "secret")
    await create_secret(node, "wrong", docker_config(engines.private.address, "wrong"))
    await node.run(container(image))
    await node.run(container(image), name="q", imagePullSecrets=[{"name": "wrong"}, {"name": "missing"}])

    for name in ("p", "q"):
        pod = await node.when(waits("ErrImagePull"), name)
        message = state(pod)["waiting"]["message"].lower()
        assert "no basic auth" in message or "authentication required" in message or "unauthorized" in message
    (reported,) = await node.when_events("FailedToRetrieveImagePullSecret")
    assert "(missing)" in reported


async def test_a_private_image_is_pulled_with_a_pull_secret(node: ContractNode, engines: Engines) -> None:
    image = engines.push(engines.private, "secret")
    await create_secret(node, "other", docker_config("registry.example.org", "wrong"))
    await create_secret(node, "right", docker_config(engines.private.address))

    await node.run(container(image), imagePullSecrets=[{"name": "other"}, {"name": "right"}])

    await node.when(phase("Succeeded"))


async def test_a_private_image_is_pulled_with_the_users_own_credentials(
    node: ContractNode, engines: Engines, tmp_path: Path
) -> None:
    image = engines.push(engines.private, "own")
    config = tmp_path / "config.json"
    config.write_text(docker_config(engines.private.address))
    await node.stop()
    node.credentials.append(config)
    await node.start()

    await node.run(container(image))

    await node.when(phase("Succeeded"))
