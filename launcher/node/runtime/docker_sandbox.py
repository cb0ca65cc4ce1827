"""
The sandbox containers of Docker: the containers of an isolated pod join the network namespace of one.

Docker cannot start a container in a network namespace that exists already, as Podman can, but only in that of another
container.
"""

from collections.abc import Mapping
from pathlib import Path

from launcher.core.errors import Unavailable
from launcher.node.container_runtime import PodSandboxConfig
from launcher.node.runtime.docker_container import INSTANCE, SANDBOX, Json, sandbox_name
from launcher.node.runtime.docker_engine import DockerEngine, EngineError, as_unavailable
from launcher.node.runtime.pause_image import IMAGE, PROGRAM, pause_image


class DockerSandboxes:
    """The sandbox containers of one data directory. Every method raises Unavailable."""

    def __init__(self, engine: DockerEngine, labels: Mapping[str, str]) -> None:
        """*labels* are those of all containers of the launcher."""
        self._engine, self._labels = engine, labels

    async def run(self, config: PodSandboxConfig) -> int:
        """Starts the sandbox container of the pod, unless it runs, and returns the pid of its process."""
        name = sandbox_name(config.pod_uid)
        with as_unavailable():
            shown = await self._engine.inspect(name)
            if shown is None:
                await self._create(name, config)
            if shown is None or not shown["State"].get("Running"):
                await self._start(name)
                shown = await self._engine.inspect(name)
        pid = int((shown or {"State": {}})["State"].get("Pid") or 0)
        if shown is None or not _is_process_of(pid, shown["Id"]):
            raise Unavailable(f"the process of the sandbox container {name} is not one of this machine")
        return pid

    async def _create(self, name: str, config: PodSandboxConfig) -> None:
        options: Json = {
            "Image": IMAGE,
            "Entrypoint": [f"/{PROGRAM}"],
            "Hostname": config.hostname,
            "Labels": {**self._labels, SANDBOX: config.pod_uid},
            "HostConfig": {"NetworkMode": "none", "ReadonlyRootfs": True, "CapDrop": ["ALL"]},
        }
        try:
            await self._engine.create(name, options)
        except EngineError as error:
            if error.status != 404:
                raise
            await self._engine.import_image(IMAGE, pause_image())
            await self._engine.create(name, options)

    async def _start(self, name: str) -> None:
        try:
            await self._engine.start(name)
        except EngineError:
            # Another one is created by the next call.
            await self._engine.delete(name)
            raise

    async def remove(self, pod_uid: str) -> None:
        """Removes the sandbox container of the pod, if it exists."""
        with as_unavailable():
            await self._engine.delete(sandbox_name(pod_uid))

    async def remove_all(self) -> None:
        with as_unavailable():
            for container in await self._engine.containers({INSTANCE: self._labels[INSTANCE]}):
                if SANDBOX in container["Labels"]:
                    await self._engine.delete(container["Id"])


def _is_process_of(pid: int, container: str) -> bool:
    """Whether *pid* is a process of the container; a number of another process namespace may be that of any process."""
    try:
        return container in Path(f"/proc/{pid}/cgroup").read_text()
    except OSError:
        return False
