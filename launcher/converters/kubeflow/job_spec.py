"""Parses jobs of Kubeflow: replicas by type, and policies of the job."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Fields
from launcher.core.errors import FieldError
from launcher.core.json_access import as_objects
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.validation.field_errors import duplicate, invalid, required, unsupported

Json = dict[str, Any]

_RESTARTS = ("Never", "OnFailure", "Always", "ExitCode")
_OPERATOR = "kubeflow.org/training-operator"
#: Metadata that an API server sets.
_SERVER_METADATA = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


@dataclass(frozen=True, slots=True)
class JobFamily:
    """Names and defaults of one job kind."""

    kind: str
    versions: tuple[str, ...]
    #: The field of the spec with the replicas.
    field: str
    #: The name of the operator in labels.
    operator: str
    #: The main container; empty: the first one.
    container: str
    #: The port for peers: its name and default number.
    port_name: str
    port: int
    #: Types of chiefs, of which a job has at most one.
    chiefs: tuple[str, ...]
    #: Types that determine the result of the job.
    deciding: tuple[str, ...]
    #: Whether other types are allowed.
    allows_others: bool = False
    restart: str = "Never"
    #: Whether all containers get the variables with the peers, or only the main one.
    all_containers: bool = True
    #: Versions whose operators deleted running pods with the job.
    old_versions: tuple[str, ...] = ()

    def is_main(self, container: Any) -> bool:
        """Whether it is the main container."""
        return isinstance(container, dict) and container.get("name") == self.container


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """The replicas of one type."""

    type: str
    count: int
    restart: str
    template: Json
    port: int


@dataclass(frozen=True, slots=True)
class KubeflowJob:
    """A parsed job, without the fields that only its kind has."""

    family: JobFamily
    metadata: Json
    replicas: tuple[ReplicaSpec, ...]
    is_old: bool
    clean_pod_policy: str
    suspended: bool
    ttl: int | None
    deadline: int | None
    backoff: int | None
    #: For pods without one.
    priority_class: str | None
    gang: Json | None

    @property
    def chief(self) -> ReplicaSpec | None:
        """The replicas of a chief type, if any."""
        return next((replica for replica in self.replicas if replica.type in self.family.chiefs), None)

    @property
    def total(self) -> int:
        """The number of replicas of types that determine the result."""
        return sum(replica.count for replica in self.replicas if replica.type in self.family.deciding)

    def replica(self, type_: str) -> ReplicaSpec | None:
        """The replicas of a type, if any."""
        return next((replica for replica in self.replicas if replica.type == type_), None)


def read_job(obj: Json, family: JobFamily, errors: list[FieldError]) -> tuple[KubeflowJob, Fields]:
    """
    The parsed job, and the fields of its spec that its kind has to read.

    Errors are added to *errors*.
    """
    top = Fields(obj, "", errors)
    is_old = top.take("apiVersion", str) in family.old_versions
    top.ignore("kind", "status")
    metadata = _metadata(top.inner("metadata"))
    spec = Fields(_first_letters_lowered(top.take("spec", dict) or {}), "spec", errors)
    # Before runPolicy was introduced, the policies were fields of the spec.
    policy = spec.inner("runPolicy") if "runPolicy" in spec else spec
    scheduling = policy.inner("schedulingPolicy")
    job = KubeflowJob(
        family=family,
        metadata=metadata,
        replicas=tuple(_replicas(spec, family)),
        is_old=is_old,
        clean_pod_policy=policy.choice(
            "cleanPodPolicy", ("None", "Running", "All"), "Running" if is_old else "None"
        ),
        suspended=bool(policy.take("suspend", bool)),
        ttl=policy.count("ttlSecondsAfterFinished"),
        deadline=policy.count("activeDeadlineSeconds"),
        backoff=policy.count("backoffLimit"),
        priority_class=scheduling.take("priorityClass", str),
        gang=_gang(scheduling),
    )
    manager = policy.take("managedBy", str)
    if manager not in (None, _OPERATOR):
        policy.add_error(invalid(policy.path_of("managedBy"), manager, f"must be {_OPERATOR} or absent"))
    if policy is not spec:
        policy.finish()
    top.finish()
    return job, spec


def check_single_replica(
    job: KubeflowJob, type_: str, errors: list[FieldError], *, is_required: bool
) -> None:
    """Adds an error unless there is exactly one replica of that type, or none if it is not *is_required*."""
    replica, field = job.replica(type_), f"spec.{job.family.field}.{type_.capitalize()}"
    if replica is None and is_required:
        errors.append(required(field, f"a {job.family.kind} must have exactly one"))
    if replica is not None and replica.count != 1:
        errors.append(
            invalid(
                f"{field}.replicas", replica.count, f"must be 1: a {job.family.kind} has exactly one {type_}"
            )
        )


def _without_none(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _metadata(fields: Fields) -> Json:
    fields.ignore(*_SERVER_METADATA)
    names = {name: fields.take(name, str) for name in ("name", "generateName", "namespace")}
    values = {name: fields.take(name, dict) for name in ("labels", "annotations")}
    fields.finish()
    return _without_none({**names, **values})


def _gang(fields: Fields) -> Json | None:
    gang = _without_none(
        {
            "minTasks": fields.count("minAvailable"),
            "timeoutSeconds": fields.count("scheduleTimeoutSeconds"),
            "queue": fields.take("queue", str),
        }
    )
    fields.finish()
    return gang or None


def _replicas(spec: Fields, family: JobFamily) -> Iterator[ReplicaSpec]:
    """The replicas in the order of the spec."""
    types: set[str] = set()
    for type_, fields in _fields_by_type(spec, family):
        if type_ in types or (type_ in family.chiefs and not types.isdisjoint(family.chiefs)):
            fields.add_error(
                duplicate(
                    fields.path,
                    type_,
                    f"each type may occur once, and only one of {' and '.join(family.chiefs)}"
                    if len(family.chiefs) > 1
                    else "each type may occur once",
                )
            )
        if not family.allows_others and type_ not in family.deciding:
            fields.add_error(unsupported(fields.path, type_, family.deciding))
        types.add(type_)
        yield _replica(type_, fields, family)
    if not types:
        spec.add_error(required(spec.path_of(family.field), "must have at least one replica type"))


def _fields_by_type(spec: Fields, family: JobFamily) -> Iterator[tuple[str, Fields]]:
    for type_, inner in (spec.take(family.field, dict) or {}).items():
        parent = Fields({type_: inner}, spec.path_of(family.field), spec.errors)
        yield str(type_).lower(), parent.inner(type_)
    if not family.old_versions:
        return
    for index, entry in enumerate(spec.take("replicaSpecs", list) or ()):
        parent = Fields({"entry": entry}, "spec", spec.errors)
        inner = parent.take("entry", dict) or {}
        fields = Fields(_first_letters_lowered(inner), f"spec.replicaSpecs[{index}]", spec.errors)
        yield (fields.take("tfReplicaType", str) or "MASTER").lower(), fields


def _first_letters_lowered(obj: Json) -> Json:
    """``replicaSpecs`` for ``ReplicaSpecs``, as in the documentation of the first version."""
    return {name[:1].lower() + name[1:]: value for name, value in obj.items()}


def _replica(type_: str, fields: Fields, family: JobFamily) -> ReplicaSpec:
    # Bounded before callers create an address for each replica.
    count = fields.count("replicas", INDEXES_END)
    restart = fields.choice("restartPolicy", _RESTARTS, family.restart)
    template = fields.take("template", dict)
    older_port = fields.count("tfPort") if family.old_versions else None
    if template is None:
        fields.add_error(required(fields.path_of("template"), "must be the pod template of the replicas"))
        template = {}
    metadata = Fields(template, fields.path_of("template"), fields.errors).inner("metadata")
    for values in ("labels", "annotations"):
        metadata.take(values, dict)
    port = _port_in(template, fields, family)
    fields.finish()
    return ReplicaSpec(
        type_, 1 if count is None else count, restart, template, port or older_port or family.port
    )


def _port_in(template: Json, fields: Fields, family: JobFamily) -> int | None:
    """The port for peers of the main container, if it has one."""
    match template.get("spec"):
        case {"containers": [*containers]} if main := [each for each in containers if family.is_main(each)]:
            ports = as_objects(main[0].get("ports"))
            named = (each.get("containerPort") for each in ports if each.get("name") == family.port_name)
            return next(named, None)
        case {"containers": [dict(), *_]} if not family.container:
            return None
        case _:
            reason = (
                f"must contain a container named {family.container}"
                if family.container
                else "must have at least one container"
            )
            fields.add_error(required(fields.path_of("template.spec.containers"), reason))
            return None
