"""
Computes the next actions of a pod from the states of its containers.

Init containers run one after the other, a sidecar among them only has to start; then the main containers run
concurrently. A container that ends is restarted according to the restart policy, immediately the first time, then with
exponential back-off. When the pod has to end, or its main containers have completed, the sidecars are stopped last, in
reverse order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from launcher.core.planning.retry import retry_delay
from launcher.node.pods.container_state import ContainerState, ContainerStates
from launcher.node.pods.pod_spec import Container, ContainerRole, RestartPolicy


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """Seconds between the exit of a container and its next start."""

    first_seconds: float = 10.0
    max_seconds: float = 300.0
    #: After a run of this length the next restart is immediate again.
    reset_after_seconds: float = 600.0

    def consecutive_restarts(self, state: ContainerState) -> int:
        """The number of consecutive restarts of an ended container."""
        run = state.run
        if run is None or run.exit is None or run.started is None:
            return state.consecutive_restarts
        is_long = run.exit.finished_at - run.started >= self.reset_after_seconds
        return 0 if is_long else state.consecutive_restarts

    def delay(self, state: ContainerState) -> float:
        """Seconds between the exit and the next start; 0 for the first restart."""
        return retry_delay(self.consecutive_restarts(state), self.first_seconds, self.max_seconds)


@dataclass(frozen=True, slots=True)
class PodState:
    """The inputs of ``compute_pod_actions``."""

    containers: Sequence[Container]
    states: ContainerStates
    policy: RestartPolicy
    #: The pod has to end: it was deleted, exceeded its deadline, or was evicted.
    ending: bool = False
    backoff: RestartBackoff = field(default_factory=RestartBackoff)

    def with_role(self, role: ContainerRole) -> list[Container]:
        return [container for container in self.containers if container.role is role]

    def of_container(self, container: Container) -> ContainerState:
        return self.states[container.name]


@dataclass(frozen=True, slots=True)
class PodActions:
    """The containers to start and to stop now, and the time of the next computation."""

    start: tuple[Container, ...] = ()
    stop: tuple[Container, ...] = ()
    #: Containers that wait for their next start, with the back-off in seconds.
    backing_off: tuple[tuple[Container, float], ...] = ()
    recheck_at: float | None = None
    #: No container is running, and none will be started.
    terminated: bool = False


@dataclass(slots=True)
class _ActionsBuilder:
    now: float
    start: list[Container] = field(default_factory=list)
    stop: list[Container] = field(default_factory=list)
    backing_off: list[tuple[Container, float]] = field(default_factory=list)
    recheck_at: float | None = None

    def start_at(self, container: Container, time: float) -> bool:
        """Starts the container if *time* has come, else schedules a recheck. Returns whether it has come."""
        if time <= self.now:
            self.start.append(container)
            return True
        self.recheck_at = time if self.recheck_at is None else min(self.recheck_at, time)
        return False

    def build(self, *, terminated: bool = False) -> PodActions:
        return PodActions(
            tuple(self.start), tuple(self.stop), tuple(self.backing_off), self.recheck_at, terminated
        )


def compute_pod_actions(pod: PodState, now: float) -> PodActions:
    """The containers to start and to stop *now*."""
    actions = _ActionsBuilder(now)
    mains = pod.with_role(ContainerRole.MAIN)
    if pod.ending or _init_failed(pod) or all(_has_completed(pod, main) for main in mains):
        return _stop_running(pod, actions)
    if _initialize(pod, actions):
        for main in mains:
            _start_if_due(pod, main, actions)
    return actions.build()


def should_restart(policy: RestartPolicy, container: Container, exit_code: int) -> bool:
    """Whether a container that ended with *exit_code* is restarted while its pod is active."""
    if container.role is ContainerRole.SIDECAR:
        return True
    if policy is RestartPolicy.NEVER:
        return False
    # An init container that succeeded is not restarted by any policy.
    return exit_code != 0 or (policy is RestartPolicy.ALWAYS and container.role is ContainerRole.MAIN)


def is_initialized(pod: PodState) -> bool:
    """Whether the main containers may run; once one was started, the pod stays initialized."""
    if any(pod.of_container(main).run for main in pod.with_role(ContainerRole.MAIN)):
        return True
    return all(
        _next_may_start(pod, container)
        for container in pod.containers
        if container.role is not ContainerRole.MAIN
    )


def _next_may_start(pod: PodState, container: Container) -> bool:
    """Whether the container after this init container or sidecar may start."""
    state = pod.of_container(container)
    if container.role is ContainerRole.SIDECAR:
        return state.running and state.started
    return state.exit is not None and state.exit.exit_code == 0


def _init_failed(pod: PodState) -> bool:
    return any(_has_failed(pod, init) for init in pod.with_role(ContainerRole.INIT)) and not any(
        pod.of_container(main).run for main in pod.with_role(ContainerRole.MAIN)
    )


def _has_failed(pod: PodState, container: Container) -> bool:
    status = pod.of_container(container).exit
    return status is not None and status.exit_code != 0 and _has_completed(pod, container)


def _has_completed(pod: PodState, container: Container) -> bool:
    """Whether the container has ended and is not restarted."""
    status = pod.of_container(container).exit
    return status is not None and not should_restart(pod.policy, container, status.exit_code)


def _initialize(pod: PodState, actions: _ActionsBuilder) -> bool:
    """Starts init containers and sidecars that are due. Returns whether the main containers may run."""
    initialized = is_initialized(pod)
    roles = (ContainerRole.SIDECAR,) if initialized else (ContainerRole.SIDECAR, ContainerRole.INIT)
    for container in pod.containers:
        if container.role in roles and not _next_may_start(pod, container):
            _start_if_due(pod, container, actions)
            if not initialized:
                return False
    return initialized


def _start_if_due(pod: PodState, container: Container, actions: _ActionsBuilder) -> None:
    state = pod.of_container(container)
    if state.running or _has_completed(pod, container):
        return
    if state.exit is None:
        actions.start_at(container, state.not_before)
        return
    delay = pod.backoff.delay(state)
    backoff_end = state.exit.finished_at + delay
    if not actions.start_at(container, max(backoff_end, state.not_before)) and backoff_end > actions.now:
        actions.backing_off.append((container, delay))


def _stop_running(pod: PodState, actions: _ActionsBuilder) -> PodActions:
    """Stops all running containers, the sidecars after all others, one by one from the last to the first."""
    running = [container for container in pod.containers if pod.of_container(container).running]
    others = [container for container in running if container.role is not ContainerRole.SIDECAR]
    actions.stop.extend(others or running[-1:])
    return actions.build(terminated=not running)


def pod_phase(pod: PodState, *, terminated: bool) -> str:
    """The pod's phase: Succeeded or Failed only when the pod has *terminated*, since these are final."""
    if _init_failed(pod):
        return "Failed" if terminated else "Pending"
    mains = [pod.of_container(main) for main in pod.with_role(ContainerRole.MAIN)]
    if terminated:
        return "Succeeded" if mains and all(map(_succeeded, mains)) else "Failed"
    if not is_initialized(pod) or not all(state.run for state in mains):
        return "Pending"
    return "Running"


def _succeeded(state: ContainerState) -> bool:
    return state.exit is not None and state.exit.exit_code == 0


def incomplete_init_containers(pod: PodState) -> Iterator[Container]:
    """Init containers that have not succeeded, and sidecars that have not started, while the pod initializes."""
    if not is_initialized(pod):
        for container in pod.containers:
            if container.role is not ContainerRole.MAIN and not _next_may_start(pod, container):
                yield container
