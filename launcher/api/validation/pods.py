"""What is asked of a pod that a user makes without a Framework."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.api.validation.core_objects import CoreRules
from launcher.core.errors import FieldError
from launcher.core.names import API_VERSION, KIND
from launcher.core.validation.admission_policy import Policy
from launcher.core.validation.discovery import service_problems
from launcher.core.validation.field_errors import forbidden, required
from launcher.core.validation.pod_spec import pod_problems
from launcher.core.validation.pod_template import as_object
from launcher.core.validation.schema import schema_errors
from launcher.core.validation.unknown_fields import unknown_fields
from launcher.store.interface import PODS, Object

#: Where the template of a Framework's only role stands.
_IN_FRAMEWORK = "spec.taskRoles[0].task.pod."
#: What may change while a pod is there; whoever runs it has read the rest.
_CHANGEABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")


class PodRules(CoreRules):
    """The rules of pod templates, and the admin's. Unknown fields are told and kept, as in a template."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(PODS)
        self._policy = policy

    def change_problems(self, old: Object, new: Object) -> Sequence[FieldError]:
        """What may not be changed from *old* to *new*."""
        before, after = as_object(old.get("spec")), as_object(new.get("spec"))
        return [
            forbidden(
                f"spec.{field}",
                f"of a pod's spec only {', '.join(_CHANGEABLE)} can be changed; make a new pod",
            )
            for field in sorted(before.keys() | after.keys())
            if field not in _CHANGEABLE and before.get(field) != after.get(field)
        ]

    def _problems(self, obj: Object) -> Iterator[FieldError]:
        yield from self._policy.pod_problems(obj)
        if not isinstance(obj.get("spec"), dict):
            yield required("spec", "a pod needs at least one container")
            return
        # A pod is the only one of a Framework, as far as its structure goes.
        shape = [problem for problem in schema_errors(_alone(obj)) if problem.field.startswith(_IN_FRAMEWORK)]
        known = {problem.field for problem in shape}
        field = _IN_FRAMEWORK.removesuffix(".")
        for problem in (*shape, *pod_problems(obj, field), *service_problems(obj, field)):
            if problem in shape or problem.field not in known:
                yield replace(problem, field=problem.field.removeprefix(_IN_FRAMEWORK))

    def _findings(self, obj: Object, old: Object | None) -> tuple[FieldError, ...]:
        known = set() if old is None else {problem.message for problem in unknown_fields(_alone(old))}
        return tuple(
            replace(
                problem,
                field=problem.field.removeprefix(_IN_FRAMEWORK),
                message=problem.message.replace(_IN_FRAMEWORK, ""),
            )
            for problem in unknown_fields(_alone(obj))
            if problem.field.startswith(_IN_FRAMEWORK) and problem.message not in known
        )


def _alone(pod: Object) -> Object:
    """A Framework of this pod alone."""
    template = {"metadata": as_object(pod.get("metadata")), "spec": as_object(pod.get("spec"))}
    role = {"name": "pod", "taskNumber": 1, "task": {"pod": template}}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "alone"},
        "spec": {"taskRoles": [role]},
    }
