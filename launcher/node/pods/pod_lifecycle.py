"""
The life of a pod: from what is known of its containers to what is to be done next.

Init containers run one after the other, a sidecar among them only has to start; then the main containers run side by
side. A container that ends runs again as the restart policy says, at once the first time, then after pauses that grow.
When the pod has to end, or its main containers are through, the sidecars end last, in reverse order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from launcher.node.pods.container_state import ContainerState, Records
from launcher.node.pods.pod_spec import Container, ContainerRole, RestartPolicy


@dataclass(frozen=True, slots=True)
class RestartBackoff:
    """Seconds between the end of a container and its next start."""

    first: float = 10.0
    most: float = 300.0
    #: A container that ran for so long has worked: the next pause is the first again.
    worked: float = 600.0

    def streak(self, record: ContainerState) -> int:
        """How many restarts in a row lie behind the container, now that it has ended."""
        attempt = record.attempt
        if attempt is None or attempt.end is None or attempt.started is None:
            return record.streak
        return 0 if attempt.end.at - attempt.started >= self.worked else record.streak

    def pause(self, record: ContainerState) -> float:
        """How long an ended container waits: not at all the first time."""
        streak = self.streak(record)
        return min(self.most, self.first * 2 ** min(streak - 1, 30)) if streak else 0.0


@dataclass(frozen=True, slots=True)
class PodState:
    """Everything that decides what a pod needs."""

    containers: Sequence[Container]
    records: Records
    policy: RestartPolicy
    #: The pod has to end: it was deleted, or ran too long, or uses too much.
    ending: bool = False
    backoff: RestartBackoff = field(default_factory=RestartBackoff)

    def of(self, role: ContainerRole) -> list[Container]:
        return [one for one in self.containers if one.role is role]

    def record(self, container: Container) -> ContainerState:
        return self.records[container.name]


@dataclass(frozen=True, slots=True)
class PodActions:
    """What to do now, and when to look again without being asked."""

    start: tuple[Container, ...] = ()
    stop: tuple[Container, ...] = ()
    #: Containers that wait for their next start, with the pause that they were given.
    pausing: tuple[tuple[Container, float], ...] = ()
    look_again: float | None = None
    #: Nothing runs, and nothing will.
    over: bool = False


@dataclass(slots=True)
class _Gathering:
    """A Todo in the making."""

    now: float
    start: list[Container] = field(default_factory=list)
    stop: list[Container] = field(default_factory=list)
    pausing: list[tuple[Container, float]] = field(default_factory=list)
    look_again: float | None = None

    def start_at(self, container: Container, when: float) -> bool:
        """Start it, or have somebody look again when that is due. Whether it is due."""
        if when <= self.now:
            self.start.append(container)
            return True
        self.look_again = when if self.look_again is None else min(self.look_again, when)
        return False

    def todo(self, *, over: bool = False) -> PodActions:
        return PodActions(tuple(self.start), tuple(self.stop), tuple(self.pausing), self.look_again, over)


def compute_pod_actions(situation: PodState, now: float) -> PodActions:
    """What the pod needs now."""
    steps = _Gathering(now)
    mains = situation.of(ContainerRole.MAIN)
    if situation.ending or _init_failed(situation) or all(_is_through(situation, main) for main in mains):
        return _wind_down(situation, steps)
    if _initialize(situation, steps):
        for main in mains:
            _keep_running(situation, main, steps)
    return steps.todo()


def runs_again(policy: RestartPolicy, container: Container, exit_code: int) -> bool:
    """Whether a container that ended like that is started once more, as long as its pod lives."""
    if container.role is ContainerRole.SIDECAR:
        return True
    if policy is RestartPolicy.NEVER:
        return False
    # An init container has done its work once it succeeds, whatever the policy.
    return exit_code != 0 or (policy is RestartPolicy.ALWAYS and container.role is ContainerRole.MAIN)


def is_initialized(situation: PodState) -> bool:
    """Whether the main containers may run: once they do, nothing initializes again."""
    if any(situation.record(main).attempt for main in situation.of(ContainerRole.MAIN)):
        return True
    return all(
        _is_passed(situation, one) for one in situation.containers if one.role is not ContainerRole.MAIN
    )


def _is_passed(situation: PodState, container: Container) -> bool:
    """Whether what comes after this one may start."""
    record = situation.record(container)
    if container.role is ContainerRole.SIDECAR:
        return record.running and record.started
    return record.ended is not None and record.ended.exit_code == 0


def _init_failed(situation: PodState) -> bool:
    return any(_has_failed(situation, one) for one in situation.of(ContainerRole.INIT)) and not any(
        situation.record(main).attempt for main in situation.of(ContainerRole.MAIN)
    )


def _has_failed(situation: PodState, container: Container) -> bool:
    end = situation.record(container).ended
    return (
        end is not None and end.exit_code != 0 and not runs_again(situation.policy, container, end.exit_code)
    )


def _is_through(situation: PodState, container: Container) -> bool:
    end = situation.record(container).ended
    return end is not None and not runs_again(situation.policy, container, end.exit_code)


def _initialize(situation: PodState, steps: _Gathering) -> bool:
    """Take care of everything before the main containers. Whether these may run."""
    initialized = is_initialized(situation)
    kept = (ContainerRole.SIDECAR,) if initialized else (ContainerRole.SIDECAR, ContainerRole.INIT)
    for container in situation.containers:
        if container.role in kept and not _is_passed(situation, container):
            _keep_running(situation, container, steps)
            if not initialized:
                return False
    return initialized


def _keep_running(situation: PodState, container: Container, steps: _Gathering) -> None:
    """Start the container if it does not run and its time has come."""
    record = situation.record(container)
    end = record.ended
    if record.running or (end and not runs_again(situation.policy, container, end.exit_code)):
        return
    if end is None:
        steps.start_at(container, record.not_before)
        return
    pause = situation.backoff.pause(record)
    if not steps.start_at(container, max(end.at + pause, record.not_before)) and end.at + pause > steps.now:
        steps.pausing.append((container, pause))


def _wind_down(situation: PodState, steps: _Gathering) -> PodActions:
    """End everything that still runs, the sidecars after all others, the last of them first."""
    running = [one for one in situation.containers if situation.record(one).running]
    others = [one for one in running if one.role is not ContainerRole.SIDECAR]
    steps.stop.extend(others or running[-1:])
    return steps.todo(over=not running)


def phase_of(situation: PodState, *, over: bool) -> str:
    """The pod's phase: Succeeded or Failed only when the pod is *over*, so that it never comes back."""
    if _init_failed(situation):
        return "Failed" if over else "Pending"
    mains = [situation.record(main) for main in situation.of(ContainerRole.MAIN)]
    if over:
        return "Succeeded" if mains and all(map(_succeeded, mains)) else "Failed"
    if not is_initialized(situation) or not all(record.attempt for record in mains):
        return "Pending"
    return "Running"


def _succeeded(record: ContainerState) -> bool:
    return record.ended is not None and record.ended.exit_code == 0


def awaited(situation: PodState) -> Iterator[Container]:
    """The containers that initialize the pod and are not done with it."""
    if not is_initialized(situation):
        for container in situation.containers:
            if container.role is not ContainerRole.MAIN and not _is_passed(situation, container):
                yield container
