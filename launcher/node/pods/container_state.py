"""
What is known of each container of a pod, as values.

All of it can be had again from the pod's status in the store and from the runs that the runtime knows, so a launcher
that starts anew goes on where the last one was.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher.core.timestamps import parse_rfc3339
from launcher.node.container_runtime import ContainerRun
from launcher.node.pods.pod_spec import Container
from launcher.store.interface import Object

#: What a container engine answers for a container that was killed; told also when nobody saw how it ended.
_KILLED = 137
#: Seconds after which an end that is only now seen is not believed to be that old.
_LATE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How one attempt to run a container ended."""

    exit_code: int
    reason: str
    at: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class RunState:
    """One start of a container; the first has the number 0."""

    restart: int
    #: None when it never came to run.
    started: float | None
    end: ContainerExit | None = None

    @property
    def running(self) -> bool:
        return self.end is None


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a container does not run, in the kubelet's words."""

    #: Empty for the reason of every container that is about to start.
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """What is known of one container."""

    attempt: RunState | None = None
    #: The attempt before that.
    last: RunState | None = None
    #: Why it could not be started when that was tried last.
    hindrance: WaitingReason | None = None
    #: No start before that time.
    not_before: float = 0.0
    #: Restarts in a row without a long run between them.
    streak: int = 0
    #: Whether it has begun to work, as far as its startup probe tells.
    started: bool = False
    ready: bool = False

    @property
    def running(self) -> bool:
        return self.attempt is not None and self.attempt.running

    @property
    def ended(self) -> ContainerExit | None:
        return self.attempt.end if self.attempt else None

    @property
    def next_restart(self) -> int:
        """The number of the attempt that comes next."""
        return self.attempt.restart + 1 if self.attempt else 0


Records = Mapping[str, ContainerState]
#: How a run of a container ended, with its last words.
Ending = Callable[[Container, ContainerRun], ContainerExit]


def end_of(run: ContainerRun, message: str = "") -> ContainerExit:
    """How the run ended, as the kubelet calls it."""
    assert run.ended is not None
    ended = run.ended
    if ended.is_estimated:
        return unknown_end(ended.at)
    if ended.out_of_memory:
        return ContainerExit(ended.exit_code, "OOMKilled", ended.at, message)
    return ContainerExit(ended.exit_code, "Error" if ended.exit_code else "Completed", ended.at, message)


def observed(end: ContainerExit, now: float) -> ContainerExit:
    """
    The end of a run that was seen to end *now*.

    Its time is by the machine's clock, which may have been set since *now*'s clock was: a time that is in the future,
    or long ago, would make the pause before the next start longer or shorter.
    """
    return end if now - _LATE_SECONDS <= end.at <= now else replace(end, at=now)


def unknown_end(at: float) -> ContainerExit:
    """The end of a run that nobody saw."""
    return ContainerExit(
        _KILLED, "ContainerStatusUnknown", at, "The container could not be located: nobody saw how it ended"
    )


def restore_state(
    container: Container,
    status: Object,
    run_of: Callable[[int], ContainerRun | None],
    ending: Ending,
    now: float,
) -> ContainerState:
    """
    The record of a container, from the pod's stored *status* and from its runs by number.

    Every attempt is in the status before the next one starts, so at most one run is newer than the status.
    """
    told = _told(container, status)
    record = _from_status(told) if told else ContainerState()
    first = record.attempt.restart if record.attempt else 0
    for restart in (first, first + 1):
        run = run_of(restart)
        if run is not None:
            record = _with_run(record, restart, run, container, ending)
    if record.attempt is not None and record.attempt.running and run_of(record.attempt.restart) is None:
        record = replace(record, attempt=replace(record.attempt, end=unknown_end(now)), ready=False)
    if record.attempt is not None and record.attempt.end is not None and record.attempt.end.at > now:
        # The clock was set back while no launcher ran: the pause begins now, and is not longer than it should be.
        record = replace(record, attempt=replace(record.attempt, end=replace(record.attempt.end, at=now)))
    return record


def _told(container: Container, status: Object) -> Mapping[str, Any] | None:
    everywhere = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((one for one in everywhere if one["name"] == container.name), None)


def _from_status(told: Mapping[str, Any]) -> ContainerState:
    restart: int = told.get("restartCount") or 0
    state, last = told.get("state") or {}, (told.get("lastState") or {}).get("terminated")
    started, ready = bool(told.get("started")), bool(told.get("ready"))
    if running := state.get("running"):
        attempt = RunState(restart, _time(running.get("startedAt")))
    elif terminated := state.get("terminated"):
        attempt = _ended(restart, terminated)
    elif last:
        # It waits for its next start: what is told as the last state is the attempt of that number.
        return ContainerState(_ended(restart, last), streak=restart)
    else:
        return ContainerState()
    before = _ended(restart - 1, last) if last and restart else None
    return ContainerState(attempt, before, streak=restart, started=started, ready=ready)


def _ended(restart: int, terminated: Mapping[str, Any]) -> RunState:
    end = ContainerExit(
        terminated.get("exitCode") or 0,
        terminated.get("reason") or "Error",
        _time(terminated.get("finishedAt")) or 0.0,
        terminated.get("message") or "",
    )
    return RunState(restart, _time(terminated.get("startedAt")), end)


def _time(text: str | None) -> float | None:
    return float(parse_rfc3339(text)) if text else None


def _with_run(
    record: ContainerState, restart: int, run: ContainerRun, container: Container, ending: Ending
) -> ContainerState:
    """What is known with that run, which is the record's own attempt or the one after it."""
    known = record.attempt
    end = ending(container, run) if run.ended else None
    attempt = RunState(restart, run.started, end)
    if known is None or known.restart == restart:
        # An end that is in the status stays as it was told.
        if known is not None and known.end is not None:
            return record
        return replace(record, attempt=attempt, ready=record.ready and end is None)
    return ContainerState(attempt, last=known, streak=restart)
