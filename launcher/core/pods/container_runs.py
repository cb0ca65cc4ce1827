"""The runs of containers that a pod's status reports. Each restart of a container is another run, with its own log."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from launcher.core.json_access import as_list, as_object, text
from launcher.core.replicas import as_int

_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class ObservedRun(NamedTuple):
    """A run that has started; *restart* is 0 for the first one of its container."""

    container: str
    restart: int
    terminated: bool
    #: As in the status; empty if it is unknown or the run goes on.
    finished_at: str = ""


def container_runs(pod: Mapping[str, Any]) -> Iterator[ObservedRun]:
    """Yields the last run of each container that has started, and the run before it."""
    status = as_object(pod.get("status"))
    for kind in _STATUSES:
        for entry in map(as_object, as_list(status.get(kind))):
            yield from _runs(entry)


def _runs(status: Mapping[str, Any]) -> Iterator[ObservedRun]:
    name, restart = text(status.get("name")), as_int(status.get("restartCount"))
    state = as_object(status.get("state"))
    last = as_object(as_object(status.get("lastState")).get("terminated"))
    last_end = text(last.get("finishedAt"))
    if "terminated" in state or "running" in state:
        end = text(as_object(state.get("terminated")).get("finishedAt"))
        yield ObservedRun(name, restart, "terminated" in state, end)
        if last and restart:
            yield ObservedRun(name, restart - 1, terminated=True, finished_at=last_end)
    elif last:
        # It waits for its next restart, which is not counted yet.
        yield ObservedRun(name, restart, terminated=True, finished_at=last_end)
