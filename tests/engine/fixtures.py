"""Engines for all tests of one worker, each started once with the images of the tests."""

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.engine.archives import BUSYBOX, archive, busybox, with_entrypoint
from tests.engine.engines import EngineProcess, registries_conf
from tests.engine.prepare import missing_requirement
from tests.engine.registry import PASSWORD, USER, RegistryServer

#: The parameters of tests with a container engine.
ENGINES = [pytest.param(kind, marks=pytest.mark.engine) for kind in ("docker", "podman")]


class Engines:
    """The engines that were started, by kind."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        #: Registries without and with credentials.
        self.public, self.private = RegistryServer(), RegistryServer(protected=True)
        stack.callback(self.public.close)
        stack.callback(self.private.close)
        self._started: dict[str, EngineProcess] = {}

    def get(self, kind: str) -> EngineProcess:
        """The engine of that kind, which all tests share."""
        if kind not in self._started:
            self._started[kind] = self.new(kind)
        return self._started[kind]

    def push(self, registry: RegistryServer, name: str) -> str:
        """Pushes busybox to the registry as ``name:1``. Returns the name of the image."""
        docker, image = self.get("docker"), registry.image(name)
        auth = b64encode(json.dumps({"username": USER, "password": PASSWORD}).encode()).decode()
        assert docker.request("POST", f"/images/{BUSYBOX}/tag?repo={image}&tag=1")[0] == 201
        headers = {"X-Registry-Auth": auth}
        status, body = docker.request("POST", f"/images/{image}/push?tag=1", headers=headers)
        assert status == 200
        assert b'"error"' not in body, body
        assert docker.request("DELETE", f"/images/{image}:1")[0] == 200
        return f"{image}:1"

    def new(self, kind: str) -> EngineProcess:
        """Another engine, which the test may kill."""
        engine = EngineProcess(kind, registries_conf(self.public.address, self.private.address))
        self._stack.callback(engine.close)
        for image in (archive(busybox()), with_entrypoint()):
            engine.load(image)
        return engine


@pytest.fixture(scope="session")
def engines() -> Iterator[Engines]:
    if reason := missing_requirement():
        pytest.skip(f"left out the tests with container engines: {reason}")
    with ExitStack() as stack:
        yield Engines(stack)
