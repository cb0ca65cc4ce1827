"""A Framework as the planner reads it: identity, spec and status."""

from dataclasses import dataclass

from launcher.core.spec import FrameworkName, FrameworkSpec
from launcher.core.status import FrameworkStatus


@dataclass(frozen=True, slots=True)
class Framework:
    """One version of a Framework."""

    name: FrameworkName
    namespace: str
    uid: str
    generation: int
    spec: FrameworkSpec
    status: FrameworkStatus | None = None
    #: It has a deletionTimestamp.
    deleting: bool = False
    #: Errors of the stored spec. If there are any, ``spec`` is the last valid one, and no pods are created.
    spec_errors: str = ""
