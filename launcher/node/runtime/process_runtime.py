"""Containers as processes of this machine: the runtime that needs nothing to be installed."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from launcher.core.errors import Conflict, Unavailable
from launcher.node.container_runtime import (
    ContainerConfig,
    ContainerRun,
    ExitStatus,
    Mount,
    RunId,
    StartFailed,
)
from launcher.node.runtime.shim_client import Json, ShimConnection, start_shim
from launcher.node.sandbox import planner
from launcher.node.sandbox.filesystem import Machine
from launcher.node.sandbox.mount_steps import bubblewrap_arguments, to_wire
from launcher.node.shim.release import release
from launcher.store.backoff import ExponentialBackoff

log = logging.getLogger(__name__)

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
#: How often to try before the keeper counts as unavailable.
_TRIES = 3
#: How long a keeper may take to end, in seconds.
_PATIENCE = 30.0
_NOT_A_WAY = (
    "this machine gives containers no files of their own, so volumes, images and read-only roots cannot be had: "
    "install bubblewrap, or allow user namespaces (sysctl user.max_user_namespaces), or start the launcher as root"
)
_NO_OTHER_USER = (
    "securityContext: containers are made by bubblewrap here, which cannot become another user; leave out runAsUser "
    "and runAsGroup, or allow the launcher to make namespaces itself (sysctl user.max_user_namespaces)"
)


@dataclass(frozen=True, slots=True)
class ShimOptions:
    """How the keeper of the containers keeps them."""

    #: A log of so many bytes is put aside, and a new one begun.
    log_bytes: int = 10 * 1024 * 1024
    #: How many logs that were put aside are kept.
    log_files: int = 3
    #: Bytes of all logs, and of those of one Framework.
    log_budget: int = 10 * 1024**3
    log_budget_framework: int = 1024**3
    #: Bytes that logs leave free on their disk.
    log_reserve: int = 256 * 1024**2
    #: Bytes per second that all logs together may grow by, and how many at once.
    log_rate: int = 32 * 1024**2
    log_burst: int = 64 * 1024**2
    #: Seconds after which a keeper that nobody needs ends.
    linger: float = 10.0
    #: Containers are killed when the launcher's connection ends, also after SIGKILL.
    ends_with_launcher: bool = False


_AS_USUAL = ShimOptions()


class ProcessRuntime:
    """Runs containers as processes. They and their keeper go on when the launcher ends, and are found again."""

    def __init__(
        self,
        data: Path,
        images: Mapping[str, Path],
        clock: Callable[[], float],
        keeping: ShimOptions,
        hidden: Sequence[Path],
    ) -> None:
        self._data, self._clock, self._keeping, self._hidden = data.absolute(), clock, keeping, hidden
        self._images = {name: directory.absolute() for name, directory in images.items()}
        self._runs: dict[RunId, ContainerRun] = {}
        self._ends: asyncio.Queue[ContainerRun] = asyncio.Queue()
        self._link: ShimConnection | None = None
        #: What the keeper told of this machine.
        self._abilities: Json = {}
        self._reconnecting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        images: Mapping[str, Path],
        clock: Callable[[], float],
        keeping: ShimOptions = _AS_USUAL,
        hidden: Sequence[Path] = (),
    ) -> Self:
        """
        A runtime that knows every run of *data*; its keeper is started if there is none. Raises Unavailable.

        Containers see nothing of the files and directories *hidden*, except for what is mounted for them.
        """
        runtime = cls(data, images, clock, keeping, hidden)
        await runtime._connect()
        runtime._reconnecting = asyncio.create_task(runtime._stay_connected())
        return runtime

    async def close(self, *, stop_keeper: bool) -> None:
        """Leave the runs to their keeper; or, with *stop_keeper*, kill what still runs and end the keeper too."""
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        if stop_keeper:
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._stop()
        if self._link is not None:
            self._link.close()

    async def _stop(self) -> None:
        if self._link is None or self._link.over.is_set():
            # Without its keeper a run would go on for ever.
            await self._connect()
        await self._ask("stop")
        assert self._link is not None
        await self._link.over.wait()

    async def start(self, order: ContainerConfig) -> ContainerRun:
        if (known := self._runs.get(order.id)) is not None:
            return known
        answer = await self._ask("start", order=await self._wire(order))
        if "cannot" in answer:
            raise StartFailed(answer["cannot"]["reason"], answer["cannot"]["message"])
        if "unavailable" in answer:
            raise Unavailable(f"{order.id} cannot be started now: {answer['unavailable']}")
        run = _run(answer["run"])
        # Its end may have been heard of already: the loop hears everything before anybody who waits goes on.
        return self._runs.setdefault(run.id, run)

    def runs(self) -> Mapping[RunId, ContainerRun]:
        return self._runs

    def exits(self) -> AsyncIterator[ContainerRun]:
        self._ends = asyncio.Queue()
        return _each(self._ends)

    async def signal(self, run: RunId, number: int) -> None:
        await self._ask("signal", run=run, number=number)

    async def execute(self, run: RunId, argv: Sequence[str], *, within: float) -> tuple[int, bytes]:
        answer = await self._ask("execute", run=run, argv=list(argv), within=within)
        return answer["code"], answer["output"].encode("latin-1")

    async def remove(self, run: RunId) -> None:
        answer = await self._ask("forget", run=run)
        if not answer["forgotten"]:
            raise Conflict(f"{run} still runs")
        self._runs.pop(run, None)

    def unsupported_features(self, order: ContainerConfig) -> Sequence[str]:
        asked = {
            "files": True,
            "memory": order.limits.memory is not None,
            "cpu": order.limits.cpu is not None,
            "hostname": bool(order.hostname),
            "pids": order.limits.pids is not None,
            "confinement": order.confinement.no_new_privileges or order.confinement.filtered,
        }
        return [sentence for what, sentence in self._abilities["cannot"].items() if asked[what]]

    async def _ask(self, what: str, **words: object) -> Json:
        if self._link is None:
            raise Unavailable("the keeper of the containers has gone; it is started again")
        return await self._link.request(what, **words)

    # The connection

    async def _connect(self) -> None:
        """Speak to the keeper, and know what it knows."""
        for _ in range(_TRIES):
            try:
                link = await ShimConnection.connect(self._data, self._hear)
            except (OSError, Unavailable):
                await start_shim(self._data, asdict(self._keeping))
                continue
            if link.hello.result().get("release") != release():
                await _retire(link)
                continue
            self._link, self._abilities = link, link.hello.result()
            self._compare({run.id: run for run in map(_run, self._abilities.pop("runs"))})
            with suppress(Unavailable):  # gone again: the next one is configured
                # One that was started by an earlier launcher has the options of that one.
                await link.request("configure", options=asdict(self._keeping))
            return
        raise Unavailable(f"the keeper of {self._data} does not answer; see keeper.log there")

    async def _stay_connected(self) -> None:
        pauses = ExponentialBackoff(first=0.05, most=5.0)
        while True:
            assert self._link is not None
            await self._link.over.wait()
            log.warning("keeper of the containers has gone", extra={"data": str(self._data)})
            try:
                await self._connect()
                pauses.reset()
            except Unavailable as error:
                log.error("keeper of the containers cannot be started", extra={"why": str(error)})
                await asyncio.sleep(pauses.next_delay())

    def _compare(self, now: dict[RunId, ContainerRun]) -> None:
        """What has happened while nobody was told."""
        for run in now.values():
            self._see(run)
        for run in [run for run in self._runs.values() if run.id not in now]:
            if run.ended is None:
                # Somebody has taken its record away.
                ended = ExitStatus(137, self._clock(), is_estimated=True)
                self._see(ContainerRun(run.id, run.started, ended))
            else:
                del self._runs[run.id]

    def _hear(self, words: Json) -> None:
        if "ended" in words:
            self._see(_run(words["ended"]))
        elif "changed" in words:
            run = _run(words["changed"])
            if (known := self._runs.get(run.id)) is not None and known.ended is None:
                self._runs[run.id] = run
                self._ends.put_nowait(run)

    def _see(self, run: ContainerRun) -> None:
        before = self._runs.get(run.id)
        if before is not None and before.ended is not None:
            return  # the end of a run is the last thing to know of it, and may overtake what was told before
        self._runs[run.id] = run
        if run.ended is not None:
            self._ends.put_nowait(run)

    # Orders

    async def _wire(self, order: ContainerConfig) -> Json:
        """The order as the keeper reads it. Raises StartFailed."""
        self._check_user(order)
        wire: Json = {
            "id": order.id,
            "argv": list(order.argv),
            "environment": dict(order.environment),
            "log": str(order.log),
            "log_group": order.log_group,
            "directory": order.directory,
            "user": order.user,
            "group": order.group,
            "groups": list(order.groups),
            "memory": order.limits.memory,
            "cpu": order.limits.cpu,
            "pids": order.limits.pids,
            "oom_score": order.oom_score,
            "hostname": order.hostname if self._abilities["hostname"] else "",
            "capabilities": None
            if order.confinement.capabilities is None
            else [*order.confinement.capabilities],
            "no_new_privileges": order.confinement.no_new_privileges,
            "filtered": order.confinement.filtered,
        }
        return wire | await self._files(order)

    def _check_user(self, order: ContainerConfig) -> None:
        if os.geteuid() == 0:
            return
        ours = order.user in (None, os.geteuid()) and order.group in (None, os.getegid())
        if not ours or not set(order.groups) <= {os.getegid(), *os.getgroups()}:
            raise StartFailed(
                "CreateContainerConfigError",
                f"securityContext: the launcher runs as user {os.geteuid()} and group {os.getegid()}; "
                "to run containers as anybody else it has to be started as root",
            )

    async def _files(self, order: ContainerConfig) -> Json:
        """Which way to take, and the steps of it."""
        image = self._images.get(order.image)
        ways: list[str] = self._abilities["ways"]
        if not ways:
            if order.mounts or image is not None or order.read_only_root:
                raise StartFailed("CreateContainerConfigError", _NOT_A_WAY)
            return {"way": "plain"}
        overlays = self._abilities["overlay"]
        way = ways[0]
        if way == "bwrap" and (order.user, order.group) != (None, None):
            raise StartFailed("CreateContainerConfigError", _NO_OTHER_USER)

        def planned() -> Json:
            steps = planner.plan(
                Machine(),
                [*order.mounts, *_control_groups(order)],
                image=Path(os.path.realpath(image)) if image is not None else None,
                read_only_root=order.read_only_root,
                overlays=overlays and way == "unshare",
                # Resolved at each start: a file that is replaced may be a link to another one now.
                hidden=[os.path.realpath(path) for path in self._hidden],
            )
            if way == "unshare":
                return {"way": way, "steps": [to_wire(step) for step in steps]}
            named = ["--unshare-uts", "--hostname", order.hostname] if order.hostname else []
            arguments = [*named, *bubblewrap_arguments(steps)]
            return {"way": way, "bwrap": self._abilities["bwrap"], "arguments": arguments}

        try:
            if image is None and all(mount.source.is_relative_to(self._data) for mount in order.mounts):
                return planned()
            # A volume may be of a server that does not answer: others must not wait for it.
            return await asyncio.to_thread(planned)
        except planner.InvalidMount as error:
            raise StartFailed("CreateContainerConfigError", str(error)) from error


def _control_groups(order: ContainerConfig) -> Sequence[Mount]:
    """Control groups, read-only: otherwise root, or the user to whom systemd delegates them, could lift its limits."""
    if order.confinement.capabilities is None or not _CONTROL_GROUPS.is_dir():
        return ()
    return (Mount(_CONTROL_GROUPS, str(_CONTROL_GROUPS), read_only=True),)


async def _retire(link: ShimConnection) -> None:
    """Return when that keeper has ended. Its containers go on, and the next keeper takes them over."""
    log.warning("keeper of the containers is of another release, and is replaced")
    with suppress(ProcessLookupError):
        os.kill(link.hello.result()["hello"], signal.SIGTERM)
    await link.over.wait()


def _run(told: Json) -> ContainerRun:
    ended = told["ended"]
    return ContainerRun(
        RunId(told["id"]),
        told["started"],
        None
        if ended is None
        else ExitStatus(ended["exit_code"], ended["at"], ended["out_of_memory"], ended["unseen"]),
        told["oom_kills"],
    )


async def _each(ends: asyncio.Queue[ContainerRun]) -> AsyncIterator[ContainerRun]:
    while True:
        yield await ends.get()
