"""
The job that owns a Framework: a TFJob, a PyTorchJob or another of the served kinds.

The job's controller creates the Framework again and resets its spec, so a change is made on the job.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.cli.client.api_client import ApiClient
from launcher.cli.client.api_path import ApiPath
from launcher.cli.errors import CommandError
from launcher.core.errors import Forbidden
from launcher.core.owner_references import controller_of
from launcher.job_kinds.job_kind import JOB_KINDS, JobKind, job_kind_of_owner, replica_paths

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OwningJob:
    """A reference to a job. *uid* is None when only the name is known."""

    foreign: JobKind
    resource: ApiPath
    name: str
    uid: str | None = None

    def __str__(self) -> str:
        return f"{self.foreign.singular}/{self.name}"

    def delete(self, api: ApiClient) -> None:
        """Delete the job with its Framework. Raises NotFound, Conflict when it is another job, CommandError."""
        conditions = {} if self.uid is None else {"preconditions": {"uid": self.uid}}
        try:
            api.delete(self.resource, self.name, {"propagationPolicy": "Foreground", **conditions})
        except Forbidden as error:
            raise CommandError(f"{self} owns framework/{self.name} and cannot be deleted: {error}") from error

    def resume(self, api: ApiClient) -> None:
        """Set ``suspend`` of the job to false. Raises NotFound."""
        api.merge(self.resource, self.name, {"spec": {"runPolicy": {"suspend": False}}})

    def scale(self, api: ApiClient, roles: list[str], numbers: Mapping[str, int]) -> None:
        """Set the replicas of the job; *roles* are those of its Framework, in order. Raises CommandError."""
        job = api.get(self.resource, self.name)
        paths = dict(zip(roles, replica_paths(self.foreign, job), strict=False))
        operations: list[Json] = [
            {"op": "test", "path": "/metadata/uid", "value": self.uid},
            *(
                {"op": "add", "path": f"{_pointer(paths[role])}/replicas", "value": number}
                for role, number in numbers.items()
                if role in paths
            ),
        ]
        if unknown := numbers.keys() - paths.keys():
            raise CommandError(f"{self} has no replicas of type {', '.join(sorted(unknown))}")
        try:
            api.json_patch(self.resource, self.name, operations)
        except Forbidden as error:
            raise CommandError(f"{self} owns framework/{self.name} and cannot be scaled: {error}") from error


def job_named(kind: str, name: str) -> OwningJob:
    """The job of that *kind*, one of the served kinds."""
    foreign = next(each for each in JOB_KINDS if each.family.kind == kind)
    return OwningJob(foreign, _resource(foreign.kind.api_version, foreign), name)


def owner_of(framework: Json) -> OwningJob | None:
    """The job that owns *framework*; None if no object does. Raises CommandError when the owner is of another kind."""
    metadata = framework["metadata"]
    owner = controller_of(metadata)
    if not owner:
        return None
    if (foreign := job_kind_of_owner(owner)) is not None:
        return OwningJob(foreign, _resource(owner["apiVersion"], foreign), owner["name"], owner["uid"])
    raise CommandError(
        f"framework/{metadata['name']} is owned by {owner['kind']} {owner['name']} ({owner['apiVersion']}), "
        "whose controller would revert the change; change that object instead"
    )


def _resource(api_version: str, foreign: JobKind) -> ApiPath:
    return ApiPath(f"/apis/{api_version}", foreign.plural)


def _pointer(path: str) -> str:
    """``/spec/replicaSpecs/0`` of ``spec.replicaSpecs[0]``."""
    return "/" + re.sub(r"\[(\d+)\]", r"/\1", path).replace(".", "/")
