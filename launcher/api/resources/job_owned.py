"""Frameworks of jobs: what a client that deletes one has to know."""

from collections.abc import Iterator

from launcher.core.owner_references import controller_of
from launcher.core.status import State
from launcher.core.validation.pod_template import as_object
from launcher.job_kinds.job_kind import job_kind_of_owner
from launcher.store.interface import Object


def deletion_warnings(framework: Object) -> Iterator[str]:
    """That the job which controls *framework* creates it again, and how to delete that job; nothing once it is over."""
    metadata = as_object(framework.get("metadata"))
    owner = controller_of(metadata)
    job_kind = job_kind_of_owner(owner)
    if job_kind is None or as_object(framework.get("status")).get("state") == State.COMPLETED:
        return
    name, namespace = owner.get("name"), metadata.get("namespace")
    yield (
        f'Framework "{metadata.get("name")}" belongs to {owner["kind"]} "{name}", which creates it again; to end the '
        f"training, delete the job: kubectl delete {job_kind.kind.resource} {name} -n {namespace}"
    )
