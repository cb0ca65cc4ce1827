"""The sandbox of tasks, without the launcher."""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass

from launcher.node.container_runtime import ContainerConfig, Mount, RunId
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.node.runtime.shim_client import Json
from tests.launcher_process import PROJECT
from tests.local.server import Server

#: As the shim is started: nothing of site-packages.
_PROGRAM = (
    f"import sys; sys.path.append({str(PROJECT)!r}); from tests.rig.sandbox_program import main; main()"
)
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds from the fork to the first output and to the exit, one for each run."""

    to_output: list[float]
    to_end: list[float]


class BareSandbox:
    """Starts programs one after the other, each in the sandbox that a task of *server* would get."""

    def __init__(self, server: Server) -> None:
        self._config = asyncio.run(_shim_config(server))
        #: The isolation mode of the launcher on this machine.
        self.isolation: str = self._config["way"]

    def times(self, count: int, argv: tuple[str, ...]) -> Times:
        """The times of *count* runs."""
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM],
            input=json.dumps({**self._config, "argv": argv, "count": count}),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        pairs = json.loads(done.stdout)
        return Times([output for output, _ in pairs], [end for _, end in pairs])


async def _shim_config(server: Server) -> Json:
    """The configuration that the shim would get, and its additions."""
    termination_log = server.data / "bare-termination-log"
    termination_log.touch()
    # Every container has this mount; it is half of the sandbox's work.
    mounts = (Mount(termination_log, "/dev/termination-log"),)
    config = ContainerConfig(
        RunId("bare"), "", ("true",), {"PATH": _PATH}, server.data / "bare.log", mounts=mounts
    )
    runtime = await ProcessRuntime.open(server.data, images={}, clock=time.time)
    try:
        wire = await runtime._shim_config(config)
        users = runtime._features["users"]
    finally:
        await runtime.close(stop_shim=False)
    return {**wire, "users": users, **{name: str(server.data / name) for name in ("stage", "scratch")}}
