"""How one load went."""

from dataclasses import dataclass

from tests.bench_cluster.parts.loads import Load
from tests.bench_cluster.parts.trail import Trail


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a load in one way, from the submission of its first object on."""

    load: Load
    trail: Trail
    #: Of the controller's process: seconds of processor time, and the most bytes of memory.
    processor: float
    memory: int

    @property
    def creation(self) -> float:
        """Pods that were created per second."""
        return self.load.tasks / (max(self.trail.created) - self._began)

    @property
    def running(self) -> float:
        """Pods that came to run per second."""
        return self.load.tasks / (max(self.trail.running.values()) - self._began)

    @property
    def completion(self) -> float:
        """Seconds until the controller had stored that all is over."""
        return self.trail.saved - self._began

    @property
    def requests(self) -> float:
        """How many the controller made for each task."""
        return self.trail.requests / self.load.tasks

    @property
    def conflicts(self) -> int:
        """How often the controller was told that a status was not what it took it for."""
        return sum(
            count
            for (_, kind, status), count in self.trail.asked.items()
            if status == 409 and kind.endswith("/status")
        )

    @property
    def cost(self) -> float:
        """Seconds of processor time for a thousand tasks."""
        return self.processor / self.load.tasks * 1000

    @property
    def _began(self) -> float:
        assert self.trail.began is not None
        return self.trail.began
