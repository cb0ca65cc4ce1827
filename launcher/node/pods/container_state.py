"""
The state of each container of a pod, as values.

All of it is restored from the pod's status in the store and from the runs of the runtime, so a launcher that restarts
continues where the last one stopped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher.core.timestamps import parse_rfc3339
from launcher.node.container_runtime import ContainerRun, ExitStatus
from launcher.node.pods.pod_spec import Container
from launcher.store.interface import Object

#: The largest difference between the time of an exit and the time of its observation.
_MAX_DELAY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RunState:
    """One start of a container; the first has number 0."""

    restart: int
    #: None if the program was never started.
    started: float | None
    exit: ExitStatus | None = None
    #: Those of the runtime.
    container_id: str = ""
    image_ref: str = ""

    @property
    def running(self) -> bool:
        return self.exit is None


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a container is not running, in the kubelet's words."""

    #: Empty for the default: ContainerCreating or PodInitializing.
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of one container."""

    run: RunState | None = None
    #: The run before that.
    last_run: RunState | None = None
    #: Why the last start failed.
    waiting: WaitingReason | None = None
    #: The earliest time of the next start.
    not_before: float = 0.0
    #: Consecutive restarts without a long run in between.
    consecutive_restarts: int = 0
    #: Whether its startup probe has succeeded.
    started: bool = False
    ready: bool = False

    @property
    def running(self) -> bool:
        return self.run is not None and self.run.running

    @property
    def exit(self) -> ExitStatus | None:
        return self.run.exit if self.run else None

    @property
    def next_restart(self) -> int:
        """The number of the next run."""
        return self.run.restart + 1 if self.run else 0


ContainerStates = Mapping[str, ContainerState]
#: Returns the exit status of an ended run, with its termination message.
ReadExitStatus = Callable[[Container, ContainerRun], ExitStatus]


def with_plausible_time(status: ExitStatus, now: float) -> ExitStatus:
    """
    The exit status of a run whose exit was observed *now*.

    Its time is that of the machine's clock, which may have been changed since *now*'s clock was set: a time in the
    future, or long ago, would lengthen or shorten the back-off before the next start.
    """
    is_plausible = now - _MAX_DELAY_SECONDS <= status.finished_at <= now
    return status if is_plausible else replace(status, finished_at=now)


def restore_state(
    container: Container,
    status: Object,
    get_run: Callable[[int], ContainerRun | None],
    read_exit_status: ReadExitStatus,
    now: float,
) -> ContainerState:
    """
    The state of a container, from the pod's stored *status* and from its runs by restart number.

    Every run is in the status before the next one starts, so at most one run is newer than the status.
    """
    stored = _stored_status(container, status)
    state = _from_status(stored) if stored else ContainerState()
    first = state.run.restart if state.run else 0
    for restart in (first, first + 1):
        run = get_run(restart)
        if run is not None:
            state = _with_run(state, restart, run, read_exit_status(container, run) if run.ended else None)
    if state.run is not None and state.run.running and get_run(state.run.restart) is None:
        state = replace(state, run=replace(state.run, exit=ExitStatus.unknown(now)), ready=False)
    if state.run is not None and state.exit is not None and state.exit.finished_at > now:
        # The clock was set back while no launcher ran: the back-off begins now instead of in the future.
        state = replace(state, run=replace(state.run, exit=replace(state.exit, finished_at=now)))
    return state


def _stored_status(container: Container, status: Object) -> Mapping[str, Any] | None:
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((stored for stored in statuses if stored["name"] == container.name), None)


def _from_status(stored: Mapping[str, Any]) -> ContainerState:
    restart: int = stored.get("restartCount") or 0
    state, last = stored.get("state") or {}, (stored.get("lastState") or {}).get("terminated")
    started, ready = bool(stored.get("started")), bool(stored.get("ready"))
    if running := state.get("running"):
        run = RunState(restart, _time(running.get("startedAt")), None, *_stored_ids(stored))
    elif terminated := state.get("terminated"):
        run = _terminated_run(restart, terminated, stored.get("imageID") or "")
    elif last:
        # It waits for its next start: the last state is that of the run with this number.
        run = _terminated_run(restart, last, stored.get("imageID") or "")
        return ContainerState(run, consecutive_restarts=restart)
    else:
        return ContainerState()
    last_run = _terminated_run(restart - 1, last) if last and restart else None
    return ContainerState(run, last_run, consecutive_restarts=restart, started=started, ready=ready)


def _stored_ids(stored: Mapping[str, Any]) -> tuple[str, str]:
    return stored.get("containerID") or "", stored.get("imageID") or ""


def _terminated_run(restart: int, terminated: Mapping[str, Any], image_ref: str = "") -> RunState:
    status = ExitStatus(
        terminated.get("exitCode") or 0,
        terminated.get("reason") or "Error",
        _time(terminated.get("finishedAt")) or 0.0,
        terminated.get("message") or "",
    )
    started, container_id = _time(terminated.get("startedAt")), terminated.get("containerID") or ""
    return RunState(restart, started, status, container_id, image_ref)


def _time(text: str | None) -> float | None:
    return float(parse_rfc3339(text)) if text else None


def _with_run(
    state: ContainerState, restart: int, run: ContainerRun, status: ExitStatus | None
) -> ContainerState:
    """The state with *run*, which is its current run or the next one; *status* is the run's exit."""
    current = state.run
    observed = RunState(restart, run.started, status, run.container_id, run.image_ref)
    if current is None or current.restart == restart:
        # An exit in the stored status does not change.
        if current is not None and current.exit is not None:
            return state
        return replace(state, run=observed, ready=state.ready and status is None)
    return ContainerState(observed, last_run=current, consecutive_restarts=restart)
