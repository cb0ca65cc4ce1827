"""The container runtime that runs containers as processes of this machine."""

import asyncio
import logging
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Self

from launcher.core.errors import Conflict, Unavailable
from launcher.core.pods.exec_session import PodAttachOptions, PodExecOptions
from launcher.node.container_runtime import (
    ContainerConfig,
    ContainerRun,
    ExitStatus,
    Mount,
    PodSandboxConfig,
    ResourceUsage,
    RunId,
    StartFailed,
)
from launcher.node.runtime.attach_session import LogAttachSession
from launcher.node.runtime.exec_session import ProcessExecSession
from launcher.node.runtime.shim_client import SHIM_EXITED, Json, ShimConnection, start_shim
from launcher.node.runtime.usage import ProcessTree, usage_of
from launcher.node.sandbox import planner
from launcher.node.sandbox.filesystem import Machine
from launcher.node.sandbox.mount_steps import bubblewrap_arguments, to_wire
from launcher.node.shim import run_records
from launcher.node.shim.bubblewrap import BubblewrapIsolation
from launcher.node.shim.isolation import PlainIsolation, UnshareIsolation
from launcher.node.shim.release import release
from launcher.store.backoff import ExponentialBackoff

log = logging.getLogger(__name__)

_CGROUPS = Path("/sys/fs/cgroup")
_CONNECT_ATTEMPTS = 3
_STOP_TIMEOUT_SECONDS = 30.0
_NO_NAMESPACES = (
    "containers have no namespaces on this machine, so volumes, images and read-only roots are not supported: "
    "install bubblewrap, or allow user namespaces (sysctl user.max_user_namespaces), or start the launcher as root"
)
_NO_POD_NETWORK = (
    "the launcher is not permitted to create namespaces on this machine, so the pod cannot have a network of its own: "
    "start the launcher with --pod-network shared"
)
_NO_OTHER_USER = (
    "securityContext: bubblewrap, which isolates containers on this machine, cannot change the user; remove runAsUser "
    "and runAsGroup, or allow the launcher to create namespaces (sysctl user.max_user_namespaces)"
)


@dataclass(frozen=True, slots=True)
class ShimOptions:
    """The options of the shim."""

    #: The size at which a log is rotated, in bytes.
    log_bytes: int = 10 * 1024 * 1024
    #: The number of rotated logs that are retained.
    log_files: int = 3
    #: Bytes of all logs, and of those of one Framework.
    log_budget: int = 10 * 1024**3
    log_budget_framework: int = 1024**3
    #: Bytes that logs leave free on their disk.
    log_reserve: int = 256 * 1024**2
    #: Bytes per second that are written to all logs, and the burst.
    log_rate: int = 32 * 1024**2
    log_burst: int = 64 * 1024**2
    #: Seconds after which a shim without containers and connections exits.
    linger: float = 10.0
    #: Containers are killed when the launcher's connection is closed, also after SIGKILL.
    ends_with_launcher: bool = False


_DEFAULT_OPTIONS = ShimOptions()


class ProcessRuntime:
    """Runs containers as processes. They and the shim continue when the launcher exits; the next one recovers them."""

    def __init__(
        self,
        data: Path,
        images: Mapping[str, Path],
        clock: Callable[[], float],
        options: ShimOptions,
        hidden: Sequence[Path],
    ) -> None:
        self._data, self._clock, self._options, self._hidden = data.absolute(), clock, options, hidden
        # The root of this machine needs no overlay.
        self._images = {
            name: directory.absolute() for name, directory in images.items() if directory != Path("/")
        }
        self._runs: dict[RunId, ContainerRun] = {}
        self._exits: asyncio.Queue[ContainerRun] = asyncio.Queue()
        self._connection: ShimConnection | None = None
        #: The shim's hello: its pid and the features of this machine.
        self._features: Json = {}
        self._reconnecting: asyncio.Task[None] | None = None

    @classmethod
    async def open(
        cls,
        data: Path,
        *,
        images: Mapping[str, Path],
        clock: Callable[[], float],
        options: ShimOptions = _DEFAULT_OPTIONS,
        hidden: Sequence[Path] = (),
    ) -> Self:
        """
        Connect to the shim of *data*, which is started if there is none, and recover its runs.

        The files and directories *hidden* are not visible in containers, except for mounts. Raises Unavailable.
        """
        runtime = cls(data, images, clock, options, hidden)
        await runtime._connect()
        runtime._reconnecting = asyncio.create_task(runtime._stay_connected())
        return runtime

    async def close(self, *, stop_shim: bool) -> None:
        """Disconnects from the shim; with *stop_shim*, kills all containers and ends the shim before."""
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            await asyncio.gather(self._reconnecting, return_exceptions=True)
        if stop_shim:
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                    await self._stop()
        if self._connection is not None:
            self._connection.close()

    async def _stop(self) -> None:
        if self._connection is None or self._connection.closed.is_set():
            # Without a shim the containers would never be killed.
            await self._connect()
        await self._request("stop")
        assert self._connection is not None
        await self._connection.closed.wait()

    def version(self) -> str:
        return f"process://{metadata.version('framework-launcher')}"

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> int | None:  # noqa: ARG002  # it needs no process
        return None

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        pass

    async def start_container(self, config: ContainerConfig) -> ContainerRun:
        if (run := self._runs.get(config.id)) is not None:
            return run
        response = await self._request("start", order=await self._shim_config(config))
        if "cannot" in response:
            raise StartFailed(response["cannot"]["reason"], response["cannot"]["message"])
        if "unavailable" in response:
            raise Unavailable(f"{config.id} cannot be started now: {response['unavailable']}")
        run = _run(response["run"])
        # Its exit may have been received already: all messages are handled before a waiting caller resumes.
        return self._runs.setdefault(run.id, run)

    def list_containers(self) -> Mapping[RunId, ContainerRun]:
        return self._runs

    def get_container_events(self) -> AsyncIterator[ContainerRun]:
        self._exits = asyncio.Queue()
        return _items(self._exits)

    async def signal(self, run: RunId, number: int) -> None:
        await self._request("signal", run=run, number=number)

    async def exec_sync(
        self, run: RunId, argv: Sequence[str], *, timeout_seconds: float
    ) -> tuple[int, bytes]:
        response = await self._request("execute", run=run, argv=list(argv), within=timeout_seconds)
        return response["code"], response["output"].encode("latin-1")

    async def exec(self, run: RunId, options: PodExecOptions) -> ProcessExecSession:
        return await ProcessExecSession.open(self._data, run, options)

    async def attach(self, run: RunId, options: PodAttachOptions) -> LogAttachSession:
        directory = self._data / "runs" / run
        record = run_records.read(str(directory), run_records.RECORD)
        if record is None:
            raise Unavailable(f"{run} is not running")
        return await LogAttachSession.open(Path(record["order"]["log"]), options, directory)

    async def list_container_stats(self) -> Mapping[RunId, ResourceUsage]:
        running = [run.id for run in self._runs.values() if run.ended is None]
        return await asyncio.to_thread(self._read_usage, running)

    def _read_usage(self, runs: Sequence[RunId]) -> Mapping[RunId, ResourceUsage]:
        processes = ProcessTree()
        records = ((run, run_records.read(f"{self._data}/runs/{run}", run_records.RECORD)) for run in runs)
        return {
            run: usage_of(record["pid"], record["cgroups"], processes)
            for run, record in records
            if record is not None
        }

    async def remove_container(self, run: RunId) -> None:
        response = await self._request("forget", run=run)
        if not response["forgotten"]:
            raise Conflict(f"{run} is still running")
        self._runs.pop(run, None)

    def unsupported_features(self, config: ContainerConfig) -> Sequence[str]:
        used = {
            "files": True,
            "memory": config.limits.memory is not None,
            "cpu": config.limits.cpu is not None,
            "hostname": bool(config.hostname),
            "pids": config.limits.pids is not None,
            "confinement": config.confinement.no_new_privileges or config.confinement.filtered,
        }
        return [sentence for feature, sentence in self._features["cannot"].items() if used[feature]]

    async def _request(self, operation: str, **fields: object) -> Json:
        if self._connection is None:
            raise Unavailable(SHIM_EXITED)
        return await self._connection.request(operation, **fields)

    # The connection

    async def _connect(self) -> None:
        """Connects to the shim, which is started if there is none, and synchronises the runs."""
        for _ in range(_CONNECT_ATTEMPTS):
            try:
                connection = await ShimConnection.connect(self._data, self._on_message)
            except (OSError, Unavailable):
                await start_shim(self._data, asdict(self._options))
                continue
            if connection.hello.result().get("release") != release():
                await _end_shim(connection)
                continue
            self._connection, self._features = connection, connection.hello.result()
            self._synchronize({run.id: run for run in map(_run, self._features.pop("runs"))})
            with suppress(Unavailable):  # the shim exited again: the next one is configured
                # A shim that an earlier launcher started has the options of that one.
                await connection.request("configure", options=asdict(self._options))
            return
        raise Unavailable(f"the container shim of {self._data} does not respond; see keeper.log there")

    async def _stay_connected(self) -> None:
        backoff = ExponentialBackoff(initial=0.05, maximum=5.0)
        while True:
            assert self._connection is not None
            await self._connection.closed.wait()
            log.warning("container shim exited", extra={"data": str(self._data)})
            try:
                await self._connect()
                backoff.reset()
            except Unavailable as error:
                log.error("container shim not started", extra={"error": str(error)})
                await asyncio.sleep(backoff.next_delay())

    def _synchronize(self, current: dict[RunId, ContainerRun]) -> None:
        """Applies the changes that were not received while there was no connection."""
        for run in current.values():
            self._update(run)
        for run in [run for run in self._runs.values() if run.id not in current]:
            if run.ended is None:
                # Its record was deleted by another process.
                self._update(replace(run, ended=ExitStatus.unknown(self._clock())))
            else:
                del self._runs[run.id]

    def _on_message(self, message: Json) -> None:
        if "ended" in message:
            self._update(_run(message["ended"]))
        elif "changed" in message:
            run = _run(message["changed"])
            if (current := self._runs.get(run.id)) is not None and current.ended is None:
                self._runs[run.id] = run
                self._exits.put_nowait(run)

    def _update(self, run: ContainerRun) -> None:
        current = self._runs.get(run.id)
        if current is not None and current.ended is not None:
            return  # the end of a run is final, and may have been received before an older state
        self._runs[run.id] = run
        if run.ended is not None:
            self._exits.put_nowait(run)

    # The config for the shim

    async def _shim_config(self, config: ContainerConfig) -> Json:
        """*config* in the format of the shim. Raises StartFailed."""
        self._check_user(config)
        fields: Json = {
            "id": config.id,
            "argv": list(config.argv),
            "environment": dict(config.environment),
            "log": str(config.log),
            "log_group": config.log_group,
            "directory": config.directory,
            "user": config.user,
            "group": config.group,
            "groups": list(config.groups),
            "memory": config.limits.memory,
            "cpu": config.limits.cpu,
            "pids": config.limits.pids,
            "oom_score": config.oom_score,
            "hostname": config.hostname if self._features["hostname"] else "",
            "network": str(config.network) if config.network else "",
            "capabilities": None
            if config.confinement.capabilities is None
            else [*config.confinement.capabilities],
            "no_new_privileges": config.confinement.no_new_privileges,
            "filtered": config.confinement.filtered,
        }
        return fields | _streams(config) | await self._isolation(config)

    def _check_user(self, config: ContainerConfig) -> None:
        if os.geteuid() == 0:
            return
        is_own_user = config.user in (None, os.geteuid()) and config.group in (None, os.getegid())
        if not is_own_user or not set(config.groups) <= {os.getegid(), *os.getgroups()}:
            raise StartFailed(
                "CreateContainerConfigError",
                f"securityContext: the launcher runs as user {os.geteuid()} and group {os.getegid()}; "
                "start it as root to run containers as another user",
            )

    async def _isolation(self, config: ContainerConfig) -> Json:
        """The isolation mode (``way``) of *config*, with the mount steps or the arguments of bwrap."""
        image = self._images.get(config.image)
        modes: list[str] = self._features["ways"]
        if config.network is not None and modes[:1] != [UnshareIsolation.name]:
            raise StartFailed("CreateContainerConfigError", _NO_POD_NETWORK)
        if not modes:
            if config.mounts or image is not None or config.read_only_root:
                raise StartFailed("CreateContainerConfigError", _NO_NAMESPACES)
            return {"way": PlainIsolation.name}
        mode = modes[0]
        uses_bubblewrap = mode == BubblewrapIsolation.name
        if uses_bubblewrap and (config.user, config.group) != (None, None):
            raise StartFailed("CreateContainerConfigError", _NO_OTHER_USER)
        overlays = self._features["overlay"] and not uses_bubblewrap

        def plan_mounts() -> Json:
            steps = planner.plan(
                Machine(),
                [*config.mounts, *_cgroup_mounts(config)],
                image=Path(os.path.realpath(image)) if image is not None else None,
                read_only_root=config.read_only_root,
                overlays=overlays,
                # Resolved at each start: a replaced file may be a link to another one now.
                hidden=[os.path.realpath(path) for path in self._hidden],
            )
            if not uses_bubblewrap:
                return {"way": mode, "steps": [to_wire(step) for step in steps]}
            hostname = ["--unshare-uts", "--hostname", config.hostname] if config.hostname else []
            arguments = [*hostname, *bubblewrap_arguments(steps)]
            fields = {"way": mode, "bwrap": self._features["bwrap"], "arguments": arguments}
            if config.tty and (program := shutil.which("setsid")):
                # bwrap does not make the terminal the controlling one.
                fields["argv"] = [program, "--ctty", *config.argv]
            return fields

        try:
            if image is None and all(mount.source.is_relative_to(self._data) for mount in config.mounts):
                return plan_mounts()
            # In a thread: a volume may be of a server that does not respond.
            return await asyncio.to_thread(plan_mounts)
        except planner.InvalidMount as error:
            raise StartFailed("CreateContainerConfigError", str(error)) from error


def _streams(config: ContainerConfig) -> Json:
    """The fields for the streams of a container; none if it has neither input nor a terminal."""
    fields: Json = {}
    if config.stdin or config.tty:
        fields |= {"stdin": config.stdin, "stdin_once": config.stdin_once, "tty": config.tty}
    if config.tty:
        fields["environment"] = {"TERM": "xterm", **config.environment}
    return fields


def _cgroup_mounts(config: ContainerConfig) -> Sequence[Mount]:
    """The cgroups, read-only: otherwise root, or the user to whom systemd delegates them, could raise the limits."""
    if config.confinement.capabilities is None or not _CGROUPS.is_dir():
        return ()
    return (Mount(_CGROUPS, str(_CGROUPS), read_only=True),)


async def _end_shim(connection: ShimConnection) -> None:
    """Ends that shim. Its containers continue, and the next shim recovers them."""
    log.warning("container shim is of another release and is replaced")
    with suppress(ProcessLookupError):
        os.kill(connection.hello.result()["hello"], signal.SIGTERM)
    await connection.closed.wait()


def _run(fields: Json) -> ContainerRun:
    ended = fields["ended"]
    status = _exit_status(ended) if ended is not None else None
    run = RunId(fields["id"])
    return ContainerRun(run, fields["started"], status, fields["oom_kills"], f"process://{run}")


def _exit_status(fields: Json) -> ExitStatus:
    if fields["unseen"]:
        return ExitStatus.unknown(fields["at"])
    return ExitStatus.of_process(fields["exit_code"], fields["at"], out_of_memory=fields["out_of_memory"])


async def _items(queue: asyncio.Queue[ContainerRun]) -> AsyncIterator[ContainerRun]:
    while True:
        yield await queue.get()
