"""Converts MPIJobs: workers, and a launcher with the hostfile for mpirun."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import address, framework_for, start_after
from launcher.converters.kubeflow.job_spec import (
    JobFamily,
    KubeflowJob,
    ReplicaSpec,
    check_single_replica,
    read_job,
)
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.json_access import as_objects
from launcher.core.validation.field_errors import invalid

Json = dict[str, Any]

LAUNCHER, WORKER = "launcher", "worker"
MPIJOBS = JobFamily(
    kind="MPIJob",
    versions=("kubeflow.org/v1",),
    field="mpiReplicaSpecs",
    operator="mpijob-controller",
    container="",
    port_name="",
    port=0,
    chiefs=(LAUNCHER,),
    deciding=(LAUNCHER, WORKER),
)
_DIRECTORY, _VOLUME = "/etc/mpi", "mpi-job-config"
_HOSTFILE = f"{_DIRECTORY}/hostfile"
#: The command of workers without one: the ssh server for mpirun.
_SERVER = ["/usr/sbin/sshd", "-De"]


def convert(obj: Json) -> Conversion:
    """
    Converts a MPIJob to a Framework.

    Raises InvalidObject with all errors and unsupported fields.
    """
    errors: list[FieldError] = []
    job, spec = read_job(obj, MPIJOBS, errors)
    slots, main = spec.count("slotsPerWorker"), spec.take("mainContainer", str)
    spec.finish()
    check_single_replica(job, LAUNCHER, errors, is_required=True)
    if not errors and main is not None and _container_named(job, main) is None:
        errors.append(invalid("spec.mainContainer", main, "must be the name of a container of the launcher"))
    if errors:
        raise InvalidObject(tuple(errors))
    return framework_for(job, _MpiSemantics(job, 1 if slots is None else slots, main))


def _container_named(job: KubeflowJob, name: str) -> Json | None:
    launcher = job.replica(LAUNCHER)
    containers = as_objects(launcher.template["spec"]["containers"]) if launcher else []
    return next((container for container in containers if container.get("name") == name), None)


def _has_gpus(replica: ReplicaSpec) -> bool:
    for container in as_objects(replica.template["spec"]["containers"]):
        match container.get("resources"):
            case {"limits": dict() as limits} if any(str(name).endswith("/gpu") for name in limits):
                return True
            case _:
                pass
    return False


@dataclass(frozen=True, slots=True)
class _MpiSemantics:
    """Completion, hostfile and variables of an MPIJob."""

    job: KubeflowJob
    slots: int
    main: str | None

    def completion(self, replica: ReplicaSpec) -> Json:
        """The result of the launcher is the result of the job."""
        decides = 1 if replica.type == LAUNCHER else -1
        return {"minFailedTaskCount": decides, "minSucceededTaskCount": decides}

    def variables(self, replica: ReplicaSpec) -> Mapping[str, str]:
        if replica.type != LAUNCHER:
            return {}
        hidden = (
            {} if _has_gpus(replica) else {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
        )
        return {"OMPI_MCA_orte_default_hostfile": _HOSTFILE, "I_MPI_HYDRA_HOST_FILE": _HOSTFILE, **hidden}

    def extend_role(self, replica: ReplicaSpec, role: Json) -> Json:
        pod = role["task"]["pod"]
        spec = (
            self._with_hosts(pod["spec"]) if replica.type == LAUNCHER else _with_server_command(pod["spec"])
        )
        role = {**role, "task": {**role["task"], "pod": {**pod, "spec": spec}}}
        return start_after(self.job, role, WORKER) if replica.type == LAUNCHER else role

    def _with_hosts(self, spec: Json) -> Json:
        """The launcher's pod with an init container that writes the hostfile."""
        mount = {"name": _VOLUME, "mountPath": _DIRECTORY}
        containers = as_objects(spec["containers"])
        main = next(
            (container for container in containers if container.get("name") == self.main), containers[0]
        )
        lines = " ".join(f"'{line}'" for line in self._hosts())
        writer = {
            "name": "mpi-hostfile",
            "image": main.get("image", ""),
            "command": ["/bin/sh", "-c", f"printf '%s\\n' {lines} > {_HOSTFILE}"],
            "volumeMounts": [mount],
        }
        return {
            **spec,
            "initContainers": [writer, *(spec.get("initContainers") or ())],
            "containers": [
                {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), mount]}
                for container in containers
            ],
            "volumes": [*(spec.get("volumes") or ()), {"name": _VOLUME, "emptyDir": {}}],
        }

    def _hosts(self) -> Iterator[str]:
        launcher, workers = self.job.replica(LAUNCHER), self.job.replica(WORKER)
        if launcher is not None and (_has_gpus(launcher) or workers is None):
            yield f"{address(LAUNCHER, 0)} slots={self.slots}"
        for index in range(workers.count if workers else 0):
            yield f"{address(WORKER, index)} slots={self.slots}"

    def notes(self) -> Iterator[str]:
        yield "the launcher's pod is named JOB-launcher-0, not JOB-launcher"
        yield (
            "mpirun connects to the workers by ssh, with the keys of the image, not by kubectl exec: pods get no "
            f"rights in the cluster, and {_DIRECTORY} has no kubexec.sh and discover_hosts.sh"
        )
        for replica in self.job.replicas:
            if replica.type == WORKER and any(_idle(container) for container in _containers(replica)):
                yield f"worker: {' '.join(_SERVER)} is the command of containers without one, not sleep"


def _with_server_command(spec: Json) -> Json:
    return {
        **spec,
        "containers": [
            {**container, "command": _SERVER} if _idle(container) else container
            for container in spec["containers"]
        ],
    }


def _containers(replica: ReplicaSpec) -> list[Json]:
    return as_objects(replica.template["spec"]["containers"])


def _idle(container: Any) -> bool:
    return isinstance(container, dict) and not container.get("command") and not container.get("args")
