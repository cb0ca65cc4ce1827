"""The log archive interface: the ends of container logs, which stay when their pods are deleted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ArchivedPod:
    """A pod whose logs are archived. Pods of one name differ by uid."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class LogKey:
    """One run of a container: the first has restart 0, as in the restartCount of its status."""

    pod: ArchivedPod
    container: str
    restart: int


class LogArchive(Protocol):
    """
    Logs by key, each written once. ``log_text`` documents their format.

    All methods raise Unavailable if the archive cannot be reached, and Forbidden if it denies access. They have no
    timeout of their own.
    """

    async def create(self, key: LogKey, text: bytes) -> bool:
        """Stores the log. Returns False, with nothing changed, if there is one already."""

    async def exists(self, key: LogKey) -> bool:
        """Returns whether there is a log."""

    async def read(self, key: LogKey) -> bytes:
        """Returns the log. Raises NotFound."""

    async def runs(self, pod: ArchivedPod) -> Mapping[str, Sequence[int]]:
        """Returns the restarts of each container that have a log, the lowest first."""
