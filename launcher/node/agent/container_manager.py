"""The running containers of one pod: their probe workers, and those that are being stopped."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from launcher.core.events import ObjectEvent
from launcher.node.agent.container_stop import ContainerStop
from launcher.node.agent.handler_runner import HandlerRunner, hook_action
from launcher.node.agent.probe_manager import KillReason, ProbeWorker, needs_probe_worker
from launcher.node.container_runtime import RunId, RuntimeService
from launcher.node.network.pod_network import PodNetwork
from launcher.node.pods.container_state import ContainerState
from launcher.node.pods.pod_spec import Container


@dataclass(frozen=True, slots=True)
class StoppingContainer:
    """A container that is being stopped."""

    container: Container
    stop: ContainerStop
    started_at: float
    #: Its own grace period, if it is not stopped together with its pod.
    grace_seconds: float | None


@dataclass(frozen=True, slots=True)
class _Probes:
    worker: ProbeWorker
    task: asyncio.Task[None]


class ContainerManager:
    """Probes and stops the containers of one pod, in the pod's task group."""

    def __init__(
        self,
        runtime: RuntimeService,
        network: PodNetwork,
        address: str,
        tasks: asyncio.TaskGroup,
        record: Callable[[ObjectEvent], None],
        wake: Callable[[], None],
    ) -> None:
        """*record* records an event of the pod; *wake* requests a sync of the pod."""
        self._runtime, self._network, self._address, self._tasks = runtime, network, address, tasks
        self._record, self._wake = record, wake
        self._probe_workers: dict[str, _Probes] = {}
        self._stopping: dict[str, StoppingContainer] = {}

    def add(
        self, container: Container, run: RunId, state: ContainerState, *, just_started: bool, age: float
    ) -> ContainerState:
        """Starts the probes of a run. Returns the state, started and ready if there are none."""
        if not needs_probe_worker(container.spec):
            return replace(state, started=True, ready=True)
        worker = ProbeWorker(container, self._handler_runner(container, run), self._record, self._wake)
        worker.resume(started=state.started, ready=state.ready)
        task = self._tasks.create_task(worker.run(just_started=just_started, age=age))
        self._probe_workers[container.name] = _Probes(worker, task)
        return state

    def remove(self, container: Container) -> None:
        """Ends the probes and the stop of a container whose run has ended."""
        if probes := self._probe_workers.pop(container.name, None):
            probes.task.cancel()
        if stopping := self._stopping.pop(container.name, None):
            stopping.stop.cancel()

    def with_probe_results(self, container: Container, state: ContainerState) -> ContainerState:
        """The state with the latest results of the container's probes."""
        probes = self._probe_workers.get(container.name)
        if probes is None:
            return state
        return replace(state, started=probes.worker.started, ready=probes.worker.ready)

    def kill_reason(self, container: Container) -> KillReason | None:
        """Why the container has to be killed, unless it is being stopped already."""
        probes = self._probe_workers.get(container.name)
        return probes.worker.kill_reason if probes and container.name not in self._stopping else None

    def is_stopping(self, container: Container) -> bool:
        return container.name in self._stopping

    def stop(self, container: Container, run: RunId, now: float, grace_seconds: float | None = None) -> None:
        """Begins to stop the container, and ends its probes."""
        if probes := self._probe_workers.get(container.name):
            probes.task.cancel()
        hook = hook_action(container.spec, "preStop")
        stop = ContainerStop(self._handler_runner(container, run), hook, self._wake)
        self._stopping[container.name] = StoppingContainer(container, stop, now, grace_seconds)

    async def step(self, now: float, kill_at: Callable[[StoppingContainer], float]) -> float | None:
        """Does what is due for the containers that are being stopped. Returns the time of the next step."""
        times: list[float] = []
        for stopping in list(self._stopping.values()):
            next_step, event = await stopping.stop.step(self._tasks, now, kill_at(stopping))
            if event is not None:
                self._record(event)
            if next_step is not None:
                times.append(next_step)
        return min(times, default=None)

    def close(self) -> None:
        """Ends all probes and hooks; the containers are not changed."""
        for container in list(self._containers()):
            self.remove(container)

    def _containers(self) -> Iterator[Container]:
        for stopping in self._stopping.values():
            yield stopping.container
        for probes in self._probe_workers.values():
            yield probes.worker.container

    def _handler_runner(self, container: Container, run: RunId) -> HandlerRunner:
        return HandlerRunner(self._runtime, run, container.spec, self._address, self._network)
