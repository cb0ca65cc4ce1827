"""Job kinds of other systems that the launcher runs, and their conversion to Frameworks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Conversion
from launcher.converters.kubeflow.job_spec import JobFamily
from launcher.converters.registry import FAMILIES
from launcher.core.errors import FieldError
from launcher.core.json_access import as_object
from launcher.core.replicas import as_int
from launcher.store.interface import ResourceKind

Json = dict[str, Any]

#: Annotation of a job with the API version it was created in, if that is not the stored one: operators of older
#: versions behave differently in some respects, and so does the Framework.
WRITTEN_AS_ANNOTATION = "launcher.microsoft.com/written-as"
#: Label of a Framework: the kind of its job.
JOB_KIND_LABEL = "launcher.microsoft.com/job-kind"

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_METADATA_FIELDS = ("name", "generateName", "namespace", "labels")


@dataclass(frozen=True, slots=True)
class JobKind:
    """One job kind."""

    family: JobFamily
    plural: str
    #: Converts a job. Raises InvalidObject with all errors and unsupported fields.
    convert: Callable[[Json], Conversion]

    @property
    def kind(self) -> ResourceKind:
        """The kind as it is stored."""
        return self.kinds[0]

    @property
    def kinds(self) -> tuple[ResourceKind, ...]:
        """The kind in each of its versions, the stored one first."""
        versions = (version.split("/") for version in self.family.versions)
        return tuple(
            ResourceKind(group, version, self.plural, self.family.kind) for group, version in versions
        )

    @property
    def singular(self) -> str:
        return self.family.kind.lower()


JOB_KINDS: tuple[JobKind, ...] = tuple(
    JobKind(family, f"{family.kind.lower()}s", convert) for family, convert in FAMILIES
)


_BY_KIND = {kind: job_kind for job_kind in JOB_KINDS for kind in job_kind.kinds}
_BY_OWNER = {(kind.api_version, kind.kind): job_kind for kind, job_kind in _BY_KIND.items()}


def job_kind_of(kind: ResourceKind) -> JobKind | None:
    """The job kind of which *kind* is a version; None for other kinds."""
    return _BY_KIND.get(kind)


def job_kind_of_owner(owner: Mapping[str, Any]) -> JobKind | None:
    """The job kind that an owner reference names, in any of its versions; None for another kind."""
    return _BY_OWNER.get((owner.get("apiVersion", ""), owner.get("kind", "")))


def annotate_written_version(kind: ResourceKind, job: Json) -> Json:
    """The new job, annotated with its API version if that is not the stored one."""
    job_kind = job_kind_of(kind)
    if job_kind is None or job_kind.kind == kind:
        return job
    metadata = as_object(job.get("metadata"))
    annotations = {WRITTEN_AS_ANNOTATION: kind.api_version, **as_object(metadata.get("annotations"))}
    return {**job, "metadata": {**metadata, "annotations": annotations}}


def convert_job(job_kind: JobKind, job: Json) -> Conversion:
    """Converts a job; metadata that the API server and kubectl add is ignored. Raises InvalidObject."""
    metadata = as_object(job.get("metadata"))
    job_annotations = as_object(metadata.get("annotations"))
    annotations = {
        name: text
        for name, text in job_annotations.items()
        if name not in (WRITTEN_AS_ANNOTATION, _LAST_APPLIED)
    }
    basic_metadata = {name: metadata[name] for name in _METADATA_FIELDS if name in metadata}
    return job_kind.convert(
        {
            "apiVersion": job_annotations.get(WRITTEN_AS_ANNOTATION) or job.get("apiVersion"),
            "kind": job.get("kind"),
            "metadata": {**basic_metadata, **({"annotations": annotations} if annotations else {})},
            "spec": job.get("spec"),
        }
    )


def translate_error(job_kind: JobKind, job: Json, error: FieldError) -> FieldError:
    """Returns an error of the Framework with the corresponding field of the job."""
    for framework_field, job_field in _field_mapping(job_kind, job):
        if error.field == framework_field or error.field.startswith(
            (f"{framework_field}.", f"{framework_field}[")
        ):
            field = job_field + error.field[len(framework_field) :]
            return error._replace(field=field, message=error.message.replace(error.field, field))
    return error


def _field_mapping(job_kind: JobKind, job: Json) -> Iterator[tuple[str, str]]:
    """Fields of the Framework and the corresponding fields of the job, the deepest first."""
    for index, path in enumerate(replica_paths(job_kind, job)):
        role = f"spec.taskRoles[{index}]"
        yield f"{role}.task.pod", f"{path}.template"
        yield f"{role}.taskNumber", f"{path}.replicas"
        yield f"{role}.name", path
        yield role, path
    yield "spec.taskRoles", f"spec.{job_kind.family.field}"
    policy = "spec.runPolicy" if "runPolicy" in as_object(job.get("spec")) else "spec"
    yield "spec.gang.minTasks", f"{policy}.schedulingPolicy.minAvailable"
    yield "spec.gang.timeoutSeconds", f"{policy}.schedulingPolicy.scheduleTimeoutSeconds"
    yield "spec.gang", f"{policy}.schedulingPolicy"
    yield from ((f"spec.{name}", f"{policy}.{name}") for name in _RUN_POLICY_FIELDS)


_RUN_POLICY_FIELDS = ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "cleanPodPolicy")


def replica_paths(job_kind: JobKind, job: Json) -> list[str]:
    """The field of each replica type, in the order of the Framework's roles."""
    spec = {name[:1].lower() + name[1:]: value for name, value in as_object(job.get("spec")).items()}
    listed = spec.get("replicaSpecs")
    return [
        *(f"spec.{job_kind.family.field}.{type_}" for type_ in as_object(spec.get(job_kind.family.field))),
        *(f"spec.replicaSpecs[{index}]" for index in range(len(listed) if isinstance(listed, list) else 0)),
    ]


def task_count(job_kind: JobKind, job: Json) -> int:
    """The number of replicas of all types, computed without converting the job; invalid values count as 0."""
    spec = {name[:1].lower() + name[1:]: value for name, value in as_object(job.get("spec")).items()}
    listed = spec.get("replicaSpecs")
    types = [
        *as_object(spec.get(job_kind.family.field)).values(),
        *(listed if isinstance(listed, list) else ()),
    ]
    counts = (as_object(type_).get("replicas") for type_ in types)
    return sum(1 if count is None else max(as_int(count), 0) for count in counts)


def type_name(role: str) -> str:
    """The replica type of a role: ``Worker``, ``PS``."""
    return role.upper() if role == "ps" else role.capitalize()
