"""Real container runtimes for the tests of their contract: processes, Docker and Podman."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

import pytest

from launcher.node.container_runtime import (
    Confinement,
    ContainerConfig,
    ImageService,
    RunId,
    RuntimeService,
)
from launcher.node.runtime.process_runtime import ProcessRuntime, ShimOptions
from tests.engine.archives import BUSYBOX
from tests.engine.engines import EngineProcess
from tests.engine.fixtures import ENGINES

#: The parameters of the contract's tests.
REAL_RUNTIMES = ["process", *ENGINES]
UID = "11111111-2222-4333-8444-555555555555"
ONE = RunId(f"{UID}.main.0")
#: Enough for shells that change users; a privileged container needs more than a test machine may have.
_CAPABILITIES = frozenset({"CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"})


class ContractRuntimes:
    """Opens runtimes for one data directory, one after the other, as a launcher that is restarted does."""

    def __init__(self, request: pytest.FixtureRequest, data: Path) -> None:
        """The parameter of *request* is the kind of runtime."""
        self.kind: str = request.param
        self.data = data
        self.engine: EngineProcess | None = None
        if self.kind != "process":
            self.engine = request.getfixturevalue("engines").get(self.kind)
        data.mkdir(exist_ok=True)

    @asynccontextmanager
    async def open(self, *, stop: bool = True) -> AsyncIterator[RuntimeService]:
        """A runtime; *stop*: its containers end with it."""
        async with self.open_with_images(stop=stop) as (runtime, _):
            yield runtime

    @asynccontextmanager
    async def open_with_images(
        self, *, stop: bool = True, engine: EngineProcess | None = None
    ) -> AsyncIterator[tuple[RuntimeService, ImageService | None]]:
        engine = engine or self.engine
        if engine is None:
            processes = await ProcessRuntime.open(self.data, images={}, clock=time)
            try:
                yield processes, None
            finally:
                await processes.close(stop_shim=stop)
            return
        # Imported here: it takes long, and most tests do not need it.
        from launcher.node.runtime.docker_engine import DockerEngine
        from launcher.node.runtime.docker_images import DockerImages
        from launcher.node.runtime.docker_runtime import DockerRuntime

        client = await DockerEngine.connect(engine.url)
        containers = await DockerRuntime.open(self.data, client, clock=time, options=ShimOptions())
        try:
            yield containers, DockerImages(client)
        finally:
            await containers.close(stop_containers=stop)
            await client.close()


def a_config(directory: Path, *argv: str, run: RunId = ONE, **more: Any) -> ContainerConfig:
    """The config of a run of *argv*, with its log in *directory*."""
    fields = {
        "image": BUSYBOX,
        "environment": {"PATH": "/usr/bin:/bin"},
        "confinement": Confinement(_CAPABILITIES),
        **more,
    }
    return ContainerConfig(run, command=argv, log=log_path(directory, run), **fields)


def log_path(directory: Path, run: RunId = ONE) -> Path:
    return directory / "logs" / f"{run}.log"


def log_text(directory: Path, run: RunId = ONE, stream: str = "") -> str:
    """The output of the run, of both streams or of one."""
    records = log_path(directory, run).read_text().splitlines()
    return "".join(
        record[40:] + ("\n" if record[38] == "F" else "") for record in records if stream in record[31:37]
    )
