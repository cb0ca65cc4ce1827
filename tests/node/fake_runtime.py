"""A runtime without processes, which simulates a few commands by the clock of the event loop."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from launcher.core.errors import Unavailable
from launcher.core.pods.exec_session import OutputStream, PodAttachOptions, PodExecOptions
from launcher.node.container_runtime import (
    ContainerConfig,
    ContainerRun,
    ExitStatus,
    PodSandboxConfig,
    ResourceUsage,
    RunId,
    StartFailed,
)

#: Longer than any test.
_NEVER_ENDS = 1e9


class FakeRuntime:
    """
    Simulates runs.

    Commands: ``true``, ``false``, ``sleep SECONDS``, ``sh -c 'exit N'``, ``sh -c 'sleep S; exit N'``, and anything that
    contains ``trap '' TERM``, which only SIGKILL ends. All others are not found.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._runs: dict[RunId, ContainerRun] = {}
        self._listeners: list[asyncio.Queue[ContainerRun]] = []
        self._timers: dict[RunId, asyncio.TimerHandle] = {}
        self.configs: list[ContainerConfig] = []
        self.signals: list[tuple[RunId, int]] = []
        self.removed: list[RunId] = []
        self.executed: list[tuple[RunId, Sequence[str]]] = []
        #: The exit code and output of executed commands.
        self.command_results: dict[str, tuple[int, bytes]] = {}
        self.unsupported: list[str] = []
        #: What runs have used.
        self.used: dict[RunId, ResourceUsage] = {}
        #: Seconds between SIGKILL and the exit.
        self.kill_seconds = 0.0
        #: The number of next calls that fail.
        self.failing_calls = 0
        #: The number of next starts that succeed and whose response is lost.
        self.lost_responses = 0

    def version(self) -> str:
        return "fake://1"

    async def run_pod_sandbox(self, config: PodSandboxConfig) -> int | None:
        return None

    async def remove_pod_sandbox(self, pod_uid: str) -> None:
        pass

    async def start_container(self, config: ContainerConfig) -> ContainerRun:
        self._fail_if_requested()
        if run := self._runs.get(config.id):
            return run
        seconds, code = _program(config.argv)
        self.configs.append(config)
        run = ContainerRun(config.id, self._clock(), container_id=f"fake://{config.id}")
        self._runs[config.id] = run
        loop = asyncio.get_running_loop()
        self._timers[config.id] = loop.call_later(seconds, self.end, config.id, code)
        if self.lost_responses:
            self.lost_responses -= 1
            raise Unavailable("the response was lost")
        return run

    def list_containers(self) -> Mapping[RunId, ContainerRun]:
        return self._runs

    async def get_container_events(self) -> AsyncIterator[ContainerRun]:
        listener: asyncio.Queue[ContainerRun] = asyncio.Queue()
        self._listeners.append(listener)
        try:
            while True:
                yield await listener.get()
        finally:
            self._listeners.remove(listener)

    async def signal(self, run: RunId, number: int) -> None:
        self._fail_if_requested()
        if run not in self._runs or self._runs[run].ended:
            return
        self.signals.append((run, number))
        argv = next(config.argv for config in self.configs if config.id == run)
        if number == signal.SIGKILL and self.kill_seconds:
            asyncio.get_running_loop().call_later(self.kill_seconds, self.end, run, 128 + number)
        elif number == signal.SIGKILL or "trap '' TERM" not in " ".join(argv):
            self.end(run, 128 + number)

    async def exec_sync(
        self, run: RunId, argv: Sequence[str], *, timeout_seconds: float
    ) -> tuple[int, bytes]:
        self._fail_if_requested()
        self.executed.append((run, argv))
        if run not in self._runs or self._runs[run].ended:
            return 126, b"the run has ended"
        if result := self.command_results.get(argv[0]):
            return result
        seconds, code = _program(argv)
        if seconds > timeout_seconds:
            await asyncio.sleep(timeout_seconds)
            return 124, b""
        await asyncio.sleep(seconds)
        return code, b""

    async def exec(self, run: RunId, options: PodExecOptions) -> "FakeExecSession":
        self._fail_if_requested()
        return FakeExecSession(
            asyncio.create_task(self.exec_sync(run, options.command, timeout_seconds=_NEVER_ENDS))
        )

    async def attach(self, run: RunId, options: PodAttachOptions) -> "FakeExecSession":
        self._fail_if_requested()
        return FakeExecSession(asyncio.create_task(self._wait_for_end(run)))

    async def _wait_for_end(self, run: RunId) -> tuple[int, bytes]:
        async for each in self.get_container_events():
            if each.id == run and each.ended is not None:
                break
        return 0, b""

    async def list_container_stats(self) -> Mapping[RunId, ResourceUsage]:
        self._fail_if_requested()
        return {run.id: self.used[run.id] for run in self._runs.values() if run.id in self.used}

    async def remove_container(self, run: RunId) -> None:
        self._fail_if_requested()
        if run in self._runs and not self._runs[run].ended:
            raise ValueError(f"{run} is running")
        self.removed.append(run)
        self._runs.pop(run, None)

    def unsupported_features(self, config: ContainerConfig) -> Sequence[str]:
        limits = config.limits
        return self.unsupported if (limits.memory, limits.cpu) != (None, None) else ()

    def end(self, run: RunId, code: int, *, out_of_memory: bool = False, unknown: bool = False) -> None:
        """Ends the run now."""
        if self._runs[run].ended is None:
            self._timers.pop(run).cancel()
            now = self._clock()
            ended = (
                ExitStatus.unknown(now)
                if unknown
                else ExitStatus.of_process(code, now, out_of_memory=out_of_memory)
            )
            self._runs[run] = replace(self._runs[run], ended=ended)
            for listener in self._listeners:
                listener.put_nowait(self._runs[run])

    def kill_for_memory(self, run: RunId) -> None:
        """Simulates that the kernel kills a process of the run, which continues."""
        self._runs[run] = replace(self._runs[run], oom_kills=self._runs[run].oom_kills + 1)
        for listener in self._listeners:
            listener.put_nowait(self._runs[run])

    def lose(self, run: RunId) -> None:
        """Removes the run without an exit."""
        self._timers.pop(run).cancel()
        del self._runs[run]

    def running(self) -> list[RunId]:
        return sorted(run.id for run in self._runs.values() if run.ended is None)

    def _fail_if_requested(self) -> None:
        if self.failing_calls:
            self.failing_calls -= 1
            raise Unavailable("the runtime is unavailable")


class FakeExecSession:
    """A command that reads no input; its output is that of ``FakeRuntime.command_results``."""

    def __init__(self, command: asyncio.Task[tuple[int, bytes]]) -> None:
        self._command, self._is_read = command, False

    async def read(self, stream: OutputStream) -> bytes:
        _, output = await asyncio.shield(self._command)
        if stream == "stderr" or self._is_read:
            return b""
        self._is_read = True
        return output

    async def write(self, data: bytes) -> None:
        """Drops the input."""

    async def close_stdin(self) -> None:
        """Does nothing."""

    def resize(self, columns: int, rows: int) -> None:
        """Does nothing."""

    async def wait(self) -> int:
        code, _ = await asyncio.shield(self._command)
        return code

    async def close(self) -> None:
        self._command.cancel()


def _program(argv: Sequence[str]) -> tuple[float, int]:
    """The seconds that the command runs, and its exit code. Raises StartFailed for an unknown command."""
    match list(argv):
        case ["true"]:
            return 0.0, 0
        case ["false"]:
            return 0.0, 1
        case ["sleep", seconds]:
            return float(seconds), 0
        case ["sh", "-c", script, *_]:
            return _script(script)
        case _:
            raise StartFailed("StartError", f'exec: "{argv[0]}": executable file not found in $PATH')


def _script(script: str) -> tuple[float, int]:
    seconds, code = 0.0, 0
    for step in script.split(";"):
        match step.split():
            case ["sleep", number] | ["sleep", number, "&", "wait"]:
                seconds += float(number)
            case ["exit", number]:
                return seconds, int(number)
            case ["trap", *_]:
                seconds = 0.0
            case _:
                raise ValueError(f"the fake runtime does not know {step!r}")
    return seconds, code
