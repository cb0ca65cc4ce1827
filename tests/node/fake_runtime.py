"""A runtime without processes: it knows a handful of commands, and the loop's clock says when they end."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from launcher.core.errors import Unavailable
from launcher.node.container_runtime import ContainerConfig, ContainerRun, ExitStatus, RunId, StartFailed

#: Longer than any test.
_FOR_EVER = 1e9


class FakeRuntime:
    """
    Runs that are numbers only.

    Commands: ``true``, ``false``, ``sleep SECONDS``, ``sh -c 'exit N'``, ``sh -c 'sleep S; exit N'``, and anything that
    holds ``trap '' TERM``, which only SIGKILL ends. Everything else is not found.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._runs: dict[RunId, ContainerRun] = {}
        self._listeners: list[asyncio.Queue[ContainerRun]] = []
        self._timers: dict[RunId, asyncio.TimerHandle] = {}
        self.orders: list[ContainerConfig] = []
        self.signals: list[tuple[RunId, int]] = []
        self.executed: list[tuple[RunId, Sequence[str]]] = []
        #: What a command inside a container answers.
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.cannot_do: list[str] = []
        #: Seconds between SIGKILL and the end.
        self.dying = 0.0
        #: The next calls fail.
        self.broken = 0
        #: The next starts succeed, but their answer is lost.
        self.answers_lost = 0

    async def start(self, order: ContainerConfig) -> ContainerRun:
        self._fail_if_broken()
        if known := self._runs.get(order.id):
            return known
        seconds, code = _program(order.argv)
        self.orders.append(order)
        run = ContainerRun(order.id, self._clock())
        self._runs[order.id] = run
        loop = asyncio.get_running_loop()
        self._timers[order.id] = loop.call_later(seconds, self.end, order.id, code)
        if self.answers_lost:
            self.answers_lost -= 1
            raise Unavailable("the answer was lost")
        return run

    def runs(self) -> Mapping[RunId, ContainerRun]:
        return self._runs

    async def exits(self) -> AsyncIterator[ContainerRun]:
        listener: asyncio.Queue[ContainerRun] = asyncio.Queue()
        self._listeners.append(listener)
        try:
            while True:
                yield await listener.get()
        finally:
            self._listeners.remove(listener)

    async def signal(self, run: RunId, number: int) -> None:
        self._fail_if_broken()
        if run not in self._runs or self._runs[run].ended:
            return
        self.signals.append((run, number))
        argv = next(order.argv for order in self.orders if order.id == run)
        if number == signal.SIGKILL and self.dying:
            asyncio.get_running_loop().call_later(self.dying, self.end, run, 128 + number)
        elif number == signal.SIGKILL or "trap '' TERM" not in " ".join(argv):
            self.end(run, 128 + number)

    async def execute(self, run: RunId, argv: Sequence[str], *, within: float) -> tuple[int, bytes]:
        self._fail_if_broken()
        self.executed.append((run, argv))
        if run not in self._runs or self._runs[run].ended:
            return 126, b"the run is over"
        if answer := self.answers.get(argv[0]):
            return answer
        seconds, code = _program(argv)
        if seconds > within:
            await asyncio.sleep(within)
            return 124, b""
        await asyncio.sleep(seconds)
        return code, b""

    async def remove(self, run: RunId) -> None:
        self._fail_if_broken()
        if run in self._runs and not self._runs[run].ended:
            raise ValueError(f"{run} is not over")
        self._runs.pop(run, None)

    def unsupported_features(self, order: ContainerConfig) -> Sequence[str]:
        limits = order.limits
        return self.cannot_do if (limits.memory, limits.cpu) != (None, None) else ()

    def end(self, run: RunId, code: int, *, out_of_memory: bool = False, unseen: bool = False) -> None:
        """The run ends now."""
        if self._runs[run].ended is None:
            self._timers.pop(run).cancel()
            ended = ExitStatus(code, self._clock(), out_of_memory, unseen)
            self._runs[run] = replace(self._runs[run], ended=ended)
            for listener in self._listeners:
                listener.put_nowait(self._runs[run])

    def kill_for_memory(self, run: RunId) -> None:
        """The kernel kills a process of the run, which goes on."""
        self._runs[run] = replace(self._runs[run], oom_kills=self._runs[run].oom_kills + 1)
        for listener in self._listeners:
            listener.put_nowait(self._runs[run])

    def lose(self, run: RunId) -> None:
        """Nothing is known of the run any more."""
        self._timers.pop(run).cancel()
        del self._runs[run]

    def running(self) -> list[RunId]:
        return sorted(run.id for run in self._runs.values() if run.ended is None)

    def _fail_if_broken(self) -> None:
        if self.broken:
            self.broken -= 1
            raise Unavailable("the runtime is away")


def _program(argv: Sequence[str]) -> tuple[float, int]:
    """Seconds that the command runs, and its exit code. Raises StartFailed when there is no such command."""
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
            case ["sleep", number]:
                seconds += float(number)
            case ["exit", number]:
                return seconds, int(number)
            case ["trap", *_]:
                seconds = 0.0
            case _:
                raise ValueError(f"the fake runtime does not know {step!r}")
    return seconds, code
