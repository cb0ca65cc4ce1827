"""
The progress of running tasks: their output and their heartbeats.

Output is read from time to time. What counts is whether it has changed since the last read, not the times in it: clocks
of nodes differ, and that of a machine can be set. So a task that writes nothing is found between one and one and a half
deadlines after its last line.
"""

from dataclasses import dataclass

from launcher.core.pods.observed_pod import ObservedPod
from launcher.core.spec import TaskRole
from launcher.core.status import TaskStatus
from launcher.core.timestamps import Time

#: Reads of the output within one deadline.
_READS_PER_DEADLINE = 2


@dataclass(frozen=True, slots=True)
class PodOutput:
    """The end of a pod's output: the last lines of the container that wrote last, each with its time."""

    uid: str
    #: The last line of every container, with its time: it changes with each line.
    mark: str = ""
    #: The last lines without their times.
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObservedOutput:
    """The output of a pod at its last read, and the time of the first read that returned it."""

    output: PodOutput
    read_at: Time
    changed_at: Time


def observed_output(previous: ObservedOutput | None, output: PodOutput, now: Time) -> ObservedOutput:
    """Returns *output*, read at *now*, after the *previous* read of the same pod."""
    is_same = previous is not None and (previous.output.uid, previous.output.mark) == (
        output.uid,
        output.mark,
    )
    return ObservedOutput(output, now, previous.changed_at if previous is not None and is_same else now)


@dataclass(frozen=True, slots=True)
class ProgressDeadline:
    """When the output of a running task is read next, and when the task fails if it has not changed until then."""

    next_read: Time
    fails_at: Time
    has_stalled: bool


def progress_deadline(
    task: TaskStatus, pod: ObservedPod, role: TaskRole | None, observed: ObservedOutput | None
) -> ProgressDeadline | None:
    """Returns the deadline of a running task; None if its role has none. *observed* may be of an older pod."""
    limit = role.progress_deadline_seconds if role is not None else None
    if limit is None:
        return None
    if observed is not None and observed.output.uid != pod.uid:
        observed = None
    started = task.transition_time if task.attempt.run_time is None else task.attempt.run_time
    alive = started if pod.heartbeat is None else max(started, pod.heartbeat)
    fails_at = limit + (alive if observed is None else max(alive, observed.changed_at))
    last_read = alive if observed is None else max(alive, observed.read_at)
    return ProgressDeadline(
        next_read=last_read + max(1, limit // _READS_PER_DEADLINE),
        fails_at=fails_at,
        has_stalled=observed is not None and observed.read_at >= fails_at,
    )
