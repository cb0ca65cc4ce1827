"""What a job of Kubeflow's asks for: replicas by their type, and how the job as a whole is run."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import Fields
from launcher.core.errors import FieldError
from launcher.core.serialization.index_ranges import INDEXES_END
from launcher.core.validation.field_errors import duplicate, invalid, required, unsupported

Json = dict[str, Any]

_RESTARTS = ("Never", "OnFailure", "Always", "ExitCode")
_OPERATOR = "kubeflow.org/training-operator"
#: What the API server writes, and nobody else.
_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


@dataclass(frozen=True, slots=True)
class JobFamily:
    """What one kind of job calls things, and what it takes for granted."""

    kind: str
    versions: tuple[str, ...]
    #: The field of the spec that holds the replicas.
    field: str
    #: What the operator calls itself in a label.
    operator: str
    #: The container that does the work; empty for the first one.
    container: str
    #: The port at which peers find each other: its name, if it has to be there, and its number.
    port_name: str
    port: int
    #: Types one of which is in charge, of which there may be one only.
    chiefs: tuple[str, ...]
    #: Types that decide about the job; others run, and that is all.
    deciding: tuple[str, ...]
    #: Whether there may be others at all.
    others: bool = False
    restart: str = "Never"
    #: Whether every container is told about the others' places, or only the one that does the work.
    tells_all: bool = True
    #: Versions whose operators kept running pods no longer than the job.
    old_versions: tuple[str, ...] = ()

    def is_main(self, container: Any) -> bool:
        """Whether that is the container that does the work."""
        return isinstance(container, dict) and container.get("name") == self.container


@dataclass(frozen=True, slots=True)
class Replica:
    """The tasks of one type."""

    type: str
    count: int
    restart: str
    template: Json
    port: int


@dataclass(frozen=True, slots=True)
class KubeflowJob:
    """A job with nothing left open, but for what is its kind's alone."""

    family: JobFamily
    metadata: Json
    replicas: tuple[Replica, ...]
    is_old: bool
    clean: str
    suspended: bool
    ttl: int | None
    deadline: int | None
    backoff: int | None
    #: For pods that name none.
    priority_class: str | None
    gang: Json | None

    @property
    def chief(self) -> Replica | None:
        """The replicas in charge, if there are any."""
        return next((each for each in self.replicas if each.type in self.family.chiefs), None)

    @property
    def total(self) -> int:
        """How many tasks there are, of all types that decide."""
        return sum(each.count for each in self.replicas if each.type in self.family.deciding)

    def of(self, type_: str) -> Replica | None:
        """The replicas of that type, if there are any."""
        return next((each for each in self.replicas if each.type == type_), None)


def read_job(obj: Json, family: JobFamily, problems: list[FieldError]) -> tuple[KubeflowJob, Fields]:
    """
    What *obj* asks for, as far as it can be understood, and the fields of its spec that are left for its kind to take.

    The rest is in *problems*.
    """
    top = Fields(obj, "", problems)
    is_old = top.take("apiVersion", str) in family.old_versions
    top.ignore("kind", "status")
    metadata = _metadata(top.inner("metadata"))
    spec = Fields(_first_letters_lowered(top.take("spec", dict) or {}), "spec", problems)
    # The first operators of v1, and all before, had the policies in the spec itself.
    policy = spec.inner("runPolicy") if "runPolicy" in spec else spec
    scheduling = policy.inner("schedulingPolicy")
    job = KubeflowJob(
        family=family,
        metadata=metadata,
        replicas=tuple(_replicas(spec, family)),
        is_old=is_old,
        clean=policy.word("cleanPodPolicy", ("None", "Running", "All"), "Running" if is_old else "None"),
        suspended=bool(policy.take("suspend", bool)),
        ttl=policy.count("ttlSecondsAfterFinished"),
        deadline=policy.count("activeDeadlineSeconds"),
        backoff=policy.count("backoffLimit"),
        priority_class=scheduling.take("priorityClass", str),
        gang=_gang(scheduling),
    )
    manager = policy.take("managedBy", str)
    if manager not in (None, _OPERATOR):
        policy.complain(invalid(policy.at("managedBy"), manager, f"leave it out, or write {_OPERATOR}"))
    if policy is not spec:
        policy.finish()
    top.finish()
    return job, spec


def check_one(job: KubeflowJob, type_: str, problems: list[FieldError], *, needed: bool) -> None:
    """Add to *problems* unless there is exactly one task of that type, or none where none is *needed*."""
    replica, field = job.of(type_), f"spec.{job.family.field}.{type_.capitalize()}"
    if replica is None and needed:
        problems.append(required(field, f"a {job.family.kind} has exactly one"))
    if replica is not None and replica.count != 1:
        problems.append(
            invalid(f"{field}.replicas", replica.count, f"must be 1: a {job.family.kind} has one {type_}")
        )


def _given(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _metadata(fields: Fields) -> Json:
    fields.ignore(*_SERVERS_OWN)
    kept = {name: fields.take(name, str) for name in ("name", "generateName", "namespace")}
    marks = {name: fields.take(name, dict) for name in ("labels", "annotations")}
    fields.finish()
    return _given({**kept, **marks})


def _gang(fields: Fields) -> Json | None:
    found = _given(
        {
            "minTasks": fields.count("minAvailable"),
            "timeoutSeconds": fields.count("scheduleTimeoutSeconds"),
            "queue": fields.take("queue", str),
        }
    )
    fields.finish()
    return found or None


def _replicas(spec: Fields, family: JobFamily) -> Iterator[Replica]:
    """Every type once, in the order in which they are written."""
    seen: set[str] = set()
    for type_, fields in _typed(spec, family):
        if type_ in seen or (type_ in family.chiefs and not seen.isdisjoint(family.chiefs)):
            fields.complain(
                duplicate(
                    fields.path,
                    type_,
                    f"each type may be there once, {' and '.join(family.chiefs)} are one"
                    if len(family.chiefs) > 1
                    else "each type may be there once",
                )
            )
        if not family.others and type_ not in family.deciding:
            fields.complain(unsupported(fields.path, type_, family.deciding))
        seen.add(type_)
        yield _replica(type_, fields, family)
    if not seen:
        spec.complain(required(spec.at(family.field), "there has to be at least one type of replicas"))


def _typed(spec: Fields, family: JobFamily) -> Iterator[tuple[str, Fields]]:
    for type_, inner in (spec.take(family.field, dict) or {}).items():
        holder = Fields({type_: inner}, spec.at(family.field), spec.problems)
        yield str(type_).lower(), holder.inner(type_)
    if not family.old_versions:
        return
    for at, entry in enumerate(spec.take("replicaSpecs", list) or ()):
        holder = Fields({"entry": entry}, "spec", spec.problems)
        inner = holder.take("entry", dict) or {}
        fields = Fields(_first_letters_lowered(inner), f"spec.replicaSpecs[{at}]", spec.problems)
        yield (fields.take("tfReplicaType", str) or "MASTER").lower(), fields


def _first_letters_lowered(obj: Json) -> Json:
    """``replicaSpecs`` for ``ReplicaSpecs``: the documents of the first version write its fields so."""
    return {name[:1].lower() + name[1:]: value for name, value in obj.items()}


def _replica(type_: str, fields: Fields, family: JobFamily) -> Replica:
    # Bounded here, before any caller makes an address for each replica.
    count = fields.count("replicas", INDEXES_END)
    restart = fields.word("restartPolicy", _RESTARTS, family.restart)
    template = fields.take("template", dict)
    older_port = fields.count("tfPort") if family.old_versions else None
    if template is None:
        fields.complain(required(fields.at("template"), "it is the pod of each replica"))
        template = {}
    metadata = Fields(template, fields.at("template"), fields.problems).inner("metadata")
    for marks in ("labels", "annotations"):
        metadata.take(marks, dict)
    port = _port_in(template, fields, family)
    fields.finish()
    return Replica(type_, 1 if count is None else count, restart, template, port or older_port or family.port)


def _port_in(template: Json, fields: Fields, family: JobFamily) -> int | None:
    """The port that the container which does the work names for its peers; None if it names none."""
    match template.get("spec"):
        case {"containers": [*containers]} if found := [each for each in containers if family.is_main(each)]:
            ports = objects_in(found[0].get("ports"))
            named = (each.get("containerPort") for each in ports if each.get("name") == family.port_name)
            return next(named, None)
        case {"containers": [dict(), *_]} if not family.container:
            return None
        case _:
            wanted = (
                f"one of them has to be called {family.container}"
                if family.container
                else "there has to be one"
            )
            fields.complain(required(fields.at("template.spec.containers"), wanted))
            return None


def objects_in(value: Any) -> list[Json]:
    """The objects in a list; whatever else is there, the rules for pods refuse."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
