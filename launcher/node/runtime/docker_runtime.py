"""
The container runtime that runs containers of images, by Docker or Podman.

Containers belong to the engine and continue when the launcher ends. Each has labels by which the next launcher of the
same data directory finds it, and a name that contains its run, so that no run is started twice.
"""

import asyncio
import logging
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import time_ns
from typing import Any, Self
from uuid import uuid4

from launcher.core.errors import Conflict, Unavailable
from launcher.core.pods.exec_session import ExecSession, PodAttachOptions, PodExecOptions
from launcher.node.container_runtime import (
    ContainerConfig,
    ContainerRun,
    ExitStatus,
    PodSandboxConfig,
    ResourceUsage,
    RunId,
    StartFailed,
)
from launcher.node.pods.gpus import GPU_RESOURCE
from launcher.node.runtime.attach_session import LogAttachSession
from launcher.node.runtime.docker_attach import DockerAttachSession
from launcher.node.runtime.docker_container import (
    IMAGE_REF,
    INSTANCE,
    LOG,
    LOG_GROUP,
    RUN,
    container_name,
    create_failure,
    create_options,
    exit_status,
    has_ended,
    has_started,
    has_terminal,
    kill_processes,
    resource_usage,
    start_failure,
    started_at,
)
from launcher.node.runtime.docker_engine import DockerEngine, EngineError, as_unavailable
from launcher.node.runtime.docker_exec import DockerExecSession, execute
from launcher.node.runtime.docker_logs import ResumableLogWriter, copy_log, is_complete, log_entries
from launcher.node.runtime.docker_oom import OomMonitor
from launcher.node.runtime.docker_owner import OWNER, own_process
from launcher.node.runtime.docker_sandbox import DockerSandboxes
from launcher.node.runtime.process_runtime import ShimOptions
from launcher.node.shim.log_limits import LogLimits
from launcher.store.backoff import ExponentialBackoff, wait_or_timeout

log = logging.getLogger(__name__)

Json = dict[str, Any]

#: Containers that are started at the same time: more would only delay each other.
_CONCURRENT_STARTS = 8
_CONCURRENT_STATS = 16
_STOP_TIMEOUT_SECONDS = 30.0
#: The end of a log stream is awaited after that of the container only if reading the whole log again takes longer.
_LOG_END_BYTES, _LOG_END_SECONDS = 1024 * 1024, 2.0
#: The number of times that the log of an ended container is read before the rest is given up.
_LOG_ATTEMPTS = 5
#: The interval at which running containers are checked while no event arrives.
_CHECK_SECONDS = 30.0
_NAME_IN_USE = "already in use"
_PARTLY_REMOVED = re.compile(r'getting container from store "([0-9a-f]{64})": container not known')
_EVENTS = ("die", "died", "oom", "remove", "destroy")
#: Exit codes of a container that the engine has ended itself, or whose exit it has lost, because it was restarted.
_ENDED_BY_ENGINE = (128 + signal.SIGKILL, 128 + signal.SIGTERM, 255)


@dataclass(slots=True)
class _WatchedRun:
    """A run whose container is watched."""

    log: Path
    log_group: str
    #: Set when the container may have ended.
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[None] | None" = None
    #: The launcher has sent a signal to it.
    signalled: bool = False


class DockerRuntime:
    """Runs containers by a container engine."""

    def __init__(
        self,
        engine: DockerEngine,
        instance: str,
        clock: Callable[[], float],
        options: ShimOptions,
        hidden: Sequence[Path],
    ) -> None:
        self._engine, self._instance, self._clock, self._hidden = engine, instance, clock, hidden
        self._log_limits = LogLimits(asdict(options), asyncio.get_running_loop().time())
        #: Of all containers.
        self._labels = {INSTANCE: instance}
        if options.ends_with_launcher:
            self._labels[OWNER] = own_process()
        #: None for Podman, whose containers enter network namespaces that exist.
        self._sandboxes = None if engine.is_podman else DockerSandboxes(engine, self._labels)
        self._runs: dict[RunId, ContainerRun] = {}
        self._watched: dict[RunId, _WatchedRun] = {}
        self._exits: asyncio.Queue[ContainerRun | Unavailable] = asyncio.Queue()
        self._starts = asyncio.Semaphore(_CONCURRENT_STARTS)
        #: Runs that this process is starting.
        self._starting: set[RunId] = set()
        self._stats_calls = asyncio.Semaphore(_CONCURRENT_STATS)
        #: Set while the engine responds.
        self._available = asyncio.Event()
        self._outage_began: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        #: What the engine supports, once it has responded.
        self._features: Json = {}

    @classmethod
    async def open(
        cls,
        data: Path,
        engine: DockerEngine,
        *,
        clock: Callable[[], float],
        options: ShimOptions,
        hidden: Sequence[Path] = (),
    ) -> Self:
        """
        Find the containers of the data directory in the engine. Raises Unavailable.

        The files and directories *hidden* cannot be reached through host paths.
        """
        runtime = cls(engine, _instance(data), clock, options, hidden)
        with as_unavailable():
            await runtime._synchronize()
        runtime._available.set()
        # In the background: Podman takes seconds.
        runtime._tasks = [
            asyncio.create_task(runtime._monitor()),
            asyncio.create_task(runtime._read_features()),
        ]
        return runtime

    async def close(self, *, stop_containers: bool) -> None:
        """Ends the observation of containers; with *stop_containers*, kills and removes them."""
        tasks = [watched.task for watched in self._watched.values() if watched.task is not None]
        tasks += self._tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if stop_containers:
            with suppress(Unavailable, EngineError, TimeoutError):
                async with asyncio.timeout(_STOP_TIMEOUT_SECONDS):
                    await asyncio.gather(*(self._engine.delete(container_name(run)) for run in self._runs))
                    if self._sandboxes is not None:
                        await self._sandboxes.remove_all()

    def version(self) -> str:
        return f"{self._engine.name.lower()}://{self._engine.version}"

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> int | None:
        return await self._sandboxes.run(config) if self._sandboxes is not None else None

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        if self._sandboxes is not None:
            await self._sandboxes.remove(pod_uid)

    async def start_container(self, config: ContainerConfig) -> ContainerRun:
        if (run := self._runs.get(config.id)) is not None:
            return run
        async with self._starts:
            self._require_available()
            self._starting.add(config.id)
            try:
                with as_unavailable():
                    started = await self._start(config)
            finally:
                self._starting.discard(config.id)
        run = self._runs.setdefault(config.id, started)
        self._watch(run.id, config.log, config.log_group)
        return run

    async def _start(self, config: ContainerConfig) -> ContainerRun:
        """Starts the container, unless an earlier call has, and returns its run."""
        name = container_name(config.id)
        if config.gpus and (reason := self._engine.why_without_gpus()):
            raise StartFailed("CreateContainerConfigError", f"{GPU_RESOURCE}: {reason}")
        options = create_options(config, self._labels, self._hidden, podman=self._engine.is_podman)
        try:
            container = await self._engine.create(name, options)
        except EngineError as error:
            shown = await self._engine.inspect(name)
            if shown is None and _NAME_IN_USE in str(error):
                # Podman was killed while it created the container, and has its storage only.
                await self._engine.delete(name)
                raise Unavailable(str(error)) from error
            if shown is None or shown["Config"]["Labels"].get(INSTANCE) != self._instance:
                raise create_failure(str(error)) from error
            if has_started(shown):
                return self._run(config.id, shown)
            await self._remove_interrupted(shown)
            raise Unavailable(str(error)) from error
        try:
            await self._engine.start(name)
        except EngineError as error:
            await self._engine.delete(name)
            raise start_failure(str(error)) from error
        started = self._clock()
        return ContainerRun(
            config.id, started, container_id=self._container_id(container), image_ref=config.image_ref
        )

    def _run(self, run: RunId, shown: Json) -> ContainerRun:
        """The run of a container that was started, as inspected."""
        ref = shown["Config"]["Labels"].get(IMAGE_REF, "")
        return ContainerRun(
            run, started_at(shown), container_id=self._container_id(shown["Id"]), image_ref=ref
        )

    def _container_id(self, container: str) -> str:
        return f"{self._engine.name.lower()}://{container}"

    async def _remove_interrupted(self, shown: Json) -> None:
        """
        Removes a container whose start was interrupted.

        An engine that was killed in the meantime may not have recorded that its processes run.
        """
        await asyncio.to_thread(kill_processes, shown["Id"])
        await self._engine.delete(shown["Id"])

    def list_containers(self) -> Mapping[RunId, ContainerRun]:
        return self._runs

    def get_container_events(self) -> AsyncIterator[ContainerRun]:
        """Raises Unavailable once for each time that the engine stops responding."""
        self._exits = asyncio.Queue()
        return _items(self._exits)

    async def signal(self, run: RunId, number: int) -> None:
        if run not in self._runs or self._runs[run].ended is not None:
            return
        if watched := self._watched.get(run):
            watched.signalled = True
        with as_unavailable():
            await self._engine.kill(container_name(run), signal.Signals(number).name)

    async def exec_sync(
        self, run: RunId, argv: Sequence[str], *, timeout_seconds: float
    ) -> tuple[int, bytes]:
        return await execute(self._engine, container_name(run), argv, timeout_seconds)

    async def exec(self, run: RunId, options: PodExecOptions) -> DockerExecSession:
        return await DockerExecSession.open(self._engine, container_name(run), options)

    async def attach(self, run: RunId, options: PodAttachOptions) -> ExecSession:
        if options.stdin or options.tty:
            # The log has no prompt before the end of its line.
            return await DockerAttachSession.open(self._engine, container_name(run), options)
        return await LogAttachSession.open(self._watched[run].log, options)

    async def list_container_stats(self) -> Mapping[RunId, ResourceUsage]:
        running = [run.id for run in self._runs.values() if run.ended is None]
        with as_unavailable():
            found = await asyncio.gather(*(self._stats(run) for run in running))
        return {
            run: resource_usage(each) for run, each in zip(running, found, strict=True) if each is not None
        }

    async def _stats(self, run: RunId) -> Json | None:
        async with self._stats_calls:
            return await self._engine.stats(container_name(run))

    async def remove_container(self, run: RunId) -> None:
        if (known := self._runs.get(run)) is not None and known.ended is None:
            raise Conflict(f"{run} is still running")
        self._require_available()
        with as_unavailable():
            await self._engine.delete(container_name(run))
        self._runs.pop(run, None)
        self._watched.pop(run, None)

    def unsupported_features(self, config: ContainerConfig) -> Sequence[str]:
        features = {
            "MemoryLimit": ("memory limits are", config.limits.memory is not None),
            "CpuCfsQuota": ("cpu limits are", config.limits.cpu is not None),
        }
        return [
            f"{subject} not supported by {self._engine.name} on this machine"
            for feature, (subject, is_used) in features.items()
            if is_used and self._features.get(feature) is False
        ]

    # The state of the engine

    async def _monitor(self) -> None:
        """Watches the events of the engine, and connects again when it was restarted."""
        backoff = ExponentialBackoff(initial=0.2, maximum=5.0)
        while True:
            try:
                async for event in self._engine.events({INSTANCE: self._instance}, _EVENTS):
                    if event is not None:
                        self._on_event(event)
                        continue
                    if not self._available.is_set():
                        # Events during the outage were not received.
                        await self._synchronize()
                        self._set_available()
                    backoff.reset()
            except Unavailable as error:
                self._set_unavailable(str(error))
            except EngineError as error:
                log.warning("containers not listed", extra={"error": str(error)})
                self._set_unavailable(str(error))
            await asyncio.sleep(backoff.next_delay())

    async def _read_features(self) -> None:
        with suppress(Unavailable, EngineError):
            self._features = await self._engine.info()

    def _require_available(self) -> None:
        """Raises Unavailable until the containers of interrupted starts were found, or removed, after an outage."""
        if not self._available.is_set():
            raise Unavailable(f"{self._engine.name} at {self._engine.url} does not respond")

    def _set_unavailable(self, reason: str) -> None:
        if self._available.is_set():
            self._available.clear()
            self._outage_began = self._clock()
            log.warning("container engine unavailable", extra={"error": reason})
            self._exits.put_nowait(Unavailable(reason))

    def _set_available(self) -> None:
        log.warning("container engine available again", extra={"engine": self._engine.url})
        self._available.set()
        for watched in self._watched.values():
            watched.changed.set()

    def _on_event(self, event: Json) -> None:
        attributes = (event.get("Actor") or {}).get("Attributes") or {}
        run = RunId(attributes.get(RUN, ""))
        if (event.get("Action") or event.get("status")) == "oom":
            self._add_oom_kill(run)
        elif run in self._watched:
            self._watched[run].changed.set()

    def _add_oom_kill(self, run: RunId) -> None:
        known = self._runs.get(run)
        if known is not None and known.ended is None:
            self._runs[run] = replace(known, oom_kills=known.oom_kills + 1)
            self._exits.put_nowait(self._runs[run])

    async def _synchronize(self) -> None:
        """Watches the containers in the engine that are not known yet."""
        for container in await self._own_containers():
            labels = container["Labels"]
            run = RunId(labels.get(RUN, ""))
            if not run or run in self._runs or run in self._starting:
                continue
            shown = await self._engine.inspect(container["Id"])
            if shown is None:
                continue
            if not has_started(shown):
                # Its start was interrupted, or failed: nothing of it is needed.
                await self._remove_interrupted(shown)
                continue
            self._runs[run] = self._run(run, shown)
            self._watch(run, Path(labels[LOG]), labels.get(LOG_GROUP, ""))

    async def _own_containers(self) -> list[Json]:
        repaired: set[str] = set()
        while True:
            try:
                return await self._engine.containers({INSTANCE: self._instance})
            except EngineError as error:
                partly_removed = _PARTLY_REMOVED.search(str(error))
                if partly_removed is None or partly_removed[1] in repaired:
                    raise
                # Podman was killed while it removed the container, and lists none until the rest of it is removed.
                repaired.add(partly_removed[1])
                await self._engine.delete(partly_removed[1])

    # One run

    def _watch(self, run: RunId, path: Path, group: str) -> None:
        if run not in self._watched:
            watched = self._watched[run] = _WatchedRun(path, group)
            watched.task = asyncio.create_task(self._watch_to_end(run, watched))

    async def _watch_to_end(self, run: RunId, watched: _WatchedRun) -> None:
        """Copies the log of the run, and reports its end after that of its log."""
        writer: ResumableLogWriter | None = None
        if not is_complete(watched.log):
            writer = ResumableLogWriter(watched.log, self._log_limits, watched.log_group)
        monitor = OomMonitor() if self._engine.is_podman else None
        try:
            status = await self._wait_for_end(run, watched, writer, monitor)
        except BaseException:
            if writer is not None:
                writer.suspend()
            raise
        finally:
            if monitor is not None:
                monitor.close()
        if writer is not None:
            writer.close(time_ns())
        ended = self._runs[run] = replace(self._runs[run], ended=status)
        self._exits.put_nowait(ended)

    async def _wait_for_end(
        self,
        run: RunId,
        watched: _WatchedRun,
        writer: ResumableLogWriter | None,
        monitor: OomMonitor | None,
    ) -> ExitStatus:
        name, failures = container_name(run), 0
        backoff = ExponentialBackoff(initial=0.1, maximum=5.0)
        while True:
            await self._available.wait()
            watched.changed.clear()
            try:
                shown = await self._engine.inspect(name)
                if shown is None:
                    return ExitStatus.unknown(self._clock())
                if has_ended(shown):
                    if writer is not None and failures < _LOG_ATTEMPTS:
                        # The end of a line without a line feed may be missing in the stream.
                        entries = log_entries(self._engine, name, follow=False, tty=has_terminal(shown))
                        await copy_log(entries, writer)
                    killed = monitor is not None and monitor.kills() > 0
                    return self._status(watched, exit_status(shown, out_of_memory=killed))
                if monitor is not None:
                    monitor.open(shown["State"].get("Pid") or 0)
                await self._follow(name, watched, writer, tty=has_terminal(shown))
            except (Unavailable, EngineError) as error:
                failures += isinstance(error, EngineError)
                log.info("container not watched", extra={"run": run, "error": str(error)})
                await asyncio.sleep(backoff.next_delay())

    def _status(self, watched: _WatchedRun, status: ExitStatus) -> ExitStatus:
        """The exit status; unknown if the engine was restarted and has ended the container, or lost its exit."""
        began = self._outage_began
        if began is None or watched.signalled or status.exit_code not in _ENDED_BY_ENGINE:
            return status
        return ExitStatus.unknown(status.finished_at) if status.finished_at >= began else status

    async def _follow(
        self, name: str, watched: _WatchedRun, writer: ResumableLogWriter | None, *, tty: bool
    ) -> None:
        """Copies the log until its end, or until the container may have ended."""
        if writer is None:
            await wait_or_timeout(watched.changed, _CHECK_SECONDS)
            return
        copy = asyncio.create_task(copy_log(log_entries(self._engine, name, follow=True, tty=tty), writer))
        changed = asyncio.create_task(watched.changed.wait())
        try:
            await asyncio.wait({copy, changed}, return_when=asyncio.FIRST_COMPLETED)
            if writer.written > _LOG_END_BYTES:
                await asyncio.wait({copy}, timeout=_LOG_END_SECONDS)
            if copy.done():
                copy.result()
        finally:
            copy.cancel()
            changed.cancel()
            await asyncio.gather(copy, changed, return_exceptions=True)


async def _items(queue: asyncio.Queue[ContainerRun | Unavailable]) -> AsyncIterator[ContainerRun]:
    while True:
        item = await queue.get()
        if isinstance(item, Unavailable):
            raise item
        yield item


def _instance(data: Path) -> str:
    """The id of the data directory in the labels of its containers."""
    file = data / "engine.id"
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        new = file.with_suffix(".new")
        new.write_text(str(uuid4()))
        new.replace(file)
        return file.read_text().strip()
