"""Affinity of the instances of a role: spread over nodes, or packed on few."""

from typing import Any

from launcher.converters.arena.job_spec import ArenaJob
from launcher.core.names import PodIdentityKey

Json = dict[str, Any]

_TOPOLOGY = "kubernetes.io/hostname"
_OTHER = {"ps": "worker", "worker": "ps"}


def affinity_of(job: ArenaJob, type_: str) -> Json | None:
    """The affinity of that role's pods; None without a policy."""
    if type_ not in _OTHER:
        return None
    policy = job.flags.choice(f"{type_}-affinity-policy", ("none", "spread", "binpack"))
    required = job.flags.choice(f"{type_}-affinity-constraint", ("preferred", "required")) == "required"
    # As in Arena, the policy has no effect without parameter servers.
    if policy == "none" or not job.has("ps"):
        return None
    if policy == "spread":
        return {"podAntiAffinity": _terms(required, (100, affinity_term(job.name, type_)))}
    if required:
        return {"podAffinity": _terms(required, (100, affinity_term(job.name, type_)))}
    weights = (
        (100, affinity_term(job.name)),
        (60, affinity_term(job.name, _OTHER[type_])),
        (30, affinity_term(job.name, type_)),
    )
    return {"podAffinity": _terms(required, *weights)}


def affinity_term(job: str, role: str | None = None, index: int | None = None) -> Json:
    """An affinity term for pods of the job, of one of its roles, or of one instance."""
    identity = {
        PodIdentityKey.FRAMEWORK_NAME: job,
        PodIdentityKey.TASKROLE_NAME: role,
        PodIdentityKey.TASK_INDEX: index,
    }
    labels = {str(key): str(value) for key, value in identity.items() if value is not None}
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": _TOPOLOGY}


def _terms(required: bool, *weighted: tuple[int, Json]) -> Json:
    if required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term for _, term in weighted]}
    terms = [{"weight": weight, "podAffinityTerm": term} for weight, term in weighted]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}
