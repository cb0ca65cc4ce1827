"""
Objects of their own for every task, as simpletfjob makes them, into one Framework.

Tasks of a type that differ by nothing but their index are one role. Where they differ by more, as by the machine that
each is put on, each is a role with one task: a Framework has one pod template for all tasks of a role.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow import tfjob
from launcher.converters.kubeflow.tfjob import VERSIONS
from launcher.converters.simpletfjob.batch_job import JOB, POD, TaskObject, part_of
from launcher.converters.simpletfjob.template import PS, WORKER, Task
from launcher.converters.simpletfjob.template_merge import Difference, one_template
from launcher.core.errors import FieldError, InvalidObject
from launcher.core.names import API_VERSION, KIND
from launcher.core.parsing.yaml_reader import read_yaml

Json = dict[str, Any]

_TFJOBS = tuple((version, "TFJob") for version in VERSIONS)
#: A line that ends a document.
SEPARATOR = re.compile(r"^---[ \t]*(?:#.*)?\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Document:
    """An object that was made for a task."""

    task: Task
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


def documents_in(text: str, task: Task) -> tuple[Document, ...]:
    """The objects in the text of one task. Raises BadRequest when it is no YAML, InvalidObject when it is no object."""
    values = [read_yaml(each).value for each in SEPARATOR.split(text) if has_content(each)]
    for value in values:
        if not isinstance(value, dict):
            raise InvalidObject(f"{task.type} {task.index}: it has to be an object with apiVersion and kind")
    return tuple(Document(task, value) for value in values)


def has_content(text: str) -> bool:
    """Whether there is more than comments in a document."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def frameworks_of(documents: Sequence[Document]) -> tuple[Conversion, ...]:
    """
    The Frameworks that stand in the *documents*, as such or as TFJobs, or the one that Jobs and Pods make together.

    Raises InvalidObject with everything that cannot be mapped.
    """
    if not documents:
        raise InvalidObject("the template makes nothing: there is no object to submit")
    if all(document.type == (API_VERSION, KIND) for document in documents):
        return tuple(Conversion(document.object) for document in documents)
    if all(document.type in _TFJOBS for document in documents):
        return tuple(tfjob.framework_of(document.object) for document in documents)
    _refuse(_kind_problems(documents))
    parts = [(document, part_of(document.object)) for document in documents]
    _refuse(
        (document, part) for document, problems in parts if isinstance(problems, tuple) for part in problems
    )
    return (
        _together([_Member(doc.task, str(doc), part) for doc, part in parts if isinstance(part, TaskObject)]),
    )


@dataclass(frozen=True, slots=True)
class _Member:
    """A task and what its object brings."""

    task: Task
    #: What the object is called in messages.
    label: str
    part: TaskObject


def _kind_problems(documents: Sequence[Document]) -> Iterator[tuple[Document, FieldError]]:
    seen: set[Task] = set()
    for document in documents:
        if document.type not in (JOB, POD):
            yield document, FieldError("kind", _not_a_task(document))
        elif document.task in seen:
            yield (
                document,
                FieldError("kind", "there is more than one Job or Pod for this task; make one of each"),
            )
        seen.add(document.task)


def _not_a_task(document: Document) -> str:
    version, kind = document.type
    return (
        f"{kind} ({version}) cannot be part of a Framework; make Jobs (batch/v1), Pods, TFJobs or Frameworks, and "
        "create other objects with kubectl"
    )


def _refuse(found: Iterator[tuple[Document, FieldError]]) -> None:
    """Raise InvalidObject if there are any problems; what a template does wrong for each task is told once."""
    problems: dict[tuple[str, str], FieldError] = {}
    for document, problem in found:
        told = FieldError(f"{document}: {problem.field}", problem.message, problem.reason)
        problems.setdefault((problem.field, problem.message), told)
    if problems:
        raise InvalidObject(tuple(problems.values()))


def _together(members: Sequence[_Member]) -> Conversion:
    name = _name_of(members)
    whole = _agreed(members, "spec", lambda part: part.whole or {})
    namespace = _agreed(members, "metadata", lambda part: {"namespace": part.metadata.get("namespace")})
    roles, notes = _roles_of(name, members)
    metadata = {"name": name, "namespace": namespace["namespace"], **_shared(members)}
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


_NAMING = (
    "has to be NAME-{{.type}}-{{.index}} in the template, with one NAME for all: the Framework is called so"
)


def _agreed(
    members: Sequence[_Member], where: str, of: Callable[[TaskObject], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """What *of* says of every part. Raises InvalidObject if they disagree."""
    first = of(members[0].part)
    for member in members:
        other = of(member.part)
        for field in sorted(first.keys() | other.keys()):
            if first.get(field) != other.get(field):
                raise InvalidObject(
                    (
                        FieldError(
                            f"{member.label}: {where}.{field}",
                            "has to be the same for every task: a Framework has one",
                        ),
                    )
                )
    return first


def _shared(members: Sequence[_Member]) -> Json:
    """The labels and annotations that every object has."""
    found = {}
    for field in ("labels", "annotations"):
        sets = [dict(member.part.metadata.get(field) or {}).items() for member in members]
        found[field] = {key: value for key, value in sets[0] if all((key, value) in each for each in sets)}
    return found


def _roles_of(name: str, members: Sequence[_Member]) -> tuple[list[Json], list[str]]:
    """The roles in the order of the tasks, and what there is to say about them."""
    groups = {type_: list(group) for type_, group in groupby(members, key=lambda member: member.task.type)}
    found, notes = {}, []
    for type_, group in groups.items():
        roles, note = _roles_of_type(name, type_, group)
        found[type_] = roles
        notes += note
    servers, workers = found.get(PS, []), found.get(WORKER, [])
    if servers and workers:
        notes.append(_decide(servers, workers))
    return [*servers, *workers], notes


def _roles_of_type(name: str, type_: str, members: Sequence[_Member]) -> tuple[list[Json], list[str]]:
    indexes, retries = [member.task.index for member in members], {member.part.retries for member in members}
    template = one_template([member.part.pod for member in members])
    if len(retries) == 1 and indexes == list(range(len(members))) and not isinstance(template, Difference):
        return [_role(type_, len(members), template, retries.pop())], []
    roles = [
        _role(f"{type_}{member.task.index}", 1, member.part.pod, member.part.retries) for member in members
    ]
    differ = template.field if isinstance(template, Difference) else "their retries, or some are left out"
    return roles, [
        f"each {type_} is a role of its own, for they differ ({differ}): the pod of {type_} {indexes[0]} is called "
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
    """How the whole ends, set in the roles and told: parameter servers serve until the workers are done."""
    ends = "the Framework has succeeded when every worker has, and then ends the parameter servers; "
    if len(workers) == 1:
        workers[0]["frameworkAttemptCompletionPolicy"]["minSucceededTaskCount"] = workers[0]["taskNumber"]
        return ends + "a task that fails for good ends all the others"
    # Success of every role cannot be asked for, but that all which counts has ended; so these may not count.
    for role in servers:
        role["background"] = True
        del role["frameworkAttemptCompletionPolicy"]
    return ends + "a worker that fails for good ends all the others, a parameter server does not"


def _other_notes(members: Sequence[_Member], whole: Mapping[str, Any]) -> Iterator[str]:
    in_place = [member.part.retries for member in members if member.part.restarts_in_place]
    if in_place:
        yield (
            "restartPolicy OnFailure: a failed container is not started again in its pod, but in a new pod, at most "
            f"{max(in_place)} times, as backoffLimit says"
        )
    if "activeDeadlineSeconds" in whole:
        yield "activeDeadlineSeconds is counted for the Framework as a whole, not for each task"
