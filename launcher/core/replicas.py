"""
How many tasks each role has: by its ``taskNumber``, or by ``spec.replicas``, which stands over that of an only role.

Kubernetes can scale an object by one number at a fixed place, which a list of roles cannot hold. ``spec.replicas`` is
that place. Whoever scales writes there, past every check of ours, and ``taskNumber`` stays what its own writer wrote:

* Whoever changes ``taskNumber``, or the role's name, means it: ``replicas`` follows.
* Whoever changes ``replicas``, alone or with the rest, means that; ``taskNumber`` stays. So the same file applied
  again after a scale changes nothing and contradicts nobody: neither kubectl, which compares it with what is stored,
  nor the owners of server-side apply, of whom one has ``taskNumber`` and the other ``replicas``. A file that is
  to undo every scale says ``replicas`` itself.
* Whoever takes ``replicas`` away goes back to ``taskNumber``.
* With a second role, or none, there is nothing left that ``replicas`` could mean: it goes. Only who sends it anew is
  refused, by ``validate``.
* A file that has never been scaled needs no ``replicas``, and none is added to what is stored, except where Kubernetes
  has to find one: there ``scalable`` writes it down.
"""

from collections.abc import Mapping
from typing import Any

from launcher.core.validation.pod_template import as_list, as_object

Json = dict[str, Any]
_FIELD = "replicas"


def tasks_of_roles(spec: Mapping[str, Any]) -> tuple[int, ...]:
    """The number of tasks of each role, in their order; 0 where none can be read."""
    roles = as_list(spec.get("taskRoles"))
    if spec.get(_FIELD) is not None and len(roles) == 1:
        return (as_int(spec[_FIELD]),)
    return tuple(as_int(as_object(role).get("taskNumber")) for role in roles)


def reconcile_replicas(new: Json, old: Mapping[str, Any]) -> Json:
    """*new*, which a change has made of *old*, with ``replicas`` as that change means it; neither is changed."""
    spec, was = as_object(new.get("spec")), as_object(old.get("spec"))
    roles, before = as_list(spec.get("taskRoles")), as_list(was.get("taskRoles"))
    if spec.get(_FIELD) is None or spec[_FIELD] != was.get(_FIELD):
        return new
    if len(roles) != 1:
        return {**new, "spec": {name: value for name, value in spec.items() if name != _FIELD}}
    if len(before) == 1 and _wish(roles[0]) == _wish(before[0]):
        return new
    return _with_replicas(new, as_object(roles[0]).get("taskNumber") or 0)


def with_replicas(obj: Json) -> Json:
    """The valid object with ``replicas`` written down if it has one role; *obj* itself is not changed."""
    spec = obj["spec"]
    if len(roles := as_list(spec.get("taskRoles"))) != 1 or spec.get(_FIELD) is not None:
        return obj
    return _with_replicas(obj, roles[0].get("taskNumber") or 0)


def scaled(obj: Json, tasks: int) -> Json:
    """The valid object, which has one role, with that many tasks; *obj* itself is not changed."""
    spec = obj["spec"]
    if spec.get(_FIELD) is not None:
        return _with_replicas(obj, tasks)
    return {**obj, "spec": {**spec, "taskRoles": [{**spec["taskRoles"][0], "taskNumber": tasks}]}}


def as_int(value: Any) -> int:
    """The integer, or 0 where there is none; 1.0 is one too."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int) else 0


def _wish(role: Any) -> tuple[Any, Any]:
    return as_object(role).get("name"), as_object(role).get("taskNumber") or 0


def _with_replicas(obj: Json, tasks: Any) -> Json:
    return {**obj, "spec": {**obj["spec"], _FIELD: tasks}}
