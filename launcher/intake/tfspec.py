"""What a TFJob asks for, in whichever of its shapes it is written: a map of replicas or the older list of them."""

from dataclasses import dataclass
from typing import Any

from launcher.core.errors import Problem
from launcher.intake.replicas import Family, Job, read_job

Json = dict[str, Any]

CHIEFS = ("chief", "master")
CONTAINER, PORT_NAME, PORT = "tensorflow", "tfjob-port", 2222
#: Versions whose operators kept running pods no longer than the job, and told nobody of evaluators.
OLD_VERSIONS = (
    "kubeflow.org/v1alpha1",
    "kubeflow.org/v1alpha2",
    "kubeflow.org/v1beta1",
    "kubeflow.org/v1beta2",
)
VERSIONS = ("kubeflow.org/v1", *OLD_VERSIONS)
TFJOBS = Family(
    kind="TFJob",
    versions=VERSIONS,
    field="tfReplicaSpecs",
    operator="tfjob-controller",
    container=CONTAINER,
    port_name=PORT_NAME,
    port=PORT,
    chiefs=CHIEFS,
    # What the operator looks at; others it starts, and that is all.
    deciding=("chief", "master", "worker", "ps", "evaluator"),
    others=True,
    tells_all=False,
    old_versions=OLD_VERSIONS,
)


@dataclass(frozen=True, slots=True)
class TfJob:
    """A TFJob with nothing left open."""

    job: Job
    all_workers: bool
    dynamic: bool


def read_tfjob(obj: Json, problems: list[Problem]) -> TfJob:
    """What *obj* asks for, as far as it can be understood; the rest is in *problems*."""
    job, spec = read_job(obj, TFJOBS, problems)
    all_workers = spec.word("successPolicy", ("", "AllWorkers"), "") == "AllWorkers"
    dynamic = bool(spec.take("enableDynamicWorker", bool))
    spec.finish()
    return TfJob(job, all_workers, dynamic)
