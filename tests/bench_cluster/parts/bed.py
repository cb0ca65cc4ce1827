"""A control plane to measure on, where the Job controller is a process of its own."""

from pathlib import Path

from tests.cluster.build import is_built, programs_of
from tests.cluster.controlplane import ControlPlane
from tests.cluster.parts import Part
from tests.cluster.processes import Running
from tests.cluster.versions import chosen

#: What a controller-manager is told to run: all but Jobs, or nothing else.
_ALL_BUT_JOBS, _ONLY_JOBS = "--controllers=*,-job-controller", "--controllers=job-controller"


class Bed(ControlPlane):
    """
    As for tests, but etcd waits for the disk.

    A second kube-controller-manager has the Jobs, with the number of workers that is its default and the pace of the
    first: only so is it known what they cost.
    """

    def __init__(self, directory: Path) -> None:
        assert is_built(chosen()), (
            f"Kubernetes {chosen()} is not built: python -m tests.cluster.build does it, once"
        )
        super().__init__(directory, programs_of(chosen()), durable=True)
        self._jobs: Running | None = None

    def start(self) -> None:
        told = list(self._arguments[Part.CONTROLLER_MANAGER])
        self.tell(Part.CONTROLLER_MANAGER, _ALL_BUT_JOBS)
        super().start()
        assert self._guard is not None
        program = str(self._programs / Part.CONTROLLER_MANAGER)
        log = self._directory / "job-controller.log"
        self._jobs = self._guard.start([program, *told, _ONLY_JOBS], log=log, directory=self._directory)

    @property
    def job_controller(self) -> int:
        """The process that works on Jobs and on nothing else."""
        assert self._jobs is not None
        return self._jobs.pid

    @property
    def audit_log(self) -> Path:
        return self._places.audit
