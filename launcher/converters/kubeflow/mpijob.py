"""An MPIJob into a Framework: workers, and a launcher with the list of them that mpirun reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.framework import address, framework_for, started_after
from launcher.converters.kubeflow.job_spec import (
    JobFamily,
    KubeflowJob,
    Replica,
    check_one,
    objects_in,
    read_job,
)
from launcher.core.errors import FieldError, InvalidObject
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
#: What waits in a worker for mpirun to call, where its image does not say.
_SERVER = ["/usr/sbin/sshd", "-De"]


def framework_of(obj: Json) -> Conversion:
    """
    The Framework that does what the MPIJob asks for.

    Raises InvalidObject with everything that is wrong or has no counterpart.
    """
    problems: list[FieldError] = []
    job, spec = read_job(obj, MPIJOBS, problems)
    slots, main = spec.count("slotsPerWorker"), spec.take("mainContainer", str)
    spec.finish()
    check_one(job, LAUNCHER, problems, needed=True)
    if not problems and main is not None and _named(job, main) is None:
        problems.append(invalid("spec.mainContainer", main, "no container of the launcher is called so"))
    if problems:
        raise InvalidObject(tuple(problems))
    return framework_for(job, _MpiManner(job, 1 if slots is None else slots, main))


def _named(job: KubeflowJob, name: str) -> Json | None:
    launcher = job.of(LAUNCHER)
    containers = objects_in(launcher.template["spec"]["containers"]) if launcher else []
    return next((each for each in containers if each.get("name") == name), None)


def _has_gpus(replica: Replica) -> bool:
    for container in objects_in(replica.template["spec"]["containers"]):
        match container.get("resources"):
            case {"limits": dict() as limits} if any(str(name).endswith("/gpu") for name in limits):
                return True
            case _:
                pass
    return False


@dataclass(frozen=True, slots=True)
class _MpiManner:
    """How the launcher of an MPIJob ends it, and how it finds the workers."""

    job: KubeflowJob
    slots: int
    main: str | None

    def completion(self, replica: Replica) -> Json:
        """The launcher's end is the job's."""
        decides = 1 if replica.type == LAUNCHER else -1
        return {"minFailedTaskCount": decides, "minSucceededTaskCount": decides}

    def variables(self, replica: Replica) -> Mapping[str, str]:
        if replica.type != LAUNCHER:
            return {}
        hidden = (
            {} if _has_gpus(replica) else {"NVIDIA_VISIBLE_DEVICES": "", "NVIDIA_DRIVER_CAPABILITIES": ""}
        )
        return {"OMPI_MCA_orte_default_hostfile": _HOSTFILE, "I_MPI_HYDRA_HOST_FILE": _HOSTFILE, **hidden}

    def finished(self, replica: Replica, role: Json) -> Json:
        pod = role["task"]["pod"]
        spec = self._with_hosts(pod["spec"]) if replica.type == LAUNCHER else _serving(pod["spec"])
        role = {**role, "task": {**role["task"], "pod": {**pod, "spec": spec}}}
        return started_after(self.job, role, WORKER) if replica.type == LAUNCHER else role

    def _with_hosts(self, spec: Json) -> Json:
        """The launcher's pod with the file that names the workers, written before its containers start."""
        mount = {"name": _VOLUME, "mountPath": _DIRECTORY}
        containers = objects_in(spec["containers"])
        main = next((each for each in containers if each.get("name") == self.main), containers[0])
        words = " ".join(f"'{line}'" for line in self._hosts())
        writer = {
            "name": "mpi-hostfile",
            "image": main.get("image", ""),
            "command": ["/bin/sh", "-c", f"printf '%s\\n' {words} > {_HOSTFILE}"],
            "volumeMounts": [mount],
        }
        return {
            **spec,
            "initContainers": [writer, *(spec.get("initContainers") or ())],
            "containers": [
                {**each, "volumeMounts": [*(each.get("volumeMounts") or ()), mount]} for each in containers
            ],
            "volumes": [*(spec.get("volumes") or ()), {"name": _VOLUME, "emptyDir": {}}],
        }

    def _hosts(self) -> Iterator[str]:
        launcher, workers = self.job.of(LAUNCHER), self.job.of(WORKER)
        if launcher is not None and (_has_gpus(launcher) or workers is None):
            yield f"{address(LAUNCHER, 0)} slots={self.slots}"
        for index in range(workers.count if workers else 0):
            yield f"{address(WORKER, index)} slots={self.slots}"

    def notes(self) -> Iterator[str]:
        yield "the launcher's pod is called JOB-launcher-0, not JOB-launcher"
        yield (
            "mpirun reaches the workers by ssh, with the keys of the image, and not by kubectl exec: no pod is given "
            f"rights in the cluster; {_DIRECTORY} has no kubexec.sh and no discover_hosts.sh"
        )
        for replica in self.job.replicas:
            if replica.type == WORKER and any(_idle(each) for each in _containers(replica)):
                yield f"worker: {' '.join(_SERVER)} runs where no command is given, not sleep"


def _serving(spec: Json) -> Json:
    return {
        **spec,
        "containers": [{**each, "command": _SERVER} if _idle(each) else each for each in spec["containers"]],
    }


def _containers(replica: Replica) -> list[Json]:
    return objects_in(replica.template["spec"]["containers"])


def _idle(container: Any) -> bool:
    return isinstance(container, dict) and not container.get("command") and not container.get("args")
