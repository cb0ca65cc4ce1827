"""A control plane for benchmarks, with the Job controller in its own process."""

from pathlib import Path

from tests.cluster.build import is_built, programs_of
from tests.cluster.components import Component
from tests.cluster.controlplane import ControlPlane
from tests.cluster.processes import RunningProcess
from tests.cluster.versions import chosen

#: The controllers of a controller-manager: all but Jobs, or only Jobs.
_ALL_BUT_JOBS, _ONLY_JOBS = "--controllers=*,-job-controller", "--controllers=job-controller"


class BenchControlPlane(ControlPlane):
    """
    A control plane whose etcd syncs to disk.

    A second kube-controller-manager runs only the Job controller, with the default number of workers and the rate
    limits of the first, so that its cost can be measured.
    """

    def __init__(self, directory: Path) -> None:
        assert is_built(chosen()), (
            f"Kubernetes {chosen()} is not built: python -m tests.cluster.build does it, once"
        )
        super().__init__(directory, programs_of(chosen()), durable=True)
        self._jobs: RunningProcess | None = None

    def start(self) -> None:
        arguments = list(self._arguments[Component.CONTROLLER_MANAGER])
        self.add_flags(Component.CONTROLLER_MANAGER, _ALL_BUT_JOBS)
        super().start()
        assert self._guard is not None
        program = str(self._programs / Component.CONTROLLER_MANAGER)
        log = self._directory / "job-controller.log"
        self._jobs = self._guard.start([program, *arguments, _ONLY_JOBS], log=log, directory=self._directory)

    @property
    def job_controller(self) -> int:
        """The pid of the Job controller."""
        assert self._jobs is not None
        return self._jobs.pid

    @property
    def audit_log(self) -> Path:
        return self._layout.audit
