"""Converts a batch Job or a Pod of one task to a part of a Framework."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import NO_COUNTERPART
from launcher.core.errors import FieldError
from launcher.core.validation.field_errors import forbidden, invalid, required, type_invalid, unsupported

Json = dict[str, Any]

JOB, POD = ("batch/v1", "Job"), ("v1", "Pod")
#: The default backoffLimit of Kubernetes.
_BACKOFF_LIMIT = 6
_TOP = frozenset({"apiVersion", "kind", "metadata", "spec"})
_METADATA = frozenset({"name", "namespace", "labels", "annotations", "creationTimestamp"})
#: Fields of a Job's spec that a Framework has once for all tasks.
_FRAMEWORK_FIELDS = ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend")
#: Fields that are allowed with these values only.
_FIXED_FIELDS: Mapping[str, Any] = {"completions": 1, "parallelism": 1, "completionMode": "NonIndexed"}
_JOB_SPEC = frozenset({"template", "backoffLimit", *_FRAMEWORK_FIELDS, *_FIXED_FIELDS})


@dataclass(frozen=True, slots=True)
class TaskObject:
    """The part of a Framework that one object defines."""

    metadata: Mapping[str, Any]
    pod: Json
    #: Maximum number of retries.
    retries: int = 0
    #: Fields that must be equal in all parts, since the Framework has them once.
    framework_fields: Mapping[str, Any] | None = None
    #: Failed containers are restarted in their pod.
    restarts_in_place: bool = False


def part_of(obj: Json) -> TaskObject | tuple[FieldError, ...]:
    """The part that the Job or Pod defines, or its errors."""
    errors = tuple(_errors_in(obj))
    if errors:
        return errors
    return _of_job(obj) if (obj["apiVersion"], obj["kind"]) == JOB else _of_pod(obj)


def _of_job(obj: Json) -> TaskObject:
    spec, metadata = obj["spec"], obj["metadata"]
    template = spec["template"]
    limit = spec.get("backoffLimit")
    return TaskObject(
        metadata,
        # The launcher counts retries, as backoffLimit does; restarts in place would be unlimited.
        {**_pod_metadata(template), "spec": {**template["spec"], "restartPolicy": "Never"}},
        _BACKOFF_LIMIT if limit is None else limit,
        {field: spec[field] for field in _FRAMEWORK_FIELDS if spec.get(field) is not None},
        restarts_in_place=template["spec"]["restartPolicy"] == "OnFailure",
    )


def _of_pod(obj: Json) -> TaskObject:
    return TaskObject(
        {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace")},
        {**_pod_metadata(obj), "spec": obj["spec"]},
    )


def _pod_metadata(template: Json) -> Json:
    metadata = template.get("metadata") or {}
    fields = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {"metadata": fields} if fields else {}


def _errors_in(obj: Json) -> Iterator[FieldError]:
    yield from _unsupported_fields(obj, _TOP, "")
    yield from _type_errors(obj, "metadata")
    yield from _type_errors(obj, "spec")
    metadata, spec = obj.get("metadata"), obj.get("spec")
    if isinstance(metadata, dict):
        yield from _unsupported_fields(metadata, _METADATA, "metadata.")
        yield from _metadata_errors(metadata, "metadata.")
        if not isinstance(metadata.get("name"), str):
            yield required("metadata.name", "must be set: it determines the name of the Framework")
    if isinstance(spec, dict) and obj["kind"] == JOB[1]:
        yield from _job_errors(spec)


def _job_errors(spec: Json) -> Iterator[FieldError]:
    yield from _unsupported_fields(spec, _JOB_SPEC, "spec.")
    for field, value in _FIXED_FIELDS.items():
        if spec.get(field) not in (None, value):
            yield invalid(f"spec.{field}", spec[field], f"must be {value}: each task has its own Job")
    limit = spec.get("backoffLimit")
    if limit is not None and (type(limit) is not int or limit < 0):
        yield invalid("spec.backoffLimit", limit, "must be an integer of at least 0")
    yield from _type_errors(spec, "template", "spec.")
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    yield from _unsupported_fields(template, frozenset({"metadata", "spec"}), "spec.template.")
    if (metadata := template.get("metadata")) is not None:
        yield from _type_errors(template, "metadata", "spec.template.")
    if isinstance(metadata, dict):
        yield from _metadata_errors(metadata, "spec.template.metadata.")
    yield from _type_errors(template, "spec", "spec.template.")
    pod = template.get("spec")
    if isinstance(pod, dict) and pod.get("restartPolicy") not in ("Never", "OnFailure"):
        field = "spec.template.spec.restartPolicy"
        if pod.get("restartPolicy") is None:
            yield required(field, "must be Never or OnFailure")
        else:
            yield unsupported(field, pod["restartPolicy"], ("Never", "OnFailure"))


def _metadata_errors(metadata: Json, within: str) -> Iterator[FieldError]:
    for field in ("labels", "annotations"):
        if metadata.get(field) is not None:
            yield from _type_errors(metadata, field, within)


def _type_errors(obj: Json, field: str, within: str = "") -> Iterator[FieldError]:
    value = obj.get(field)
    if value is None:
        yield required(within + field)
    elif not isinstance(value, dict):
        yield type_invalid(within + field, value, "must be an object")


def _unsupported_fields(obj: Json, supported: frozenset[str], within: str) -> Iterator[FieldError]:
    for field in obj.keys() - supported:
        yield forbidden(within + field, NO_COUNTERPART)
