"""Warnings about the deletion of a job's Framework."""

from collections.abc import Iterator

from launcher.core.json_access import as_object
from launcher.core.owner_references import controller_of
from launcher.core.status import State
from launcher.job_kinds.job_kind import job_kind_of_owner
from launcher.store.interface import Object


def deletion_warnings(framework: Object) -> Iterator[str]:
    """Yields a warning if *framework* is controlled by a job, which recreates it until it is completed."""
    metadata = as_object(framework.get("metadata"))
    owner = controller_of(metadata)
    job_kind = job_kind_of_owner(owner)
    if job_kind is None or as_object(framework.get("status")).get("state") == State.COMPLETED:
        return
    name, namespace = owner.get("name"), metadata.get("namespace")
    yield (
        f'Framework "{metadata.get("name")}" is controlled by {owner["kind"]} "{name}", which recreates it; to end the '
        f"training, delete the job: kubectl delete {job_kind.kind.resource} {name} -n {namespace}"
    )
