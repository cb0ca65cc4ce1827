"""What is asked of a Framework before it is stored."""

from collections.abc import Sequence

from launcher.api.http.request_body import explained
from launcher.core.errors import BadRequest, FieldError, InvalidObject
from launcher.core.manifest import Manifest, parse_framework, validate_framework
from launcher.core.parsing.decoder import Media
from launcher.core.replicas import reconcile_replicas, tasks_of_roles
from launcher.core.status import State
from launcher.core.validation.admission_policy import Policy
from launcher.core.validation.field_errors import strict_errors
from launcher.core.validation.framework import creation_problems, update_errors, validation_warnings
from launcher.core.validation.pod_template import as_object
from launcher.core.validation.schema import status_problems
from launcher.core.validation.unknown_fields import unknown_fields
from launcher.store.interface import Object

#: Said by the checks to whoever writes a file; over HTTP a status comes along with every object that was read before.
_STATUS_DROPPED = "status: dropped"
_WITHOUT_EFFECT = (
    "the Framework has ended: another executionType or number of tasks has no effect; create a new one"
)


class FrameworkRules:
    """The rules of Frameworks, and the admin's."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def read(self, data: bytes, media: Media, *, strict: bool) -> Manifest:
        """The Framework in a body, with its defaults. Raises BadRequest, TooLarge, InvalidObject."""
        try:
            manifest = parse_framework(data, media=media, strict=strict)
        except BadRequest as error:
            raise explained(error, data) from error
        except InvalidObject as error:
            raise _metadata_first(error) from error
        self._admit(manifest.object)
        warnings = tuple(each for each in manifest.warnings if not each.startswith(_STATUS_DROPPED))
        return Manifest(manifest.object, warnings)

    def check(self, obj: Object, old: Object | None, *, strict: bool) -> Manifest:
        """
        What a patch has made of *old*, or has made anew, with its defaults. Raises BadRequest, InvalidObject.

        What was wrong with *old* already, and accepted, is not told again.
        """
        obj = obj if old is None else reconcile_replicas(obj, old)
        known = () if old is None else unknown_fields(old)
        found = [problem for problem in unknown_fields(obj) if problem not in known]
        try:
            manifest = validate_framework({name: obj[name] for name in obj if name != "status"})
        except InvalidObject as error:
            raise _metadata_first(error) from error
        if strict and (errors := strict_errors(found)):
            raise InvalidObject(errors)
        self._admit(manifest.object)
        ended = (_WITHOUT_EFFECT,) if old is not None and _is_too_late(old, manifest.object) else ()
        said = {problem.message for problem in known} | set(() if old is None else validation_warnings(old))
        return Manifest(manifest.object, (*(each for each in manifest.warnings if each not in said), *ended))

    def creation_problems(self, new: Object) -> Sequence[FieldError]:
        """What keeps *new*, which has been read or checked, from being created."""
        return creation_problems(new)

    def change_problems(self, old: Object, new: Object) -> Sequence[FieldError]:
        """What may not be changed from *old* to *new*."""
        return update_errors(old, new)

    def status_problems(self, obj: Object) -> Sequence[FieldError]:
        """What is wrong with the status of *obj*."""
        return status_problems(obj)

    def _admit(self, obj: Object) -> None:
        if problems := self._policy.problems(obj):
            raise InvalidObject(tuple(problems))


def _is_too_late(old: Object, new: Object) -> bool:
    """Whether *new* asks something of a Framework that has ended."""
    before, after = as_object(old.get("spec")), new["spec"]
    has_ended = as_object(old.get("status")).get("state") == State.COMPLETED
    return has_ended and (
        before.get("executionType") != after.get("executionType")
        or list(tasks_of_roles(before)) != list(tasks_of_roles(after))
    )


def _metadata_first(error: InvalidObject) -> InvalidObject | BadRequest:
    """A BadRequest when the metadata cannot even be read: the same for every kind of object."""
    for problem in error.errors:
        if problem.reason == "FieldValueTypeInvalid" and problem.field.startswith("metadata."):
            return BadRequest(str(problem))
    return error
