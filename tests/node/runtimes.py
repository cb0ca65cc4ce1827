"""Process runtimes of every isolation mode of this machine, and container configs to start."""

import asyncio
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from launcher.node.container_runtime import ContainerConfig, ContainerRun, RunId
from launcher.node.runtime.process_runtime import ProcessRuntime, ShimOptions
from launcher.node.runtime.shim_client import ShimConnection
from tests.eventually import eventually

#: Seconds after which a test fails.
LIMIT = 20.0
_UNSHARE, _SETPRIV = shutil.which("unshare"), shutil.which("setpriv")
_AS_USER = f"{_UNSHARE} --user --map-user=1000 --map-group=1000 --"
#: Without any privileges, as in a locked-down container.
_UNPRIVILEGED = (
    f"{_UNSHARE} --user --map-root-user -- /bin/sh -c "
    f"'echo 0 >/proc/sys/user/max_user_namespaces; exec {_SETPRIV} --bounding-set=-all \"$@\"' sh"
)

#: The command prefix of the shim by isolation mode; if this is root, "user" is unshare as a normal user.
ISOLATION_MODES = {"unshare": ""}
if os.geteuid() == 0:
    ISOLATION_MODES["user"] = _AS_USER
if shutil.which("bwrap"):
    ISOLATION_MODES["bwrap"] = ""


def use_isolation(isolation: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restricts the shims that are started from now on to that *isolation*."""
    if isolation == "bwrap":
        _disable_unshare(monkeypatch)
    else:
        monkeypatch.setenv("PATH", "/nowhere")
    if isolation == "plain" or ISOLATION_MODES[isolation]:
        prefix = _UNPRIVILEGED if isolation == "plain" else ISOLATION_MODES[isolation]
        program = folder / "python"
        program.write_text(f'#!/bin/sh\nexec {prefix} {sys.executable} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(program))


def _disable_unshare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that permits only bubblewrap to create namespaces."""
    connect = ShimConnection.connect

    async def connected(data: Path, on_message: Callable[[dict[str, Any]], None]) -> ShimConnection:
        connection = await connect(data, on_message)
        connection.hello.result()["ways"] = ["bwrap"]
        return connection

    monkeypatch.setattr(ShimConnection, "connect", connected)


@asynccontextmanager
async def a_runtime(
    data: Path, images: dict[str, Path] | None = None, **options: Any
) -> AsyncIterator[ProcessRuntime]:
    """A runtime whose shim and runs are ended afterwards."""
    runtime = await ProcessRuntime.open(
        data, images=images or {}, clock=time.time, options=ShimOptions(**{"linger": 0.2, **options})
    )
    try:
        yield runtime
    finally:
        async with asyncio.timeout(LIMIT):
            await runtime.close(stop_shim=True)


def a_config(data: Path, *argv: str, run: str = "pod.main.0", **more: Any) -> ContainerConfig:
    """The config of a run of *argv*, with its log in *data*."""
    environment = more.pop("environment", {"PATH": "/usr/bin:/bin"})
    return ContainerConfig(
        RunId(run), more.pop("image", "image"), argv, environment, log_path(data, run), **more
    )


def shell(data: Path, script: str, **more: Any) -> ContainerConfig:
    return a_config(data, "/bin/sh", "-c", script, **more)


def log_path(data: Path, run: str = "pod.main.0") -> Path:
    return data / "logs" / f"{run}.log"


def log_text(data: Path, run: str = "pod.main.0") -> str:
    """The output of the run, both streams."""
    records = log_path(data, run).read_text().splitlines()
    return "".join(record[40:] + ("\n" if record[38] == "F" else "") for record in records)


async def wait_until_ended(runtime: ProcessRuntime, run: str = "pod.main.0") -> ContainerRun:
    """Waits for the end of the run, and returns it."""

    def probe() -> ContainerRun | None:
        found = runtime.list_containers().get(RunId(run))
        return found if found is not None and found.ended else None

    return await eventually(probe, f"{run} has ended")


async def run_to_end(runtime: ProcessRuntime, config: ContainerConfig) -> int:
    """Runs the container to its end, and returns the exit code."""
    run = await runtime.start_container(config)
    result = await wait_until_ended(runtime, run.id)
    assert result.ended is not None
    return result.ended.exit_code


def pids_matching(text: str) -> Sequence[int]:
    """The processes that have *text* in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and text.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def shim_pid(runtime: ProcessRuntime) -> int:
    pid: int = runtime._features["hello"]
    return pid


async def kill_shim(runtime: ProcessRuntime) -> None:
    """Kills the shim, and waits until the runtime is connected to another one."""
    old = shim_pid(runtime)
    os.kill(old, signal.SIGKILL)
    await eventually(lambda: shim_pid(runtime) != old)
