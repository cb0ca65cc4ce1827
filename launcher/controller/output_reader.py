"""Reads the end of the output of pods whose tasks may have stalled."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from launcher.controller.framework_state import FrameworkState
from launcher.controller.log_copier import PodLogSource
from launcher.core.errors import LauncherError, NotFound, RequestError
from launcher.core.events import ObjectEvent
from launcher.core.planning.progress import PodOutput
from launcher.core.spec import PodName

log = logging.getLogger(__name__)

#: Lines of each container that are read, and the characters of each that are kept.
_LINES, _MAX_LINE_CHARACTERS = 3, 200
_CONCURRENT_READS = 16
#: Longest time of one read: a kubelet that does not respond is no reason to fail a task.
_TIMEOUT_SECONDS = 10.0
_UNREADABLE_REASON = "OutputUnknown"


class OutputReader:
    """Reads the logs of running pods. *clock* returns seconds since 1970."""

    def __init__(self, source: PodLogSource, clock: Callable[[], float]) -> None:
        self._source, self._clock = source, clock
        self._slots = asyncio.Semaphore(_CONCURRENT_READS)

    async def read(self, state: FrameworkState, names: Sequence[PodName]) -> None:
        """
        Records the last output of these pods in *state*. Where it cannot be read, that is retried.

        If one of them has stalled, that of all other running pods is recorded too: it is kept with the attempt.
        """
        await self._read_all(state, names)
        if any(state.has_stalled(name) for name in names):
            await self._read_all(state, set(state.running_pods) - set(names))

    async def _read_all(self, state: FrameworkState, names: Iterable[PodName]) -> None:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(self._read_one(state, name))

    async def _read_one(self, state: FrameworkState, name: PodName) -> None:
        pod = state.pod(name)
        if pod is None:
            return
        try:
            async with self._slots, asyncio.timeout(_TIMEOUT_SECONDS):
                output = await self._output(state, name, pod.uid)
        except (LauncherError, TimeoutError) as error:
            message = str(error) or f"no response within {_TIMEOUT_SECONDS:g}s"
            log.info("output not read", extra={"pod": (state.key[0], name), "error": message})
            if isinstance(error, RequestError):
                state.add_event(
                    ObjectEvent(
                        _UNREADABLE_REASON, f"Error reading the output of {name}: {message}", warning=True
                    )
                )
            state.retry.retry_pod(name)
        else:
            state.observe_output(name, output, self._clock())

    async def _output(self, state: FrameworkState, name: PodName, uid: str) -> PodOutput:
        """Raises LauncherError."""
        logs = [await self._lines(state.key[0], name, container) for container in state.containers_of(name)]
        written = [lines for lines in logs if lines]
        if not written:
            return PodOutput(uid)
        last = max(written, key=lambda lines: lines[-1].partition(" ")[0])
        return PodOutput(uid, "\n".join(lines[-1] for lines in written), tuple(map(_text, last)))

    async def _lines(self, namespace: str, pod: str, container: str) -> list[str]:
        """The last lines of a container, each after its time."""
        try:
            async with self._source.open_log(
                namespace, pod, container, previous=False, follow=False, tail_lines=_LINES
            ) as chunks:
                text = b"".join([chunk async for chunk in chunks])
        except NotFound:
            return []  # it has no log yet
        return text.decode(errors="replace").splitlines()[-_LINES:]


def _text(line: str) -> str:
    """The line without its time."""
    return line.partition(" ")[2][:_MAX_LINE_CHARACTERS]
