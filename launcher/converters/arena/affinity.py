"""Where the instances of a role stand to each other: spread over nodes, or packed on few."""

from typing import Any

from launcher.converters.arena.job_spec import ArenaJob
from launcher.core.names import PodIdentityKey

Json = dict[str, Any]

_TOPOLOGY = "kubernetes.io/hostname"
_OTHER = {"ps": "worker", "worker": "ps"}


def affinity_of(job: ArenaJob, type_: str) -> Json | None:
    """The affinity of that role's pods; None if its flags ask for none."""
    if type_ not in _OTHER:
        return None
    policy = job.given.word(f"{type_}-affinity-policy", ("none", "spread", "binpack"))
    required = job.given.word(f"{type_}-affinity-constraint", ("preferred", "required")) == "required"
    # Workers that serve nobody are placed freely, as Arena has it.
    if policy == "none" or not job.has("ps"):
        return None
    if policy == "spread":
        return {"podAntiAffinity": _terms(required, (100, near(job.name, type_)))}
    if required:
        return {"podAffinity": _terms(required, (100, near(job.name, type_)))}
    weights = (100, near(job.name)), (60, near(job.name, _OTHER[type_])), (30, near(job.name, type_))
    return {"podAffinity": _terms(required, *weights)}


def near(job: str, role: str | None = None, index: int | None = None) -> Json:
    """A term for the nodes with pods of the job, or of one of its roles, or of one instance."""
    marks = {
        PodIdentityKey.FRAMEWORK_NAME: job,
        PodIdentityKey.TASKROLE_NAME: role,
        PodIdentityKey.TASK_INDEX: index,
    }
    labels = {str(mark): str(value) for mark, value in marks.items() if value is not None}
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": _TOPOLOGY}


def _terms(required: bool, *weighted: tuple[int, Json]) -> Json:
    if required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term for _, term in weighted]}
    terms = [{"weight": weight, "podAffinityTerm": term} for weight, term in weighted]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}
