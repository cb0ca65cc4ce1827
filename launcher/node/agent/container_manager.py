"""The running containers of one pod: who attends to them, and which of them are being ended."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from launcher.core.planning.actions import ObjectEvent
from launcher.node.agent.container_termination import ContainerTermination
from launcher.node.agent.handler_runner import HandlerRunner, hook_of
from launcher.node.agent.probe_manager import KillReason, ProbeWorker, needs_attention
from launcher.node.container_runtime import RunId, Runtime
from launcher.node.pods.container_state import ContainerState
from launcher.node.pods.pod_spec import Container


@dataclass(frozen=True, slots=True)
class Stop:
    """A container that is being ended."""

    container: Container
    stopping: ContainerTermination
    began: float
    #: Seconds that it has, if it is not ended along with its pod.
    grace: float | None


class ContainerManager:
    """Looks after the runs of one pod; all of it ends with the *tasks* it is given."""

    def __init__(
        self,
        runtime: Runtime,
        address: str,
        tasks: asyncio.TaskGroup,
        tell: Callable[[ObjectEvent], None],
        wake: Callable[[], None],
    ) -> None:
        self._runtime, self._address, self._tasks = runtime, address, tasks
        self._tell, self._wake = tell, wake
        self._attendants: dict[str, tuple[ProbeWorker, asyncio.Task[None]]] = {}
        self._stops: dict[str, Stop] = {}

    def take_on(
        self, container: Container, run: RunId, record: ContainerState, *, fresh: bool, age: float
    ) -> ContainerState:
        """Look after a run from now on; *fresh* is one that has just been started. The record with what that shows."""
        if not needs_attention(container.spec):
            return replace(record, started=True, ready=True)
        attendant = ProbeWorker(container, self._reach(container, run), self._tell, self._wake)
        attendant.resume(started=record.started, ready=record.ready)
        attending = self._tasks.create_task(attendant.attend(fresh=fresh, age=age))
        self._attendants[container.name] = (attendant, attending)
        return record

    def leave(self, container: Container) -> None:
        """The container's run is over."""
        if found := self._attendants.pop(container.name, None):
            found[1].cancel()
        if stop := self._stops.pop(container.name, None):
            stop.stopping.end()

    def seen(self, container: Container, record: ContainerState) -> ContainerState:
        """The record with what its probes show now."""
        found = self._attendants.get(container.name)
        return replace(record, started=found[0].started, ready=found[0].ready) if found else record

    def unhealthy(self, container: Container) -> KillReason | None:
        """Why the container has to end, unless that is under way already."""
        found = self._attendants.get(container.name)
        return found[0].unhealthy if found and container.name not in self._stops else None

    def is_stopping(self, container: Container) -> bool:
        return container.name in self._stops

    def stop(self, container: Container, run: RunId, now: float, grace: float | None = None) -> None:
        """Begin to end the container; its probes are asked no more."""
        if found := self._attendants.get(container.name):
            found[1].cancel()
        hook = hook_of(container.spec, "preStop")
        stopping = ContainerTermination(self._reach(container, run), hook, self._wake)
        self._stops[container.name] = Stop(container, stopping, now, grace)

    async def step(self, now: float, kill_at: Callable[[Stop], float]) -> float | None:
        """Do what is due to end those that are being ended. When to look again."""
        times: list[float] = []
        for stop in list(self._stops.values()):
            look_again, notice = await stop.stopping.step(self._tasks, now, kill_at(stop))
            if notice is not None:
                self._tell(notice)
            if look_again is not None:
                times.append(look_again)
        return min(times, default=None)

    def close(self) -> None:
        """Leave everything as it is."""
        for container in list(self._all()):
            self.leave(container)

    def _all(self) -> Iterator[Container]:
        for stop in self._stops.values():
            yield stop.container
        for attendant, _ in self._attendants.values():
            yield attendant.container

    def _reach(self, container: Container, run: RunId) -> HandlerRunner:
        return HandlerRunner(self._runtime, run, container.spec, self._address)
