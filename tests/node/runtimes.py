"""Runtimes of every way in which containers can be started here, and orders to give them."""

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

#: Nothing here takes longer.
LIMIT = 20.0
_UNSHARE, _SETPRIV = shutil.which("unshare"), shutil.which("setpriv")
_AS_USER = f"{_UNSHARE} --user --map-user=1000 --map-group=1000 --"
#: No right to anything, as in a locked-down container.
_POWERLESS = (
    f"{_UNSHARE} --user --map-root-user -- /bin/sh -c "
    f"'echo 0 >/proc/sys/user/max_user_namespaces; exec {_SETPRIV} --bounding-set=-all \"$@\"' sh"
)

#: How the keeper is started, by the name of the way; as root and, if this is root, as a normal user.
WAYS = {"unshare": ""}
if os.geteuid() == 0:
    WAYS["user"] = _AS_USER
if shutil.which("bwrap"):
    WAYS["bwrap"] = ""


def use_way(way: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepers that are started from now on know that *way* only."""
    if way == "bwrap":
        _forget_our_own_way(monkeypatch)
    else:
        monkeypatch.setenv("PATH", "/nowhere")
    if way == "plain" or WAYS[way]:
        prefix = _POWERLESS if way == "plain" else WAYS[way]
        program = folder / "python"
        program.write_text(f'#!/bin/sh\nexec {prefix} {sys.executable} "$@"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(program))


def _forget_our_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that lets only bubblewrap make namespaces."""
    connect = ShimConnection.connect

    async def connected(data: Path, heard: Callable[[dict[str, Any]], None]) -> ShimConnection:
        link = await connect(data, heard)
        link.hello.result()["ways"] = ["bwrap"]
        return link

    monkeypatch.setattr(ShimConnection, "connect", connected)


@asynccontextmanager
async def a_runtime(
    data: Path, images: dict[str, Path] | None = None, **keeping: Any
) -> AsyncIterator[ProcessRuntime]:
    """A runtime whose keeper and runs are gone afterwards, whatever has happened to them."""
    runtime = await ProcessRuntime.open(
        data, images=images or {}, clock=time.time, keeping=ShimOptions(**{"linger": 0.2, **keeping})
    )
    try:
        yield runtime
    finally:
        async with asyncio.timeout(LIMIT):
            await runtime.close(stop_keeper=True)


def an_order(data: Path, *argv: str, run: str = "pod.main.0", **more: Any) -> ContainerConfig:
    """An order of that command line, with its log in *data*."""
    environment = more.pop("environment", {"PATH": "/usr/bin:/bin"})
    return ContainerConfig(
        RunId(run), more.pop("image", "image"), argv, environment, log_of(data, run), **more
    )


def shell(data: Path, script: str, **more: Any) -> ContainerConfig:
    return an_order(data, "/bin/sh", "-c", script, **more)


def log_of(data: Path, run: str = "pod.main.0") -> Path:
    return data / "logs" / f"{run}.log"


def said(data: Path, run: str = "pod.main.0") -> str:
    """What the run wrote, both streams."""
    records = log_of(data, run).read_text().splitlines()
    return "".join(record[40:] + ("\n" if record[38] == "F" else "") for record in records)


async def ended(runtime: ProcessRuntime, run: str = "pod.main.0") -> ContainerRun:
    """The run, once it is over."""
    over: ContainerRun = await until(
        lambda: (found := runtime.runs().get(RunId(run))) and found.ended and found
    )
    return over


async def until(true: Any) -> Any:
    """What *true* answers, once that is something."""
    async with asyncio.timeout(LIMIT):
        while not (answer := true()):  # noqa: ASYNC110 - nobody tells when it is
            await asyncio.sleep(0.005)
    return answer


async def finished(runtime: ProcessRuntime, order: ContainerConfig) -> int:
    """The exit code of the order, carried out."""
    run = await runtime.start(order)
    over = await ended(runtime, run.id)
    assert over.ended is not None
    return over.ended.exit_code


def processes_with(mark: str) -> Sequence[int]:
    """The processes that have *mark* in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdecimal() and mark.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def keeper_of(runtime: ProcessRuntime) -> int:
    pid: int = runtime._abilities["hello"]
    return pid


async def kill_keeper(runtime: ProcessRuntime) -> None:
    """The keeper is dead, and the runtime speaks to another one."""
    old = keeper_of(runtime)
    os.kill(old, signal.SIGKILL)
    await until(lambda: keeper_of(runtime) != old)
