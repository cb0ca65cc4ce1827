"""The state of the launcher itself, as far as the process that diagnoses knows it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Leadership:
    """The Lease of the launcher's replicas, as one replica observed it."""

    #: The namespace of the Lease and of the replicas.
    namespace: str
    #: The identity of the replica that leads; empty if none does.
    holder: str
    #: Seconds since the holder renewed the Lease.
    unrenewed_seconds: int
    #: Seconds without a renewal after which another replica leads.
    duration_seconds: int


@dataclass(frozen=True, slots=True)
class LauncherState:
    """A launcher without problems, unless the fields say otherwise."""

    #: Free disk space is too small for writes.
    disk_full: str = ""
    #: None: there is one launcher only (local mode), or the Lease is not known yet.
    leadership: Leadership | None = None
    #: Frameworks that wait to be reconciled, and the seconds of the one that has waited longest; known to the replica
    #: that leads.
    queued: int = 0
    queued_seconds: float = 0.0
    #: Seconds for which the API server requested to send nothing; 0 if it did not.
    throttled_seconds: float = 0.0
    #: Errors of the launcher with this Framework or its pods.
    object_errors: Sequence[str] = ()


HEALTHY: Final = LauncherState()
