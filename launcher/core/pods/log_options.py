"""Which part of a container's log somebody wants to see."""

from dataclasses import dataclass

#: A header of the answer with a log: the uid of the pod that wrote it.
POD_UID_HEADER = "Launcher-Pod-Uid"


@dataclass(frozen=True, slots=True)
class PodLogOptions:
    """Applied in this order: what came since, the last lines of that, the first bytes of those."""

    #: Go on as long as the container runs, and end with it.
    follow: bool = False
    #: The container before its last restart.
    previous: bool = False
    #: Each line begins with the time at which it was written.
    timestamps: bool = False
    #: Seconds since 1970: only lines written then or later.
    since: float | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
