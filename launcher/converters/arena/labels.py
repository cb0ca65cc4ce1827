"""Labels and annotations of a job and of its pods, as Arena sets them."""

from collections.abc import Mapping

from launcher.converters.arena import job_spec
from launcher.converters.arena.job_spec import ArenaJob
from launcher.core.names import PodIdentityKey
from launcher.core.pods.dns_overlay import FIRST_LABELS_ANNOTATION
from launcher.core.role_order import SEQUENCE_ANNOTATION
from launcher.core.validation.field_errors import forbidden

#: The label of all jobs of Arena.
JOB_LABEL, JOB_VALUE = "app", "tfjob"
GPUS = "requestGPUsOfJobOwner"
_USER, _UID = "arena.kubeflow.org/username", "arena.kubeflow.org/uid"
_NO_CONFIG = "arena.kubeflow.org/disable-tf-config"
_SUSPENDED = "scheduling.x-k8s.io/suspend"
_MASTER = "tf-job-role"
_GROUP = "pod-group.scheduling.sigs.k8s.io/"


def job_labels(job: ArenaJob) -> dict[str, str]:
    """The labels of the Framework and of each pod."""
    own = {JOB_LABEL: JOB_VALUE, "release": job.name, "createdBy": "TFJob", _UID: job.uid}
    return {**job.labels, **own}


def job_annotations(job: ArenaJob) -> dict[str, str]:
    """The annotations of the Framework."""
    own = dict(_shared_annotations(job))
    if job.flags.is_on("queue"):
        own[_SUSPENDED] = "true"
    if job.is_standalone:
        own[_NO_CONFIG] = "true"
    return {**job.annotations, **own}


def pod_annotations(job: ArenaJob, type_: str) -> dict[str, str]:
    """The annotations of an instance; without a chief, the first worker gets the label of the chief."""
    leads = type_ == "worker" and not job.has("chief")
    own = {FIRST_LABELS_ANNOTATION: f"{_MASTER}=master"} if leads else {}
    return {**job.annotations, **_shared_annotations(job), **own}


def pod_labels(job: ArenaJob, type_: str) -> dict[str, str]:
    """The labels of an instance, with a placeholder for its index."""
    own = {
        "group-name": "kubeflow.org",
        "tf-job-name": job.name,
        "tf-replica-type": type_,
        "tf-replica-index": f"{{{{{PodIdentityKey.TASK_INDEX}}}}}",
    }
    if type_ == "chief":
        own[_MASTER] = "master"
    if job.flags.is_on("gang"):
        own |= {f"{_GROUP}name": f"tfjob-{job.name}", f"{_GROUP}min-available": str(job.instances)}
    return {**job_labels(job), **own}


def check_metadata(job: ArenaJob) -> None:
    """Adds an error for each label or annotation of the user that Arena sets."""
    labels, annotations = pod_labels(job, ""), job_annotations(job)
    for name, requested, used in (
        ("label", job.labels, labels),
        ("annotation", job.annotations, annotations),
    ):
        for key in requested:
            if requested[key] != used[key]:
                job.flags.add_error(
                    forbidden(f"--{name}", f"{key} is set by arena to {used[key]}; use another key")
                )


def _shared_annotations(job: ArenaJob) -> Mapping[str, str]:
    own = {GPUS: str(job.gpus), _USER: job.user}
    if job.sequence:
        own[SEQUENCE_ANNOTATION] = job_spec.format_sequence(job.sequence)
    return own
