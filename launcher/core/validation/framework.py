"""Every rule that a Framework or a change of it breaks, each with its field, and what is legal but hardly meant."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from launcher.core.errors import FieldError
from launcher.core.names import PodIdentityKey, config_map_name, pod_name
from launcher.core.replicas import as_int, tasks_of_roles
from launcher.core.role_order import SEQUENCE_ANNOTATION, annotated, cycles, format_cycle
from launcher.core.serialization.spec_json import threshold
from launcher.core.spec import ExecutionType, FrameworkName, RoleName
from launcher.core.validation.discovery import discovery_problems, service_problems
from launcher.core.validation.field_errors import (
    MAX_REPORTED_ERRORS,
    duplicate,
    forbidden,
    invalid,
    not_found,
    required,
    suggestion,
)
from launcher.core.validation.gang import gang_problems
from launcher.core.validation.placeholders import Fill, filled_by, has_placeholders, placeholder_problems
from launcher.core.validation.pod_spec import pod_problems
from launcher.core.validation.pod_template import as_list, as_object
from launcher.core.validation.schema import schema_errors

#: The longest name of a host, and so of a pod that should know its own.
LONGEST_POD_NAME = 63
#: A generated name has this many characters of what it is made from, and these more.
_GENERATED_FROM, _GENERATED = 58, 5

_INDEXES = re.compile(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*")


@dataclass(frozen=True, slots=True)
class _Role:
    """A role as far as it can be read: ``json`` may lack anything, and its parts may have any shape."""

    field: str
    name: str
    tasks: int
    json: Mapping[str, Any]


def validation_errors(obj: Any) -> tuple[FieldError, ...]:
    """Every rule that the object breaks, of its shape and of its sense; empty when it may be run."""
    shape = schema_errors(obj)
    said = {problem.field for problem in shape}
    return (*shape, *(problem for problem in _sense_problems(as_object(obj)) if problem.field not in said))


def _sense_problems(obj: Mapping[str, Any]) -> Iterator[FieldError]:
    spec = as_object(obj.get("spec"))
    roles = _roles(spec)
    known: dict[str, _Role] = {}
    for role in roles:
        if role.name:
            known.setdefault(role.name, role)
    yield from _name_problems(as_object(obj.get("metadata")), roles)
    yield from _count_problems(spec, roles)
    for role in roles:
        pod, field = as_object(role.json.get("task")).get("pod"), f"{role.field}.task.pod"
        if has_placeholders(pod):
            yield from placeholder_problems(pod, field)
            yield from pod_problems(pod, field, _fill(as_object(obj.get("metadata")), role))
        else:
            yield from pod_problems(pod, field)
        yield from service_problems(pod, field)
        yield from _index_problems(role)
        yield from _exit_code_problems(role)
    yield from _sequence_problems(spec, known)
    sequence = _sequence(as_object(obj.get("metadata")), spec, known)
    yield from _start_problems(sequence, known)
    yield from _ring_problems(known)
    yield from _replicas_problems(spec, roles)
    yield from gang_problems(spec, [role.tasks for role in roles], sequence)
    yield from discovery_problems(spec, known)


def _roles(spec: Mapping[str, Any]) -> tuple[_Role, ...]:
    return tuple(
        _Role(
            field=f"spec.taskRoles[{index}]",
            name=name if isinstance(name := as_object(role).get("name"), str) else "",
            tasks=tasks,
            json=as_object(role),
        )
        for index, (role, tasks) in enumerate(
            zip(as_list(spec.get("taskRoles")), tasks_of_roles(spec), strict=True)
        )
    )


def _fill(metadata: Mapping[str, Any], role: _Role) -> Fill:
    """Texts of the role's template as the pod of its last task has them."""
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


def _count_problems(spec: Mapping[str, Any], roles: Sequence[_Role]) -> Iterator[FieldError]:
    """Roles that do not say how many tasks they have, most often because the field is misspelled."""
    if spec.get("taskRoles") is None:
        yield required("spec.taskRoles", f"the groups of tasks to run{_spelled(spec, 'taskRoles')}")
    for role in roles:
        if role.json.get("taskNumber") is None and spec.get("replicas") is None:
            must = f"how many tasks the role has, such as 1{_spelled(role.json, 'taskNumber')}"
            yield required(f"{role.field}.taskNumber", must)


def _spelled(owner: Mapping[str, Any], field: str) -> str:
    """What to do about a field of *owner* that may be *field*, misspelled."""
    misspelled = next((name for name in owner if suggestion(name, [field]) and name != field), None)
    return f'; write "{field}" instead of "{misspelled}"' if misspelled else ""


def creation_problems(obj: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """What a new object, valid otherwise, may not be; an existing one may be scaled to that."""
    spec = as_object(obj.get("spec"))
    if sum(tasks_of_roles(spec)) > 0:
        return ()
    roles = as_list(spec.get("taskRoles"))
    must = "a Framework without tasks would never end: give at least one role a taskNumber of 1 or more"
    if len(roles) == 1 and spec.get("replicas") is None:
        return (invalid("spec.taskRoles[0].taskNumber", 0, must),)
    return (invalid("spec.replicas", 0, must),) if len(roles) == 1 else (required("spec.taskRoles", must),)


def _name_problems(metadata: Mapping[str, Any], roles: Sequence[_Role]) -> Iterator[FieldError]:
    if not metadata.get("name") and not metadata.get("generateName"):
        yield required("metadata.name", "the Framework and its pods are named by it")
    length = _name_length(metadata)
    seen: set[str] = set()
    for role in roles:
        if role.name in seen:
            yield duplicate(f"{role.field}.name", role.name, "each role needs a name of its own")
        if role.name:
            seen.add(role.name)
        index = len(str(max(role.tasks - 1, 0)))
        total = length + 1 + len(role.name) + 1 + index
        if total > LONGEST_POD_NAME:
            yield invalid(
                f"{role.field}.name",
                role.name,
                f"pod names would have up to {total} characters "
                f"({length} of the Framework's name + {len(role.name)} of the role's + {index} of the index "
                f"+ 2 hyphens), and {LONGEST_POD_NAME} are the most: shorten a name by {total - LONGEST_POD_NAME}",
            )


def _name_length(metadata: Mapping[str, Any]) -> int:
    """How long the Framework's name is, or will be when it is generated."""
    name, prefix = metadata.get("name"), metadata.get("generateName")
    if isinstance(name, str) and name:
        return len(name)
    return min(len(prefix), _GENERATED_FROM) + _GENERATED if isinstance(prefix, str) else 0


def _index_problems(role: _Role) -> Iterator[FieldError]:
    """Of ``succeededIndexes``; a text that is no list of indexes is the schema's to refuse."""
    given = as_object(role.json.get("frameworkAttemptCompletionPolicy")).get("succeededIndexes")
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    text = str(given) if isinstance(given, str | int) else ""
    if not _INDEXES.fullmatch(text):
        return
    field = f"{role.field}.frameworkAttemptCompletionPolicy.succeededIndexes"
    for stretch in text.split(","):
        first, _, last = stretch.partition("-")
        if int(last or first) < int(first):
            yield invalid(field, given, f"{stretch} is the wrong way round: write {last}-{first}")
        elif int(last or first) >= role.tasks:
            yield invalid(field, given, f"there is no task {last or first}: {_range_of(role)}")
            return


def _exit_code_problems(role: _Role) -> Iterator[FieldError]:
    """Of ``retryableExitCodes``, in the same way."""
    codes = as_object(as_object(role.json.get("task")).get("retryPolicy")).get("retryableExitCodes")
    if not isinstance(codes, str) or not _INDEXES.fullmatch(codes):
        return
    for stretch in codes.split(","):
        first, _, last = stretch.partition("-")
        if int(last or first) < int(first):
            must = f"{stretch} is the wrong way round: write {last}-{first}"
            yield invalid(f"{role.field}.task.retryPolicy.retryableExitCodes", codes, must)


def _range_of(role: _Role) -> str:
    if role.tasks < 1:
        return f"role {role.name} has no tasks"
    return f"the tasks of role {role.name} go from 0 to {role.tasks - 1}"


def _sequence_problems(spec: Mapping[str, Any], known: Mapping[str, _Role]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, name in enumerate(as_list(spec.get("roleSequence"))):
        field = f"spec.roleSequence[{index}]"
        if not isinstance(name, str):
            continue
        if name in seen:
            yield duplicate(field, name, "each role is created once")
        elif name not in known:
            yield not_found(field, name, known, "role")
        seen.add(name)


def _sequence(
    metadata: Mapping[str, Any], spec: Mapping[str, Any], known: Mapping[str, _Role]
) -> Sequence[str]:
    """The roles that are created first, by the spec, or else by the annotation."""
    named = [name for name in as_list(spec.get("roleSequence")) if isinstance(name, str)]
    return named or annotated(metadata.get("annotations"), known)[0]


def _start_problems(named: Sequence[str], known: Mapping[str, _Role]) -> Iterator[FieldError]:
    place = {name: index for index, name in enumerate(named)}
    for role in known.values():
        for field, after in _awaited(role):
            name = after.get("role")
            if not isinstance(name, str):
                continue
            if name not in known:
                yield not_found(f"{field}.role", name, known, "role")
            elif name == role.name:
                yield invalid(f"{field}.role", name, "a role cannot wait for itself")
            elif place.get(role.name, len(named)) < place.get(name, len(named)):
                yield invalid(f"{field}.role", name, _contradiction(role.name, name))
            elif as_int(after.get("atLeast")) > max(known[name].tasks, 0):
                few = f"role {name} has only {known[name].tasks} tasks"
                yield invalid(f"{field}.atLeast", after.get("atLeast"), few)


def _contradiction(role: str, awaited: str) -> str:
    return (
        f"{format_cycle((role, awaited))}: {role} waits for {awaited}, and {awaited} is created only after {role} "
        f"by roleSequence; put {awaited} before {role} there"
    )


def _ring_problems(known: Mapping[str, _Role]) -> Iterator[FieldError]:
    waits = {
        name: [awaited for awaited in _names_awaited(role) if awaited in known]
        for name, role in known.items()
    }
    for ring in islice(cycles(waits), MAX_REPORTED_ERRORS):
        message = f"Invalid value: {format_cycle(ring)}: each of these roles waits for the next, so none can ever start"
        yield FieldError(f"{known[ring[0]].field}.startAfter", message)


def _names_awaited(role: _Role) -> Iterator[str]:
    """The other roles that the role waits for."""
    names = (after.get("role") for _, after in _awaited(role))
    return (name for name in names if isinstance(name, str) and name != role.name)


def _awaited(role: _Role) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The field and the content of each thing that the role waits for."""
    for index, after in enumerate(as_list(role.json.get("startAfter"))):
        yield f"{role.field}.startAfter[{index}]", as_object(after)


def _replicas_problems(spec: Mapping[str, Any], roles: Sequence[_Role]) -> Iterator[FieldError]:
    replicas = spec.get("replicas")
    if isinstance(replicas, float):
        # Elsewhere 2.0 is 2. Here a cluster would refuse it, in words that nobody understands.
        yield invalid("spec.replicas", replicas, "must be a number without a fraction")
    if replicas is not None and len(roles) != 1:
        yield forbidden(
            "spec.replicas",
            f"only a Framework with one task role has it, and this one has {len(roles)}; leave it out, and set "
            "taskNumber of the role you mean, such as spec.taskRoles[0].taskNumber",
        )


def validation_warnings(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """What is legal in this valid object but hardly meant."""
    spec = obj["spec"]
    roles = spec.get("taskRoles") or ()
    warnings = [*_replicas_warnings(spec), *_sequence_warnings(obj)]
    for index, (role, tasks) in enumerate(zip(roles, tasks_of_roles(spec), strict=True)):
        warnings += _role_warnings(f"spec.taskRoles[{index}]", role, tasks)
    if roles and not any(map(_decides, roles)):
        warnings.append(
            "spec.taskRoles: no role has a threshold, so the Framework ends as Succeeded whatever its tasks do"
        )
    if obj.get("status"):
        warnings.append("status: dropped; it is written by the launcher alone")
    return tuple(warnings[:MAX_REPORTED_ERRORS])


def _sequence_warnings(obj: Mapping[str, Any]) -> Iterator[str]:
    if obj["spec"].get("roleSequence"):
        return  # which counts instead
    roles = {role["name"] for role in obj["spec"].get("taskRoles") or ()}
    for word in annotated(obj["metadata"].get("annotations"), roles)[1]:
        yield f'metadata.annotations[{SEQUENCE_ANNOTATION}]: there is no role "{word}"; it is passed over'


def _replicas_warnings(spec: Mapping[str, Any]) -> Iterator[str]:
    for role, tasks in zip(spec.get("taskRoles") or (), tasks_of_roles(spec), strict=True):
        if role.get("taskNumber") not in (None, tasks):
            yield f"spec.replicas: {tasks} stands over taskNumber {role['taskNumber']} of role {role['name']}"


def _role_warnings(field: str, role: Mapping[str, Any], tasks: int) -> Iterator[str]:
    policy = role.get("frameworkAttemptCompletionPolicy") or {}
    for name in ("minFailedTaskCount", "minSucceededTaskCount"):
        if policy.get(name) == 0:
            yield f"{field}.frameworkAttemptCompletionPolicy.{name}: 0 is read as -1, which is never"
    if (policy.get("minSucceededTaskCount") or 0) > tasks:
        yield (
            f"{field}.frameworkAttemptCompletionPolicy.minSucceededTaskCount: "
            f"{policy['minSucceededTaskCount']} can never be reached with {tasks} tasks"
        )
    restart = role["task"]["pod"]["spec"].get("restartPolicy")
    if restart in (None, "Always") and not role.get("background"):
        how = "left out, which is Always" if restart is None else "Always"
        yield (
            f"{field}.task.pod.spec.restartPolicy: {how}: its pods are restarted for ever and never complete; "
            "use Never or OnFailure"
        )


def _decides(role: Mapping[str, Any]) -> bool:
    """Whether the role's tasks can end the attempt before all are done."""
    policy = role.get("frameworkAttemptCompletionPolicy") or {}
    failed, succeeded = policy.get("minFailedTaskCount"), policy.get("minSucceededTaskCount")
    counts = threshold(failed, 1) > 0 or threshold(succeeded, -1) > 0
    return not role.get("background") and (counts or policy.get("succeededIndexes") is not None)


def update_errors(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldError, ...]:
    """What may not be changed from *old* to *new*, both valid; everything else may, at any time."""
    return tuple(_change_problems(old, new))


def _change_problems(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[FieldError]:
    if (name := new["metadata"].get("name")) != old["metadata"].get("name"):
        yield invalid("metadata.name", name, "the name cannot be changed; make a new Framework")
    was, wish = _execution(old), _execution(new)
    if was is ExecutionType.STOP and wish is not ExecutionType.STOP:
        yield invalid("spec.executionType", wish, "Stop is final; make a new Framework to run it again")
    if was is ExecutionType.START and wish is ExecutionType.CREATE:
        yield invalid("spec.executionType", wish, "it has been started and cannot be held back; Stop ends it")


def _execution(obj: Mapping[str, Any]) -> ExecutionType:
    return ExecutionType(obj["spec"].get("executionType") or ExecutionType.START)
