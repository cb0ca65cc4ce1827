"""Validates Frameworks and their updates; warns about valid but unlikely values."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from launcher.core.errors import MAX_REPORTED_ERRORS, FieldError
from launcher.core.failures.spec_parser import role_rule_errors
from launcher.core.json_access import as_list, as_object
from launcher.core.names import PodIdentityKey, config_map_name, pod_name
from launcher.core.replicas import as_int, tasks_of_roles
from launcher.core.role_order import SEQUENCE_ANNOTATION, annotated_sequence, cycles, format_cycle
from launcher.core.serialization.spec_json import threshold
from launcher.core.spec import ExecutionType, FrameworkName, RoleName
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.discovery import discovery_errors, service_errors
from launcher.core.validation.field_errors import (
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    suggestion,
)
from launcher.core.validation.gang import gang_errors
from launcher.core.validation.placeholders import Fill, filled_by, has_placeholders, placeholder_errors
from launcher.core.validation.pod_spec import pod_errors
from launcher.core.validation.schema import schema_errors

#: The maximum length of a host name, which is the name of the pod.
MAX_POD_NAME_LENGTH = 63
#: Maximum length of the prefix of a generated name, and length of its suffix.
_MAX_PREFIX_LENGTH, _SUFFIX_LENGTH = 58, 5

_INDEXES = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*")


@dataclass(frozen=True, slots=True)
class _RoleFields:
    """A role before validation: ``json`` may be incomplete and have values of a wrong type."""

    field: str
    name: str
    tasks: int
    json: Mapping[str, Any]


def validation_errors(obj: Any, policy: AdmissionPolicy | None = None) -> tuple[FieldError, ...]:
    """
    All errors of a Framework: schema errors, for other fields rules beyond the schema, and those of the *policy*.

    The API, the proxy, the webhook and the controller call it.
    """
    shape, framework = schema_errors(obj), as_object(obj)
    reported = {error.field for error in shape}
    rules = (error for error in _rule_errors(framework) if error.field not in reported)
    return (*shape, *rules, *(() if policy is None else policy.errors(framework)))


def _rule_errors(obj: Mapping[str, Any]) -> Iterator[FieldError]:
    spec = as_object(obj.get("spec"))
    roles = _roles(spec)
    roles_by_name: dict[str, _RoleFields] = {}
    for role in roles:
        if role.name:
            roles_by_name.setdefault(role.name, role)
    yield from _name_errors(as_object(obj.get("metadata")), roles)
    yield from _count_errors(spec, roles)
    for role in roles:
        pod, field = as_object(role.json.get("task")).get("pod"), f"{role.field}.task.pod"
        if has_placeholders(pod):
            yield from placeholder_errors(pod, field)
            yield from pod_errors(pod, field, _fill(as_object(obj.get("metadata")), role))
        else:
            yield from pod_errors(pod, field)
        yield from service_errors(pod, field)
        yield from _index_errors(role)
        yield from _exit_code_errors(role)
        rules = as_object(role.json.get("task")).get("podFailureSpec")
        yield from role_rule_errors(rules, f"{role.field}.task.podFailureSpec")
    yield from _sequence_errors(spec, roles_by_name)
    sequence = _sequence(as_object(obj.get("metadata")), spec, roles_by_name)
    yield from _start_errors(sequence, roles_by_name)
    yield from _cycle_errors(roles_by_name)
    yield from _replicas_errors(spec, roles)
    yield from gang_errors(spec, [role.tasks for role in roles], sequence)
    yield from discovery_errors(spec, roles_by_name)


def _roles(spec: Mapping[str, Any]) -> tuple[_RoleFields, ...]:
    return tuple(
        _RoleFields(
            field=f"spec.taskRoles[{index}]",
            name=name if isinstance(name := as_object(role).get("name"), str) else "",
            tasks=tasks,
            json=as_object(role),
        )
        for index, (role, tasks) in enumerate(
            zip(as_list(spec.get("taskRoles")), tasks_of_roles(spec), strict=True)
        )
    )


def _fill(metadata: Mapping[str, Any], role: _RoleFields) -> Fill:
    """Replaces placeholders by their values for the last task of the role, which are the longest."""
    name = str(metadata.get("name") or f"{metadata.get('generateName') or 'x'}xxxxx")
    index = max(role.tasks - 1, 0)
    return filled_by(
        {
            PodIdentityKey.FRAMEWORK_NAMESPACE: str(metadata.get("namespace") or "default"),
            PodIdentityKey.FRAMEWORK_NAME: name,
            PodIdentityKey.TASKROLE_NAME: role.name or "x",
            PodIdentityKey.TASK_INDEX: str(index),
            PodIdentityKey.CONFIGMAP_NAME: config_map_name(FrameworkName(name)),
            PodIdentityKey.POD_NAME: pod_name(FrameworkName(name), RoleName(role.name or "x"), index),
        }
    )


def _count_errors(spec: Mapping[str, Any], roles: Sequence[_RoleFields]) -> Iterator[FieldError]:
    """Errors of roles without a number of tasks, most often because the field is misspelled."""
    if spec.get("taskRoles") is None:
        yield required("spec.taskRoles", f"must list the task roles{_spelling_hint(spec, 'taskRoles')}")
    for role in roles:
        if role.json.get("taskNumber") is None and spec.get("replicas") is None:
            must = f"must be the number of tasks, such as 1{_spelling_hint(role.json, 'taskNumber')}"
            yield required(f"{role.field}.taskNumber", must)


def _spelling_hint(owner: Mapping[str, Any], field: str) -> str:
    """A hint if *owner* has a field that may be a misspelled *field*."""
    misspelled = next((name for name in owner if suggestion(name, [field]) and name != field), None)
    return f'; write "{field}" instead of "{misspelled}"' if misspelled else ""


def creation_errors(obj: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """Errors of a new object that are allowed in an existing one, which may be scaled to 0 tasks."""
    spec = as_object(obj.get("spec"))
    if sum(tasks_of_roles(spec)) > 0:
        return ()
    roles = as_list(spec.get("taskRoles"))
    must = "a new Framework must have at least one task; set taskNumber of a role to 1 or more"
    if len(roles) == 1 and spec.get("replicas") is None:
        return (invalid("spec.taskRoles[0].taskNumber", 0, must),)
    return (invalid("spec.replicas", 0, must),) if len(roles) == 1 else (required("spec.taskRoles", must),)


def _name_errors(metadata: Mapping[str, Any], roles: Sequence[_RoleFields]) -> Iterator[FieldError]:
    if not metadata.get("name") and not metadata.get("generateName"):
        yield required("metadata.name", "name or generateName must be set")
    length = _name_length(metadata)
    names: set[str] = set()
    for role in roles:
        if role.name in names:
            yield duplicate(f"{role.field}.name", role.name, "names of roles must be unique")
        if role.name:
            names.add(role.name)
        index = len(str(max(role.tasks - 1, 0)))
        total = length + 1 + len(role.name) + 1 + index
        if total > MAX_POD_NAME_LENGTH:
            yield invalid(
                f"{role.field}.name",
                role.name,
                f"pod names would have up to {total} characters "
                f"({length} of the Framework's name + {len(role.name)} of the role's + {index} of the index "
                f"+ 2 hyphens); the maximum is {MAX_POD_NAME_LENGTH}: shorten a name by "
                f"{total - MAX_POD_NAME_LENGTH}",
            )


def _name_length(metadata: Mapping[str, Any]) -> int:
    """The length of the Framework's name, generated or not."""
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if isinstance(name, str) and name:
        return len(name)
    return min(len(prefix), _MAX_PREFIX_LENGTH) + _SUFFIX_LENGTH if isinstance(prefix, str) else 0


def _index_errors(role: _RoleFields) -> Iterator[FieldError]:
    """Errors of ``succeededIndexes`` that the schema does not cover."""
    indexes = as_object(role.json.get("frameworkAttemptCompletionPolicy")).get("succeededIndexes")
    if isinstance(indexes, float) and indexes.is_integer():
        indexes = int(indexes)
    text = str(indexes) if isinstance(indexes, str | int) else ""
    if not _INDEXES.fullmatch(text):
        return
    field = f"{role.field}.frameworkAttemptCompletionPolicy.succeededIndexes"
    for item in text.split(","):
        first, _, last = item.partition("-")
        if int(last or first) < int(first):
            yield invalid(field, indexes, f"{item} is the wrong way round: write {last}-{first}")
        elif int(last or first) >= role.tasks:
            yield invalid(field, indexes, f"no task {last or first}: {_range_of(role)}")
            return


def _exit_code_errors(role: _RoleFields) -> Iterator[FieldError]:
    """Errors of ``retryableExitCodes`` that the schema does not cover."""
    codes = as_object(as_object(role.json.get("task")).get("retryPolicy")).get("retryableExitCodes")
    if not isinstance(codes, str) or not _INDEXES.fullmatch(codes):
        return
    for item in codes.split(","):
        first, _, last = item.partition("-")
        if int(last or first) < int(first):
            must = f"{item} is the wrong way round: write {last}-{first}"
            yield invalid(f"{role.field}.task.retryPolicy.retryableExitCodes", codes, must)


def _range_of(role: _RoleFields) -> str:
    if role.tasks < 1:
        return f"role {role.name} has no tasks"
    return f"the tasks of role {role.name} are 0 to {role.tasks - 1}"


def _sequence_errors(spec: Mapping[str, Any], roles: Mapping[str, _RoleFields]) -> Iterator[FieldError]:
    names: set[str] = set()
    for index, name in enumerate(as_list(spec.get("roleSequence"))):
        field = f"spec.roleSequence[{index}]"
        if not isinstance(name, str):
            continue
        if name in names:
            yield duplicate(field, name, "each role may occur once")
        elif name not in roles:
            yield not_found(field, name, roles, "role")
        names.add(name)


def _sequence(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], roles: Mapping[str, _RoleFields]
) -> Sequence[str]:
    """The role sequence of the spec, or else of the annotation."""
    named = [name for name in as_list(spec.get("roleSequence")) if isinstance(name, str)]
    return named or annotated_sequence(metadata.get("annotations"), roles)[0]


def _start_errors(named: Sequence[str], roles: Mapping[str, _RoleFields]) -> Iterator[FieldError]:
    position = {name: index for index, name in enumerate(named)}
    for role in roles.values():
        for field, after in _awaited(role):
            name = after.get("role")
            if not isinstance(name, str):
                continue
            if name not in roles:
                yield not_found(f"{field}.role", name, roles, "role")
            elif name == role.name:
                yield invalid(f"{field}.role", name, "must not be the role itself")
            elif position.get(role.name, len(named)) < position.get(name, len(named)):
                yield invalid(f"{field}.role", name, _contradiction(role.name, name))
            elif as_int(after.get("atLeast")) > max(roles[name].tasks, 0):
                must = f"must be at most {roles[name].tasks}, the number of tasks of role {name}"
                yield invalid(f"{field}.atLeast", after.get("atLeast"), must)


def _contradiction(role: str, awaited: str) -> str:
    return (
        f"{format_cycle((role, awaited))}: deadlock: roleSequence creates {awaited} after {role}; "
        f"put {awaited} before {role}"
    )


def _cycle_errors(roles: Mapping[str, _RoleFields]) -> Iterator[FieldError]:
    waits = {
        name: [awaited for awaited in _names_awaited(role) if awaited in roles]
        for name, role in roles.items()
    }
    for cycle in islice(cycles(waits), MAX_REPORTED_ERRORS):
        message = f"Invalid value: {format_cycle(cycle)}: startAfter must not contain a cycle"
        yield FieldError(f"{roles[cycle[0]].field}.startAfter", message)


def _names_awaited(role: _RoleFields) -> Iterator[str]:
    """The names of other roles that the role waits for."""
    names = (after.get("role") for _, after in _awaited(role))
    return (name for name in names if isinstance(name, str) and name != role.name)


def _awaited(role: _RoleFields) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The field and value of each item of ``startAfter``."""
    for index, after in enumerate(as_list(role.json.get("startAfter"))):
        yield f"{role.field}.startAfter[{index}]", as_object(after)


def _replicas_errors(spec: Mapping[str, Any], roles: Sequence[_RoleFields]) -> Iterator[FieldError]:
    replicas = spec.get("replicas")
    if isinstance(replicas, float):
        # Elsewhere 2.0 is 2. Here a cluster would reject it with a message that is hard to understand.
        yield invalid("spec.replicas", replicas, "must be an integer")
    if replicas is not None and len(roles) != 1:
        yield forbidden(
            "spec.replicas",
            f"only allowed with one task role, and there are {len(roles)}; remove it and set taskNumber of a "
            "role, such as spec.taskRoles[0].taskNumber",
        )


def validation_warnings(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Warnings about values of a valid object that are unlikely to be intended."""
    spec = obj["spec"]
    roles = spec.get("taskRoles") or ()
    warnings = [*_replicas_warnings(spec), *_sequence_warnings(obj)]
    for index, (role, tasks) in enumerate(zip(roles, tasks_of_roles(spec), strict=True)):
        warnings += _role_warnings(f"spec.taskRoles[{index}]", role, tasks)
    if roles and not any(map(_decides, roles)):
        warnings.append(
            "spec.taskRoles: no role has a completion threshold; the Framework succeeds even if all tasks fail"
        )
    if obj.get("status"):
        warnings.append("status: ignored; only the launcher writes it")
    return tuple(warnings[:MAX_REPORTED_ERRORS])


def _sequence_warnings(obj: Mapping[str, Any]) -> Iterator[str]:
    if obj["spec"].get("roleSequence"):
        return  # it overrides the annotation
    roles = {role["name"] for role in obj["spec"].get("taskRoles") or ()}
    for name in annotated_sequence(obj["metadata"].get("annotations"), roles)[1]:
        yield f'metadata.annotations[{SEQUENCE_ANNOTATION}]: unknown role "{name}" ignored'


def _replicas_warnings(spec: Mapping[str, Any]) -> Iterator[str]:
    for role, tasks in zip(spec.get("taskRoles") or (), tasks_of_roles(spec), strict=True):
        if role.get("taskNumber") not in (None, tasks):
            yield f"spec.replicas: {tasks} overrides taskNumber {role['taskNumber']} of role {role['name']}"


def _role_warnings(field: str, role: Mapping[str, Any], tasks: int) -> Iterator[str]:
    policy = role.get("frameworkAttemptCompletionPolicy") or {}
    for name in ("minFailedTaskCount", "minSucceededTaskCount"):
        if policy.get(name) == 0:
            yield f"{field}.frameworkAttemptCompletionPolicy.{name}: 0 is read as -1 (never)"
    if (policy.get("minSucceededTaskCount") or 0) > tasks:
        yield (
            f"{field}.frameworkAttemptCompletionPolicy.minSucceededTaskCount: "
            f"{policy['minSucceededTaskCount']} cannot be reached with {tasks} tasks"
        )
    restart = role["task"]["pod"]["spec"].get("restartPolicy")
    if restart in (None, "Always") and not role.get("background"):
        value = "not set (Always)" if restart is None else "Always"
        yield (
            f"{field}.task.pod.spec.restartPolicy: {value}: pods are restarted and never complete; "
            "use Never or OnFailure"
        )


def _decides(role: Mapping[str, Any]) -> bool:
    """Whether tasks of the role can complete the attempt before all tasks are completed."""
    policy = role.get("frameworkAttemptCompletionPolicy") or {}
    failed, succeeded = policy.get("minFailedTaskCount"), policy.get("minSucceededTaskCount")
    counts = threshold(failed, 1) > 0 or threshold(succeeded, -1) > 0
    return not role.get("background") and (counts or policy.get("succeededIndexes") is not None)


def update_errors(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """Errors of an update from *old* to *new*, both valid."""
    return tuple(_change_errors(old, new))


def _change_errors(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldError]:
    if (name := new["metadata"].get("name")) != old["metadata"].get("name"):
        yield invalid("metadata.name", name, "field is immutable")
    before, after = _execution(old), _execution(new)
    if before is ExecutionType.STOP and after is not ExecutionType.STOP:
        yield invalid(
            "spec.executionType", after, "may not change from Stop; create a new Framework to run it again"
        )
    if before is ExecutionType.START and after is ExecutionType.CREATE:
        yield invalid(
            "spec.executionType", after, "may not change from Start to Create; use Stop to end the Framework"
        )


def _execution(obj: Mapping[str, Any]) -> ExecutionType:
    return ExecutionType(obj["spec"].get("executionType") or ExecutionType.START)
