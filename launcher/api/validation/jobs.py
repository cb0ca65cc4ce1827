"""Validation of jobs: each must convert to a valid Framework."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.api.validation.core_objects import CoreStrategy, without_null_fields
from launcher.converters.conversion import Conversion
from launcher.core.errors import BadRequest, FieldError, InvalidObject
from launcher.core.json_access import as_object
from launcher.core.manifest import Manifest
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.field_errors import forbidden, invalid, strict_errors, truncate_errors
from launcher.core.validation.framework import creation_errors, validation_errors
from launcher.core.validation.schema import Validator
from launcher.core.validation.unknown_fields import unknown_fields
from launcher.job_kinds.job_kind import JobKind, convert_job, task_count, translate_error
from launcher.job_kinds.schema import status_schema
from launcher.store.interface import Object, ResourceKind

#: The names of replicas are also names of Services.
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_WORKER = "worker"
_STATUS = Validator(lambda: {"properties": {"status": status_schema()}})


class JobStrategy(CoreStrategy):
    """The rules of the kind, of the job's Framework, and the admission policy."""

    def __init__(self, kind: ResourceKind, job_kind: JobKind, policy: AdmissionPolicy) -> None:
        super().__init__(kind)
        self._job_kind, self._policy = job_kind, policy

    def _validate(self, obj: Object, old: Object | None, *, strict: bool) -> Manifest:
        self._check_type(obj)
        reported = self._warnings(old)
        conversion = self._convert(obj)
        unknown = [error for error in self._unknown_in(obj, conversion) if error.message not in reported]
        if strict and (errors := strict_errors(unknown)):
            raise InvalidObject(truncate_errors(errors))
        notes = [note for note in conversion.notes if note not in reported]
        return Manifest(obj, (*(error.message for error in unknown), *notes))

    def creation_errors(self, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        errors = creation_errors(convert_job(self._job_kind, new).framework)
        return [translate_error(self._job_kind, new, error) for error in errors]

    def update_errors(self, old: Object, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        before, after = (as_object(as_object(obj.get("spec")).get("runPolicy")) for obj in (old, new))
        queues = (as_object(each.get("schedulingPolicy")).get("queue") for each in (before, after))
        fields = {
            "managedBy": before.get("managedBy") == after.get("managedBy"),
            "schedulingPolicy.queue": next(queues) == next(queues),
        }
        return [
            forbidden(f"spec.runPolicy.{field}", "field is immutable; create a new job")
            for field, is_same in fields.items()
            if not is_same
        ]

    def status_errors(self, obj: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``; null means absent."""
        return _STATUS.errors(without_null_fields({"status": obj.get("status")}))

    def _convert(self, obj: Object) -> Conversion:
        """Returns the job's Framework. Raises InvalidObject with the errors of both."""
        # The size limit is checked by the counts, before objects are created for each replica.
        field = f"spec.{self._job_kind.family.field}"
        size = self._policy.size_errors(task_count(self._job_kind, obj), field)
        errors = [*_name_errors(as_object(obj.get("metadata"))), *size]
        try:
            conversion = convert_job(self._job_kind, obj)
        except InvalidObject as error:
            raise InvalidObject(truncate_errors([*errors, *error.errors])) from error
        framework = conversion.framework
        errors += [
            translate_error(self._job_kind, obj, error)
            for error in validation_errors(framework, self._policy)
        ]
        if errors:
            raise InvalidObject(truncate_errors(dict.fromkeys(errors)))
        return conversion

    def _unknown_in(self, obj: Object, conversion: Conversion) -> Iterator[FieldError]:
        """Yields the unknown fields of its pods, which are stored."""
        return (translate_error(self._job_kind, obj, error) for error in unknown_fields(conversion.framework))

    def _warnings(self, old: Object | None) -> set[str]:
        """Returns the warnings about *old*."""
        try:
            conversion = None if old is None else convert_job(self._job_kind, old)
        except InvalidObject:
            conversion = None
        if old is None or conversion is None:
            return set()
        return {*conversion.notes, *(error.message for error in self._unknown_in(old, conversion))}


def _name_errors(metadata: Object) -> Iterator[FieldError]:
    name = metadata.get("name")
    if isinstance(name, str) and name and not _NAME.fullmatch(name):
        message = (
            "must consist of lower case letters, digits and '-', start with a letter and not end with '-'"
        )
        yield invalid("metadata.name", name, message)


@dataclass(frozen=True, slots=True)
class JobScale:
    """The scale of a job: the number of its workers."""

    job_kind: JobKind

    def read(self, job: Object) -> tuple[int, int, str]:
        """See ``Scale``."""
        replica = as_object(self._replica_specs(job)[self._worker_type(job)])
        status = as_object(as_object(as_object(job.get("status")).get("replicaStatuses")).get("Worker"))
        desired = replica.get("replicas")
        return 1 if desired is None else desired, status.get("active", 0), status.get("selector", "")

    def with_replicas(self, job: Object, replicas: int) -> Object:
        """See ``Scale``. Raises BadRequest."""
        field, worker, specs = self.job_kind.family.field, self._worker_type(job), self._replica_specs(job)
        new = {**specs, worker: {**as_object(specs[worker]), "replicas": replicas}}
        return {**job, "spec": {**job["spec"], field: new}}

    def _replica_specs(self, job: Object) -> Object:
        return as_object(as_object(job.get("spec")).get(self.job_kind.family.field))

    def _worker_type(self, job: Object) -> str:
        for replica_type in self._replica_specs(job):
            if replica_type.lower() == _WORKER:
                return replica_type
        raise BadRequest(
            f'{self.job_kind.family.kind} "{job["metadata"]["name"]}" cannot be scaled: it has no workers in '
            f"spec.{self.job_kind.family.field}"
        )
