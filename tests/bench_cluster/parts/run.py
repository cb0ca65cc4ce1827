"""The measurements of one run of a load."""

from dataclasses import dataclass

from tests.bench_cluster.parts.loads import Load
from tests.bench_cluster.parts.request_trace import RequestTrace


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a load by one creator; times count from the submission of its first object."""

    load: Load
    trace: RequestTrace
    #: Of the controller's process: CPU seconds, and peak memory in bytes.
    processor: float
    memory: int

    @property
    def creation(self) -> float:
        """Created pods per second."""
        return self.load.tasks / (max(self.trace.created) - self._start)

    @property
    def running(self) -> float:
        """Pods that reached Running per second."""
        return self.load.tasks / (max(self.trace.running.values()) - self._start)

    @property
    def completion(self) -> float:
        """Seconds until the controller's last status write."""
        return self.trace.saved - self._start

    @property
    def requests(self) -> float:
        """Requests of the controller per task."""
        return self.trace.requests / self.load.tasks

    @property
    def conflicts(self) -> int:
        """The number of status updates of the controller with a conflict."""
        return sum(
            count
            for (_, kind, status), count in self.trace.counts.items()
            if status == 409 and kind.endswith("/status")
        )

    @property
    def cost(self) -> float:
        """CPU seconds for a thousand tasks."""
        return self.processor / self.load.tasks * 1000

    @property
    def _start(self) -> float:
        assert self.trace.start is not None
        return self.trace.start
