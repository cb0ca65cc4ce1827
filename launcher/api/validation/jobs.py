"""What is asked of a job of somebody else's kind before it is stored: that there is a Framework which does the same."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.api.validation.core_objects import CoreRules, without_nulls
from launcher.converters.conversion import Conversion
from launcher.core.errors import BadRequest, FieldError, InvalidObject
from launcher.core.manifest import Manifest
from launcher.core.validation.admission_policy import Policy
from launcher.core.validation.field_errors import forbidden, invalid, strict_errors, truncate_errors
from launcher.core.validation.framework import creation_problems, validation_errors
from launcher.core.validation.pod_template import as_object
from launcher.core.validation.schema import Validator
from launcher.core.validation.unknown_fields import unknown_fields
from launcher.job_kinds.job_kind import JobKind, convert_job, task_count, translated
from launcher.job_kinds.schema import status_schema
from launcher.store.interface import Object, ResourceKind

#: Its replicas have names that Services can have, too.
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_WORKER = "worker"
_STATUS = Validator(lambda: {"properties": {"status": status_schema()}})


class JobRules(CoreRules):
    """The rules of the Frameworks that jobs become, the admin's, and those of the kind itself."""

    def __init__(self, kind: ResourceKind, foreign: JobKind, policy: Policy) -> None:
        super().__init__(kind)
        self._foreign, self._policy = foreign, policy

    def check(self, obj: Object, old: Object | None, *, strict: bool) -> Manifest:
        """What a patch has made of *old*, or has made anew. Raises BadRequest, InvalidObject."""
        self._check_envelope(obj)
        known = self._known(old)
        found = self._mapped(obj)
        findings = [each for each in self._unknown(obj, found) if each.message not in known]
        if strict and (errors := strict_errors(findings)):
            raise InvalidObject(truncate_errors(errors))
        notes = [note for note in found.notes if note not in known]
        return Manifest(obj, (*(each.message for each in findings), *notes))

    def creation_problems(self, new: Object) -> Sequence[FieldError]:
        """What keeps *new*, which has been read or checked, from being created."""
        found = creation_problems(convert_job(self._foreign, new).framework)
        return [translated(self._foreign, new, problem) for problem in found]

    def change_problems(self, old: Object, new: Object) -> Sequence[FieldError]:
        """What may not be changed from *old* to *new*."""
        before, after = (as_object(as_object(obj.get("spec")).get("runPolicy")) for obj in (old, new))
        queues = (as_object(each.get("schedulingPolicy")).get("queue") for each in (before, after))
        fields = {
            "managedBy": before.get("managedBy") == after.get("managedBy"),
            "schedulingPolicy.queue": next(queues) == next(queues),
        }
        return [
            forbidden(f"spec.runPolicy.{field}", "it cannot be changed; make a new job")
            for field, is_same in fields.items()
            if not is_same
        ]

    def status_problems(self, obj: Object) -> Sequence[FieldError]:
        """What is wrong with the status of *obj*; null means absent."""
        return _STATUS.problems(without_nulls({"status": obj.get("status")}))

    def _mapped(self, obj: Object) -> Conversion:
        """The job's Framework. Raises InvalidObject with all that is wrong with either."""
        # The admin's limit is compared with the counts alone, before anything is made for each replica.
        size = self._policy.size_problems(
            task_count(self._foreign, obj), f"spec.{self._foreign.family.field}"
        )
        problems = [*_name_problems(as_object(obj.get("metadata"))), *size]
        try:
            found = convert_job(self._foreign, obj)
        except InvalidObject as error:
            raise InvalidObject(truncate_errors([*problems, *error.errors])) from error
        wrong = (*validation_errors(found.framework), *self._policy.problems(found.framework))
        problems += [translated(self._foreign, obj, problem) for problem in wrong]
        if problems:
            raise InvalidObject(truncate_errors(dict.fromkeys(problems)))
        return found

    def _unknown(self, obj: Object, found: Conversion) -> Iterator[FieldError]:
        """Fields of its pods that nobody knows; they are kept."""
        return (translated(self._foreign, obj, problem) for problem in unknown_fields(found.framework))

    def _known(self, old: Object | None) -> set[str]:
        """What was told of *old*, and accepted."""
        try:
            found = None if old is None else convert_job(self._foreign, old)
        except InvalidObject:
            found = None
        if old is None or found is None:
            return set()
        return {*found.notes, *(each.message for each in self._unknown(old, found))}


def _name_problems(metadata: Object) -> Iterator[FieldError]:
    name = metadata.get("name")
    if isinstance(name, str) and name and not _NAME.fullmatch(name):
        must = "must be lower-case letters, digits and hyphens, beginning with a letter and not ending with a hyphen"
        yield invalid("metadata.name", name, must)


@dataclass(frozen=True, slots=True)
class JobScale:
    """The scale of a job: the number of its workers."""

    foreign: JobKind

    def of(self, job: Object) -> tuple[int, int, str]:
        """How many workers there should be, how many there are, and their selector. Raises BadRequest."""
        replica = as_object(self._replicas(job)[self._type(job)])
        told_ = as_object(as_object(as_object(job.get("status")).get("replicaStatuses")).get("Worker"))
        wanted = replica.get("replicas")
        return 1 if wanted is None else wanted, told_.get("active", 0), told_.get("selector", "")

    def put(self, job: Object, replicas: int) -> Object:
        """The job with that many workers. Raises BadRequest."""
        field, type_, known = self.foreign.family.field, self._type(job), self._replicas(job)
        new = {**known, type_: {**as_object(known[type_]), "replicas": replicas}}
        return {**job, "spec": {**job["spec"], field: new}}

    def _replicas(self, job: Object) -> Object:
        return as_object(as_object(job.get("spec")).get(self.foreign.family.field))

    def _type(self, job: Object) -> str:
        for type_ in self._replicas(job):
            if type_.lower() == _WORKER:
                return type_
        raise BadRequest(
            f'{self.foreign.family.kind} "{job["metadata"]["name"]}" has no workers under '
            f"spec.{self.foreign.family.field}, and only those can be scaled"
        )
