"""Validation of pods that users create without a Framework."""

from collections.abc import Iterator, Sequence

from launcher.api.validation.core_objects import CoreStrategy
from launcher.core.errors import FieldError
from launcher.core.json_access import as_object
from launcher.core.names import API_VERSION, KIND
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.discovery import service_errors
from launcher.core.validation.field_errors import forbidden, required
from launcher.core.validation.pod_spec import pod_errors
from launcher.core.validation.schema import schema_errors
from launcher.core.validation.unknown_fields import unknown_fields
from launcher.store.interface import PODS, Object

#: The path of the pod template in a Framework with one role.
_TEMPLATE_PATH = "spec.taskRoles[0].task.pod."
#: Fields that may be updated; the node agent reads the others only once.
_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")


class PodStrategy(CoreStrategy):
    """The rules of pod templates and the admission policy. Unknown fields are stored with a warning."""

    def __init__(self, policy: AdmissionPolicy) -> None:
        super().__init__(PODS)
        self._policy = policy

    def update_errors(self, old: Object, new: Object) -> Sequence[FieldError]:
        """See ``ResourceStrategy``."""
        before, after = as_object(old.get("spec")), as_object(new.get("spec"))
        return [
            forbidden(
                f"spec.{field}",
                f"pod updates may not change fields other than {', '.join(_MUTABLE)}; create a new pod",
            )
            for field in sorted(before.keys() | after.keys())
            if field not in _MUTABLE and before.get(field) != after.get(field)
        ]

    def _errors(self, obj: Object) -> Iterator[FieldError]:
        yield from self._policy.pod_errors(obj)
        if not isinstance(obj.get("spec"), dict):
            yield required("spec", "must have at least one container")
            return
        # The schema is that of a Framework with this pod.
        schema = [
            error for error in schema_errors(_as_framework(obj)) if error.field.startswith(_TEMPLATE_PATH)
        ]
        reported = {error.field for error in schema}
        path = _TEMPLATE_PATH.removesuffix(".")
        for error in (*schema, *pod_errors(obj, path), *service_errors(obj, path)):
            if error in schema or error.field not in reported:
                yield error._replace(field=error.field.removeprefix(_TEMPLATE_PATH))

    def _unknown_fields(self, obj: Object, old: Object | None) -> tuple[FieldError, ...]:
        reported = set() if old is None else {error.message for error in unknown_fields(_as_framework(old))}
        return tuple(
            error._replace(
                field=error.field.removeprefix(_TEMPLATE_PATH),
                message=error.message.replace(_TEMPLATE_PATH, ""),
            )
            for error in unknown_fields(_as_framework(obj))
            if error.field.startswith(_TEMPLATE_PATH) and error.message not in reported
        )


def _as_framework(pod: Object) -> Object:
    """Returns a Framework with this pod as its only task."""
    template = {"metadata": as_object(pod.get("metadata")), "spec": as_object(pod.get("spec"))}
    role = {"name": "pod", "taskNumber": 1, "task": {"pod": template}}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "alone"},
        "spec": {"taskRoles": [role]},
    }
