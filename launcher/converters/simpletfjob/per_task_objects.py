"""
Converts the objects that simpletfjob creates for every task to one Framework.

Tasks of a type that differ only in their index become one role. If they differ in more, such as their node, each task
becomes a role, since a role has one pod template.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow import tfjob
from launcher.converters.kubeflow.tfjob import VERSIONS
from launcher.converters.simpletfjob.batch_job import JOB, POD, TaskObject, part_of
from launcher.converters.simpletfjob.template import PS, WORKER, TemplateTask
from launcher.converters.simpletfjob.template_merge import Difference, merge_templates
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.names import API_VERSION, KIND
from launcher.core.parsing.yaml_documents import SEPARATOR, has_content
from launcher.core.parsing.yaml_reader import read_yaml

Json = dict[str, Any]

_TFJOBS = tuple((version, "TFJob") for version in VERSIONS)


@dataclass(frozen=True, slots=True)
class TaskDocument:
    """An object of one task."""

    task: TemplateTask
    object: Json

    @property
    def type(self) -> tuple[Any, Any]:
        return self.object.get("apiVersion"), self.object.get("kind")

    def __str__(self) -> str:
        """``Job mnist-ps-0``."""
        match self.object.get("metadata"):
            case {"name": str() as name}:
                return f"{self.object.get('kind')} {name}"
            case _:
                return f"{self.object.get('kind')} of {self.task.type} {self.task.index}"


def documents_in(text: str, task: TemplateTask) -> tuple[TaskDocument, ...]:
    """The objects in the text of one task. Raises BadRequest for invalid YAML, InvalidObject for other values."""
    values = [read_yaml(document).value for document in SEPARATOR.split(text) if has_content(document)]
    for value in values:
        if not isinstance(value, dict):
            raise InvalidObject(f"{task.type} {task.index}: must be an object with apiVersion and kind")
    return tuple(TaskDocument(task, value) for value in values)


def frameworks_of(documents: Sequence[TaskDocument]) -> tuple[Conversion, ...]:
    """
    The Frameworks in *documents*, also those of TFJobs, or the one Framework of all Jobs and Pods.

    Raises InvalidObject with everything that cannot be converted.
    """
    if not documents:
        raise InvalidObject("the template contains no objects")
    if all(document.type == (API_VERSION, KIND) for document in documents):
        return tuple(Conversion(document.object) for document in documents)
    if all(document.type in _TFJOBS for document in documents):
        return tuple(tfjob.convert(document.object) for document in documents)
    _raise_errors(_kind_errors(documents))
    parts = [(document, part_of(document.object)) for document in documents]
    _raise_errors(
        (document, part) for document, errors in parts if isinstance(errors, tuple) for part in errors
    )
    return (
        _merge([_Member(doc.task, str(doc), part) for doc, part in parts if isinstance(part, TaskObject)]),
    )


@dataclass(frozen=True, slots=True)
class _Member:
    """A task and its part of the Framework."""

    task: TemplateTask
    #: The name of the object in messages.
    label: str
    part: TaskObject


def _kind_errors(documents: Sequence[TaskDocument]) -> Iterator[tuple[TaskDocument, FieldError]]:
    tasks: set[TemplateTask] = set()
    for document in documents:
        if document.type not in (JOB, POD):
            yield document, FieldError("kind", _not_a_task(document))
        elif document.task in tasks:
            yield (
                document,
                FieldError("kind", "more than one Job or Pod for this task; only one is allowed"),
            )
        tasks.add(document.task)


def _not_a_task(document: TaskDocument) -> str:
    version, kind = document.type
    return (
        f"{kind} ({version}) cannot be part of a Framework; make Jobs (batch/v1), Pods, TFJobs or Frameworks, and "
        "create other objects with kubectl"
    )


def _raise_errors(document_errors: Iterator[tuple[TaskDocument, FieldError]]) -> None:
    """Raises InvalidObject if there are errors; an error that occurs for each task is reported once."""
    errors: dict[tuple[str, str], FieldError] = {}
    for document, error in document_errors:
        reported = FieldError(f"{document}: {error.field}", error.message, error.reason)
        errors.setdefault((error.field, error.message), reported)
    if errors:
        raise InvalidObject(tuple(errors.values()))


def _merge(members: Sequence[_Member]) -> Conversion:
    name = _name_of(members)
    whole = _common_fields(members, "spec", lambda part: part.framework_fields or {})
    namespace = _common_fields(
        members, "metadata", lambda part: {"namespace": part.metadata.get("namespace")}
    )
    roles, notes = _roles_of(name, members)
    metadata = {"name": name, "namespace": namespace["namespace"], **_common_metadata(members)}
    spec = {
        "executionType": "Create" if whole.get("suspend") else "Start",
        "retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": 0},
        **{
            field: whole[field]
            for field in ("activeDeadlineSeconds", "ttlSecondsAfterFinished")
            if field in whole
        },
        "taskRoles": roles,
    }
    framework = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": spec,
    }
    return Conversion(framework, (*notes, *_other_notes(members, whole)))


def _name_of(members: Sequence[_Member]) -> str:
    """``mnist``, of ``mnist-ps-0`` and ``mnist-worker-0``."""
    names = set()
    for member in members:
        name, tail = member.part.metadata["name"], f"-{member.task.type}-{member.task.index}"
        if not name.endswith(tail) or name == tail:
            raise InvalidObject((FieldError(f"{member.label}: metadata.name", _NAMING),))
        names.add(name.removesuffix(tail))
    if len(names) > 1:
        raise InvalidObject(
            (FieldError("metadata.name", f"{_NAMING}; here NAME is {', '.join(sorted(names))}"),)
        )
    return str(names.pop())


_NAMING = "must be NAME-{{.type}}-{{.index}} in the template, with the same NAME for all tasks"


def _common_fields(
    members: Sequence[_Member], path: str, read: Callable[[TaskObject], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The value of *read* for all parts. Raises InvalidObject if they differ."""
    first = read(members[0].part)
    for member in members:
        other = read(member.part)
        for field in sorted(first.keys() | other.keys()):
            if first.get(field) != other.get(field):
                raise InvalidObject(
                    (
                        FieldError(
                            f"{member.label}: {path}.{field}",
                            "must be the same for every task: a Framework has one",
                        ),
                    )
                )
    return first


def _common_metadata(members: Sequence[_Member]) -> Json:
    """The labels and annotations that all objects share."""
    result = {}
    for field in ("labels", "annotations"):
        sets = [dict(member.part.metadata.get(field) or {}).items() for member in members]
        result[field] = {
            key: value for key, value in sets[0] if all((key, value) in entries for entries in sets)
        }
    return result


def _roles_of(name: str, members: Sequence[_Member]) -> tuple[list[Json], list[str]]:
    """The roles in the order of the tasks, and notes about them."""
    groups = {type_: list(group) for type_, group in groupby(members, key=lambda member: member.task.type)}
    by_type, notes = {}, []
    for type_, group in groups.items():
        roles, note = _roles_of_type(name, type_, group)
        by_type[type_] = roles
        notes += note
    servers, workers = by_type.get(PS, []), by_type.get(WORKER, [])
    if servers and workers:
        notes.append(_decide(servers, workers))
    return [*servers, *workers], notes


def _roles_of_type(name: str, type_: str, members: Sequence[_Member]) -> tuple[list[Json], list[str]]:
    indexes, retries = [member.task.index for member in members], {member.part.retries for member in members}
    template = merge_templates([member.part.pod for member in members])
    if len(retries) == 1 and indexes == list(range(len(members))) and not isinstance(template, Difference):
        return [_role(type_, len(members), template, retries.pop())], []
    roles = [
        _role(f"{type_}{member.task.index}", 1, member.part.pod, member.part.retries) for member in members
    ]
    differ = template.field if isinstance(template, Difference) else "their retries, or missing indexes"
    return roles, [
        f"each {type_} becomes a role, since they differ ({differ}): the pod of {type_} {indexes[0]} is named "
        f"{name}-{type_}{indexes[0]}-0, not {name}-{type_}-{indexes[0]}"
    ]


def _role(name: str, tasks: int, pod: Json, retries: int) -> Json:
    return {
        "name": name,
        "taskNumber": tasks,
        "frameworkAttemptCompletionPolicy": {"minFailedTaskCount": 1, "minSucceededTaskCount": -1},
        "task": {"retryPolicy": {"fancyRetryPolicy": False, "maxRetryCount": retries}, "pod": pod},
    }


def _decide(servers: Sequence[Json], workers: Sequence[Json]) -> str:
    """Sets when the Framework completes: parameter servers run until the workers are completed. Returns a note."""
    ends = "the Framework succeeds when all workers have succeeded, and then stops the parameter servers; "
    if len(workers) == 1:
        workers[0]["frameworkAttemptCompletionPolicy"]["minSucceededTaskCount"] = workers[0]["taskNumber"]
        return ends + "a task that fails without retries left stops all others"
    # There is no policy for success of several roles; so all roles but the workers are background roles.
    for role in servers:
        role["background"] = True
        del role["frameworkAttemptCompletionPolicy"]
    return ends + "a worker that fails without retries left stops all others, a parameter server does not"


def _other_notes(members: Sequence[_Member], whole: Mapping[str, Any]) -> Iterator[str]:
    in_place = [member.part.retries for member in members if member.part.restarts_in_place]
    if in_place:
        yield (
            "restartPolicy OnFailure: a failed container is restarted in a new pod, not in its pod, at most "
            f"{max(in_place)} times (backoffLimit)"
        )
    if "activeDeadlineSeconds" in whole:
        yield "activeDeadlineSeconds applies to the Framework, not to each task"
