"""Validation of Frameworks."""

from collections.abc import Sequence

from launcher.core.errors import BadRequest, FieldError, InvalidObject
from launcher.core.json_access import as_object
from launcher.core.manifest import Manifest, copy_as_decoded, framework_manifest
from launcher.core.parsing.decoder import Decoded
from launcher.core.replicas import reconcile_replicas, tasks_of_roles
from launcher.core.status import State
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.framework import creation_errors, update_errors, validation_warnings
from launcher.core.validation.schema import status_errors
from launcher.core.validation.unknown_fields import unknown_fields
from launcher.store.interface import Object

#: Useful for files; over HTTP every object that was read before has a status.
_STATUS_DROPPED = "status: ignored"
_WITHOUT_EFFECT = (
    "the Framework is completed: a change of executionType or of the number of tasks has no effect; "
    "create a new one"
)


class FrameworkStrategy:
    """The rules of Frameworks and the admission policy."""

    def __init__(self, policy: AdmissionPolicy) -> None:
        self._policy = policy

    def validate(self, obj: Decoded | Object, old: Object | None = None, *, strict: bool) -> Manifest:
        """See ``ResourceStrategy``."""
        decoded = obj if isinstance(obj, Decoded) else _copy_without_status(obj)
        reported: set[str] = set()
        if old is not None:
            decoded = Decoded(reconcile_replicas(decoded.value, old), decoded.duplicates)
            reported = {error.message for error in unknown_fields(old)} | set(validation_warnings(old))
        try:
            manifest = framework_manifest(decoded, strict=strict, reported=reported, policy=self._policy)
        except InvalidObject as error:
            raise _metadata_error(error) from error
        warnings = [text for text in manifest.warnings if not text.startswith(_STATUS_DROPPED)]
        if old is not None and _has_no_effect(old, manifest.object):
            warnings.append(_WITHOUT_EFFECT)
        return Manifest(manifest.object, tuple(warnings))

    def creation_errors(self, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        return creation_errors(new)

    def update_errors(self, old: Object, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        return update_errors(old, new)

    def status_errors(self, obj: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        return status_errors(obj)


def _copy_without_status(obj: Object) -> Decoded:
    return copy_as_decoded({name: obj[name] for name in obj if name != "status"})


def _has_no_effect(old: Object, new: Object) -> bool:
    """Whether *new* changes the tasks or the execution of a completed Framework."""
    before, after = as_object(old.get("spec")), new["spec"]
    is_completed = as_object(old.get("status")).get("state") == State.COMPLETED
    return is_completed and (
        before.get("executionType") != after.get("executionType")
        or list(tasks_of_roles(before)) != list(tasks_of_roles(after))
    )


def _metadata_error(error: InvalidObject) -> InvalidObject | BadRequest:
    """Returns a BadRequest if a metadata field has the wrong type, as for other kinds."""
    for field_error in error.errors:
        if field_error.reason == "FieldValueTypeInvalid" and field_error.field.startswith("metadata."):
            return BadRequest(str(field_error))
    return error
