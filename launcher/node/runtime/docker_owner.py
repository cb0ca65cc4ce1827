"""
The process to which containers of ``launcher run`` belong: they end with it.

A launcher that is killed cannot remove its containers, and no other one uses its data directory. So a label of them
names the process, and the next launcher that uses the engine removes those of an ended process.
"""

import logging
import os
from pathlib import Path

from launcher.core.errors import Unavailable
from launcher.node.runtime.docker_engine import DockerEngine, EngineError

log = logging.getLogger(__name__)

OWNER = "launcher.microsoft.com/owner"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
#: The position of the time of the start in /proc/PID/stat, after the name of the program.
_START_TIME = 19


def own_process() -> str:
    """This process, as no other one of any machine is named."""
    return f"{_scope()} {os.getpid()} {_start_time(os.getpid())}"


def has_ended(owner: str) -> bool:
    """Whether the process has ended; False if it belongs to another machine, boot or process namespace."""
    scope, pid, start_time = owner.split(" ")
    return scope == _scope() and _start_time(int(pid)) != start_time


def _scope() -> str:
    """The running kernel and the process namespace, in which process ids are unique."""
    return f"{_BOOT_ID.read_text().strip()}:{os.stat('/proc/self/ns/pid').st_ino}"


def _start_time(pid: int) -> str:
    """When the process was started; empty if it does not exist."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_START_TIME]
    except OSError:
        return ""


async def remove_abandoned(engine: DockerEngine) -> None:
    """Removes the containers of launchers that were killed, as far as the engine allows it now."""
    try:
        for container in await engine.containers({OWNER: ""}):
            if has_ended(container["Labels"][OWNER]):
                await engine.delete(container["Id"])
                log.warning("removed a container of a killed launcher", extra={"container": container["Id"]})
    except (EngineError, Unavailable) as error:
        log.warning("containers of killed launchers not removed", extra={"error": str(error)})
