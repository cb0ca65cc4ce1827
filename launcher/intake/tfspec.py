"""What a TFJob asks for, in whichever of its shapes it is written: a map of replicas or the older list of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launcher.core.checking.problems import duplicate, forbidden, invalid, required
from launcher.core.errors import Problem
from launcher.intake.fields import Fields

Json = dict[str, Any]

CHIEFS = ("chief", "master")
CONTAINER, PORT_NAME, PORT = "tensorflow", "tfjob-port", 2222
#: Versions whose operators kept running pods no longer than the job, and told nobody of evaluators.
OLD_VERSIONS = (
    "kubeflow.org/v1alpha1",
    "kubeflow.org/v1alpha2",
    "kubeflow.org/v1beta1",
    "kubeflow.org/v1beta2",
)
VERSIONS = ("kubeflow.org/v1", *OLD_VERSIONS)

_RESTARTS = ("Never", "OnFailure", "Always", "ExitCode")
_OPERATOR = "kubeflow.org/training-operator"
#: What the API server writes, and nobody else.
_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


@dataclass(frozen=True, slots=True)
class Replica:
    """The tasks of one type."""

    type: str
    count: int
    restart: str
    template: Json
    port: int


@dataclass(frozen=True, slots=True)
class TfJob:
    """A TFJob with nothing left open."""

    metadata: Json
    replicas: tuple[Replica, ...]
    is_old: bool
    clean: str
    all_workers: bool
    dynamic: bool
    suspended: bool
    ttl: int | None
    deadline: int | None
    backoff: int | None
    gang: Json | None


def read_tfjob(obj: Json, problems: list[Problem]) -> TfJob:
    """What *obj* asks for, as far as it can be understood; the rest is in *problems*."""
    top = Fields(obj, "", problems)
    is_old = top.take("apiVersion", str) in OLD_VERSIONS
    top.ignore("kind", "status")
    metadata = _metadata(top.inner("metadata"))
    spec = Fields(_first_letters_lowered(top.take("spec", dict) or {}), "spec", problems)
    # The first operators of v1, and all before, had the policies in the spec itself.
    policy = spec.inner("runPolicy") if "runPolicy" in spec else spec
    job = TfJob(
        metadata=metadata,
        replicas=tuple(_replicas(spec)),
        is_old=is_old,
        clean=policy.word("cleanPodPolicy", ("None", "Running", "All"), "Running" if is_old else "None"),
        all_workers=spec.word("successPolicy", ("", "AllWorkers"), "") == "AllWorkers",
        dynamic=bool(spec.take("enableDynamicWorker", bool)),
        suspended=bool(policy.take("suspend", bool)),
        ttl=policy.count("ttlSecondsAfterFinished"),
        deadline=policy.count("activeDeadlineSeconds"),
        backoff=policy.count("backoffLimit"),
        gang=_gang(policy.inner("schedulingPolicy")),
    )
    manager = policy.take("managedBy", str)
    if manager not in (None, _OPERATOR):
        policy.complain(invalid(policy.at("managedBy"), manager, f"leave it out, or write {_OPERATOR}"))
    for fields in (policy, spec, top):
        fields.finish()
    return job


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
        {"minTasks": fields.count("minAvailable"), "timeoutSeconds": fields.count("scheduleTimeoutSeconds")}
    )
    fields.finish()
    return found or None


def _replicas(spec: Fields) -> Iterator[Replica]:
    """Every type once, in the order in which they are written."""
    seen: set[str] = set()
    for type_, fields in _typed(spec):
        if type_ in seen or (type_ in CHIEFS and not seen.isdisjoint(CHIEFS)):
            fields.complain(
                duplicate(fields.path, type_, "each type may be there once, chief and master are one")
            )
        seen.add(type_)
        yield _replica(type_, fields)
    if not seen:
        spec.complain(required(spec.at("tfReplicaSpecs"), "there has to be at least one type of replicas"))


def _typed(spec: Fields) -> Iterator[tuple[str, Fields]]:
    for type_, inner in (spec.take("tfReplicaSpecs", dict) or {}).items():
        holder = Fields({type_: inner}, spec.at("tfReplicaSpecs"), spec.problems)
        yield str(type_).lower(), holder.inner(type_)
    for at, entry in enumerate(spec.take("replicaSpecs", list) or ()):
        holder = Fields({"entry": entry}, "spec", spec.problems)
        inner = holder.take("entry", dict) or {}
        fields = Fields(_first_letters_lowered(inner), f"spec.replicaSpecs[{at}]", spec.problems)
        yield (fields.take("tfReplicaType", str) or "MASTER").lower(), fields


def _first_letters_lowered(obj: Json) -> Json:
    """``replicaSpecs`` for ``ReplicaSpecs``: the documents of the first version write its fields so."""
    return {name[:1].lower() + name[1:]: value for name, value in obj.items()}


def _replica(type_: str, fields: Fields) -> Replica:
    count, restart = fields.count("replicas"), fields.word("restartPolicy", _RESTARTS, "Never")
    if restart == "ExitCode":
        fields.complain(
            forbidden(
                fields.at("restartPolicy"),
                "a Framework does not retry by exit code; write OnFailure or Never",
            )
        )
    template, older_port = fields.take("template", dict), fields.count("tfPort")
    if template is None:
        fields.complain(required(fields.at("template"), "it is the pod of each replica"))
        template = {}
    metadata = Fields(template, fields.at("template"), fields.problems).inner("metadata")
    for marks in ("labels", "annotations"):
        metadata.take(marks, dict)
    port = _port_in(template, fields)
    fields.finish()
    return Replica(type_, 1 if count is None else count, restart, template, port or older_port or PORT)


def _port_in(template: Json, fields: Fields) -> int | None:
    """The port that the container of TensorFlow names for its peers; None if it names none."""
    match template.get("spec"):
        case {"containers": [*containers]} if found := [each for each in containers if is_main(each)]:
            ports = objects_in(found[0].get("ports"))
            return next((each.get("containerPort") for each in ports if each.get("name") == PORT_NAME), None)
        case _:
            fields.complain(
                required(fields.at("template.spec.containers"), f"one of them has to be called {CONTAINER}")
            )
            return None


def is_main(container: Any) -> bool:
    """Whether that is the container of TensorFlow."""
    return isinstance(container, dict) and container.get("name") == CONTAINER


def objects_in(value: Any) -> list[Json]:
    """The objects in a list; whatever else is there, the rules for pods refuse."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
