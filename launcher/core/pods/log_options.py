"""Options of a request for a container's log."""

from dataclasses import dataclass

#: Response header with the uid of the pod that wrote the log.
POD_UID_HEADER = "Launcher-Pod-Uid"


@dataclass(frozen=True, slots=True)
class PodLogOptions:
    """Applied in this order: *since*, *tail_lines*, *limit_bytes*."""

    #: Stream until the container terminates.
    follow: bool = False
    #: The log of the previous container instance.
    previous: bool = False
    #: Prefix each line with its timestamp.
    timestamps: bool = False
    #: Seconds since 1970; only lines written at or after this time.
    since: float | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None
