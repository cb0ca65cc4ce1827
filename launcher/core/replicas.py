"""
The number of tasks of each role: ``taskNumber``, or ``spec.replicas``, which overrides it for a single role.

The scale subresource of Kubernetes needs one number at a fixed path, which a list of roles does not have.
``spec.replicas`` is that path. Autoscalers write it without our validation, and ``taskNumber`` keeps its value:

* An update that changes ``taskNumber`` or the role's name sets ``replicas`` to the new ``taskNumber``.
* An update that changes ``replicas`` keeps ``taskNumber``. Applying the same file again after a scale changes nothing
  and causes no conflict, neither for kubectl, which compares it with the stored object, nor for server-side apply,
  where ``taskNumber`` and ``replicas`` have different managers. A file that overrides every scale sets ``replicas``.
* An update that removes ``replicas`` returns to ``taskNumber``.
* With several roles, or none, ``replicas`` is removed. Validation rejects only an update that sets it.
* ``replicas`` is not added to stored objects, except on a cluster, whose scale subresource reads it: see
  ``with_replicas``.
"""

from collections.abc import Mapping
from typing import Any

from launcher.core.json_access import as_list, as_object

Json = dict[str, Any]
_FIELD = "replicas"


def tasks_of_roles(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """The number of tasks of each role, in order; 0 where it is absent or invalid."""
    roles = as_list(spec.get("taskRoles"))
    if spec.get(_FIELD) is not None and len(roles) == 1:
        return (as_int(spec[_FIELD]),)
    return tuple(as_int(as_object(role).get("taskNumber")) for role in roles)


def reconcile_replicas(new: Json, old: Mapping[str, Any]) -> Json:
    """*new* with ``replicas`` adjusted to what changed since *old*; neither argument is modified."""
    spec, old_spec = as_object(new.get("spec")), as_object(old.get("spec"))
    roles, old_roles = as_list(spec.get("taskRoles")), as_list(old_spec.get("taskRoles"))
    if spec.get(_FIELD) is None or spec[_FIELD] != old_spec.get(_FIELD):
        return new
    if len(roles) != 1:
        return {**new, "spec": {name: value for name, value in spec.items() if name != _FIELD}}
    if len(old_roles) == 1 and _name_and_count(roles[0]) == _name_and_count(old_roles[0]):
        return new
    return _with_replicas(new, as_object(roles[0]).get("taskNumber") or 0)


def with_replicas(obj: Json) -> Json:
    """The valid object with ``replicas`` set if it has one role; *obj* is not modified."""
    spec = obj["spec"]
    if len(roles := as_list(spec.get("taskRoles"))) != 1 or spec.get(_FIELD) is not None:
        return obj
    return _with_replicas(obj, roles[0].get("taskNumber") or 0)


def with_task_count(obj: Json, tasks: int) -> Json:
    """The valid object, which has one role, with *tasks* tasks; *obj* is not modified."""
    spec = obj["spec"]
    if spec.get(_FIELD) is not None:
        return _with_replicas(obj, tasks)
    return {**obj, "spec": {**spec, "taskRoles": [{**spec["taskRoles"][0], "taskNumber": tasks}]}}


def as_int(value: Any) -> int:
    """The value if it is an integer (1.0 is one), else 0."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else 0


def _name_and_count(role: Any) -> tuple[Any, Any]:
    return as_object(role).get("name"), as_object(role).get("taskNumber") or 0


def _with_replicas(obj: Json, tasks: Any) -> Json:
    return {**obj, "spec": {**obj["spec"], _FIELD: tasks}}
