"""Kinds of jobs that are somebody else's: where they stand, and the Framework that each of them becomes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.job_spec import JobFamily
from launcher.converters.registry import FAMILIES
from launcher.core.errors import FieldError
from launcher.core.replicas import as_int
from launcher.store.interface import ResourceKind

Json = dict[str, Any]

#: Stands on a job that was written in an older version than the one that it is stored in: its operator did some
#: things otherwise, and so does its Framework.
WRITTEN_AS = "launcher.microsoft.com/written-as"
#: Of which kind a Framework's job is; by this label such Frameworks are found.
JOB_KIND = "launcher.microsoft.com/job-kind"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_KEPT = ("name", "generateName", "namespace", "labels")


@dataclass(frozen=True, slots=True)
class JobKind:
    """One such kind."""

    family: JobFamily
    plural: str
    #: Raises InvalidObject with everything that is wrong or has no counterpart.
    framework_of: Callable[[Json], Conversion]

    @property
    def kind(self) -> ResourceKind:
        """The kind as it is stored."""
        return self.kinds[0]

    @property
    def kinds(self) -> tuple[ResourceKind, ...]:
        """The kind in each of its versions, the stored one first."""
        places = (version.split("/") for version in self.family.versions)
        return tuple(ResourceKind(group, version, self.plural, self.family.kind) for group, version in places)

    @property
    def singular(self) -> str:
        return self.family.kind.lower()


FOREIGN: tuple[JobKind, ...] = tuple(
    JobKind(family, f"{family.kind.lower()}s", way) for family, way in FAMILIES
)


_BY_KIND = {kind: foreign for foreign in FOREIGN for kind in foreign.kinds}
_BY_OWNER = {(kind.api_version, kind.kind): foreign for kind, foreign in _BY_KIND.items()}


def foreign_of(kind: ResourceKind) -> JobKind | None:
    """The job that *kind* is a version of, if it is one."""
    return _BY_KIND.get(kind)


def job_kind_of_owner(owner: Mapping[str, Any]) -> JobKind | None:
    """The job kind that an owner reference names, in any of its versions; None for another kind."""
    return _BY_OWNER.get((owner.get("apiVersion", ""), owner.get("kind", "")))


def noted(kind: ResourceKind, job: Json) -> Json:
    """The new job, with the version that it is written in, if it is not that in which it is stored."""
    foreign = foreign_of(kind)
    if foreign is None or foreign.kind == kind:
        return job
    metadata = _part(job.get("metadata"))
    marks = {WRITTEN_AS: kind.api_version, **_part(metadata.get("annotations"))}
    return {**job, "metadata": {**metadata, "annotations": marks}}


def convert_job(foreign: JobKind, job: Json) -> Conversion:
    """The Framework of a job, whoever else has written into its metadata. Raises InvalidObject."""
    metadata = _part(job.get("metadata"))
    marks = _part(metadata.get("annotations"))
    annotations = {name: text for name, text in marks.items() if name not in (WRITTEN_AS, _LAST_APPLIED)}
    kept = {name: metadata[name] for name in _KEPT if name in metadata}
    return foreign.framework_of(
        {
            "apiVersion": marks.get(WRITTEN_AS) or job.get("apiVersion"),
            "kind": job.get("kind"),
            "metadata": {**kept, **({"annotations": annotations} if annotations else {})},
            "spec": job.get("spec"),
        }
    )


def translated(foreign: JobKind, job: Json, problem: FieldError) -> FieldError:
    """What is wrong with the Framework of a job, told of the job itself."""
    for ours, theirs in _places(foreign, job):
        if problem.field == ours or problem.field.startswith((f"{ours}.", f"{ours}[")):
            field = theirs + problem.field[len(ours) :]
            return replace(problem, field=field, message=problem.message.replace(problem.field, field))
    return problem


def _places(foreign: JobKind, job: Json) -> Iterator[tuple[str, str]]:
    """Fields of the Framework and where they come from, the deeper ones first."""
    for index, path in enumerate(replica_paths(foreign, job)):
        role = f"spec.taskRoles[{index}]"
        yield f"{role}.task.pod", f"{path}.template"
        yield f"{role}.taskNumber", f"{path}.replicas"
        yield f"{role}.name", path
        yield role, path
    yield "spec.taskRoles", f"spec.{foreign.family.field}"
    policy = "spec.runPolicy" if "runPolicy" in _part(job.get("spec")) else "spec"
    yield "spec.gang.minTasks", f"{policy}.schedulingPolicy.minAvailable"
    yield "spec.gang.timeoutSeconds", f"{policy}.schedulingPolicy.scheduleTimeoutSeconds"
    yield "spec.gang", f"{policy}.schedulingPolicy"
    yield from ((f"spec.{name}", f"{policy}.{name}") for name in _OF_THE_WHOLE)


_OF_THE_WHOLE = ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "cleanPodPolicy")


def replica_paths(foreign: JobKind, job: Json) -> list[str]:
    """Where the replicas of each type stand, in the order of the Framework's roles."""
    spec = {name[:1].lower() + name[1:]: value for name, value in _part(job.get("spec")).items()}
    listed = spec.get("replicaSpecs")
    return [
        *(f"spec.{foreign.family.field}.{type_}" for type_ in _part(spec.get(foreign.family.field))),
        *(f"spec.replicaSpecs[{at}]" for at in range(len(listed) if isinstance(listed, list) else 0)),
    ]


def task_count(foreign: JobKind, job: Json) -> int:
    """How many replicas there are of all types, as far as that can be read; nothing is made for each of them."""
    spec = {name[:1].lower() + name[1:]: value for name, value in _part(job.get("spec")).items()}
    listed = spec.get("replicaSpecs")
    types = [*_part(spec.get(foreign.family.field)).values(), *(listed if isinstance(listed, list) else ())]
    given = (_part(each).get("replicas") for each in types)
    return sum(1 if count is None else max(as_int(count), 0) for count in given)


def type_name(role: str) -> str:
    """What a job calls the replicas that are that role: ``Worker``, ``PS``."""
    return role.upper() if role == "ps" else role.capitalize()


def _part(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
