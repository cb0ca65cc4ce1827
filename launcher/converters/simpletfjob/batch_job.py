"""One task's own object, a batch Job or a bare Pod, as a part of a Framework: its pod, and how often it is retried."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.converters.conversion import NO_COUNTERPART
from launcher.core.errors import FieldError
from launcher.core.validation.field_errors import forbidden, invalid, required, type_invalid, unsupported

Json = dict[str, Any]

JOB, POD = ("batch/v1", "Job"), ("v1", "Pod")
#: Kubernetes' own number of retries for a Job that names none.
_BACKOFF_LIMIT = 6
_TOP = frozenset({"apiVersion", "kind", "metadata", "spec"})
_METADATA = frozenset({"name", "namespace", "labels", "annotations", "creationTimestamp"})
#: Of a Job's spec, what a Framework has for all of its tasks together.
_WHOLE = ("activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend")
#: And what may be there if it says what is so in any case.
_GIVEN: Mapping[str, Any] = {"completions": 1, "parallelism": 1, "completionMode": "NonIndexed"}
_JOB_SPEC = frozenset({"template", "backoffLimit", *_WHOLE, *_GIVEN})


@dataclass(frozen=True, slots=True)
class TaskObject:
    """What one object brings into the Framework."""

    metadata: Mapping[str, Any]
    pod: Json
    #: How often a task that failed is tried again.
    retries: int = 0
    #: What has to be the same in every part, because the Framework has it only once.
    whole: Mapping[str, Any] | None = None
    #: A container that failed was to be started again in its pod.
    restarts_in_place: bool = False


def part_of(obj: Json) -> TaskObject | tuple[FieldError, ...]:
    """What the Job or Pod brings, or all that keeps it from being a task."""
    problems = tuple(_problems_in(obj))
    if problems:
        return problems
    return _of_job(obj) if (obj["apiVersion"], obj["kind"]) == JOB else _of_pod(obj)


def _of_job(obj: Json) -> TaskObject:
    spec, metadata = obj["spec"], obj["metadata"]
    template = spec["template"]
    limit = spec.get("backoffLimit")
    return TaskObject(
        metadata,
        # Retries are counted by the launcher, as backoffLimit counts them: in place they would never end.
        {**_pod_metadata(template), "spec": {**template["spec"], "restartPolicy": "Never"}},
        _BACKOFF_LIMIT if limit is None else limit,
        {field: spec[field] for field in _WHOLE if spec.get(field) is not None},
        restarts_in_place=template["spec"]["restartPolicy"] == "OnFailure",
    )


def _of_pod(obj: Json) -> TaskObject:
    return TaskObject(
        {key: value for key, value in obj["metadata"].items() if key in ("name", "namespace")},
        {**_pod_metadata(obj), "spec": obj["spec"]},
    )


def _pod_metadata(template: Json) -> Json:
    metadata = template.get("metadata") or {}
    kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
    return {"metadata": kept} if kept else {}


def _problems_in(obj: Json) -> Iterator[FieldError]:
    yield from _unmapped(obj, _TOP, "")
    yield from _shape(obj, "metadata")
    yield from _shape(obj, "spec")
    metadata, spec = obj.get("metadata"), obj.get("spec")
    if isinstance(metadata, dict):
        yield from _unmapped(metadata, _METADATA, "metadata.")
        yield from _mark_problems(metadata, "metadata.")
        if not isinstance(metadata.get("name"), str):
            yield required("metadata.name", "it tells what the Framework is called")
    if isinstance(spec, dict) and obj["kind"] == JOB[1]:
        yield from _job_problems(spec)


def _job_problems(spec: Json) -> Iterator[FieldError]:
    yield from _unmapped(spec, _JOB_SPEC, "spec.")
    for field, value in _GIVEN.items():
        if spec.get(field) not in (None, value):
            yield invalid(f"spec.{field}", spec[field], f"must be {value}: each task has a Job of its own")
    limit = spec.get("backoffLimit")
    if limit is not None and (type(limit) is not int or limit < 0):
        yield invalid("spec.backoffLimit", limit, "must be a number of at least 0")
    yield from _shape(spec, "template", "spec.")
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    yield from _unmapped(template, frozenset({"metadata", "spec"}), "spec.template.")
    if (metadata := template.get("metadata")) is not None:
        yield from _shape(template, "metadata", "spec.template.")
    if isinstance(metadata, dict):
        yield from _mark_problems(metadata, "spec.template.metadata.")
    yield from _shape(template, "spec", "spec.template.")
    pod = template.get("spec")
    if isinstance(pod, dict) and pod.get("restartPolicy") not in ("Never", "OnFailure"):
        field = "spec.template.spec.restartPolicy"
        if pod.get("restartPolicy") is None:
            yield required(field, "a Job's pods are Never or OnFailure")
        else:
            yield unsupported(field, pod["restartPolicy"], ("Never", "OnFailure"))


def _mark_problems(metadata: Json, within: str) -> Iterator[FieldError]:
    for field in ("labels", "annotations"):
        if metadata.get(field) is not None:
            yield from _shape(metadata, field, within)


def _shape(obj: Json, field: str, within: str = "") -> Iterator[FieldError]:
    value = obj.get(field)
    if value is None:
        yield required(within + field)
    elif not isinstance(value, dict):
        yield type_invalid(within + field, value, "must be an object")


def _unmapped(obj: Json, known: frozenset[str], within: str) -> Iterator[FieldError]:
    for field in obj.keys() - known:
        yield forbidden(within + field, NO_COUNTERPART)
