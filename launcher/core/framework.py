"""A Framework as the plan takes it in: who it is, what is wanted of it, what has happened to it."""

from dataclasses import dataclass

from launcher.core.spec import FrameworkName, FrameworkSpec
from launcher.core.status import FrameworkStatus


@dataclass(frozen=True, slots=True)
class Framework:
    """One Framework at one moment."""

    name: FrameworkName
    namespace: str
    uid: str
    generation: int
    spec: FrameworkSpec
    status: FrameworkStatus | None = None
    #: Somebody has asked for its deletion.
    deleting: bool = False
    #: Why the spec as it is stored cannot be run; then ``spec`` is not it, and nothing new is begun.
    fault: str = ""
