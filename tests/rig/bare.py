"""The sandbox that a launcher gives its tasks, without the launcher."""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass

from launcher.node.container_runtime import ContainerConfig, Mount, RunId
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.node.runtime.shim_client import Json
from tests.local.server import PROJECT, Server

#: As the keeper is started: nothing of site-packages.
_PROGRAM = f"import sys; sys.path.append({str(PROJECT)!r}); from tests.rig.bare_sandbox import main; main()"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from the fork, one for each time: to the first output, and to the end."""

    to_output: list[float]
    to_end: list[float]


class BareSandbox:
    """Starts programs one after the other, each in the sandbox that a task of *server* would get."""

    def __init__(self, server: Server) -> None:
        self._order = asyncio.run(_order(server))
        #: How the launcher makes sandboxes on this machine.
        self.way: str = self._order["way"]

    def times(self, count: int, argv: tuple[str, ...]) -> Times:
        """How long each of *count* took."""
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", _PROGRAM],
            input=json.dumps({**self._order, "argv": argv, "count": count}),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        pairs = json.loads(done.stdout)
        return Times([said for said, _ in pairs], [ended for _, ended in pairs])


async def _order(server: Server) -> Json:
    """What the keeper would be told, and what it would add."""
    last_words = server.data / "bare-last-words"
    last_words.touch()
    # As every container has it, which makes half of the sandbox's work.
    mounts = (Mount(last_words, "/dev/termination-log"),)
    order = ContainerConfig(
        RunId("bare"), "", ("true",), {"PATH": _PATH}, server.data / "bare.log", mounts=mounts
    )
    runtime = await ProcessRuntime.open(server.data, images={}, clock=time.time)
    try:
        wire = await runtime._wire(order)
        users = runtime._abilities["users"]
    finally:
        await runtime.close(stop_keeper=False)
    return {**wire, "users": users, **{name: str(server.data / name) for name in ("stage", "scratch")}}
