"""Admission of Frameworks and jobs in a cluster: validation and defaults, the same as in local mode."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from launcher.api.http.request_options import FieldValidation
from launcher.api.http.status import ErrorTarget, status_of
from launcher.api.resources.writes import without_field_warnings
from launcher.api.validation.manifest_strategies import manifest_strategies
from launcher.core.defaults import with_defaults
from launcher.core.errors import InvalidObject, RequestError
from launcher.core.json_access import as_object
from launcher.core.parsing.decoder import too_deep
from launcher.core.replicas import reconcile_replicas, with_replicas
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.framework import validation_warnings
from launcher.core.validation.schema import matches_schema
from launcher.job_kinds.job_kind import annotate_written_version
from launcher.store.interface import FRAMEWORKS, Object, ResourceKind


def json_patch(old: Any, new: Any, path: str = "") -> Iterator[Object]:
    """
    Yields the operations of a JSON patch (RFC 6902) from *old* to *new*.

    A list of another length is replaced.
    """
    # First, since unchanged values are mostly the same object.
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _object_patch(old, new, path)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from json_patch(before, after, f"{path}/{index}")
    elif type(old) is not type(new) or old != new:  # 1 == True in Python
        yield {"op": "replace", "path": path, "value": new}


def _object_patch(old: Object, new: Object, path: str) -> Iterator[Object]:
    for name in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in new.items():
        field = f"{path}/{_escaped(name)}"
        if name in old:
            yield from json_patch(old[name], value, field)
        else:
            yield {"op": "add", "path": field, "value": value}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class AdmissionOperation(StrEnum):
    """The reviewed operations; all others are allowed."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """A Framework or job to be stored, without its status, and the object that it replaces."""

    object: Object
    old: Object | None
    validation: FieldValidation
    #: Whether the object is the result of a patch, which changes the format of errors.
    patching: bool
    kind: ResourceKind = FRAMEWORKS


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """Allowed, with a patch and warnings; or denied, with a Status."""

    denial: Object | None = None
    patch: tuple[Object, ...] = ()
    warnings: tuple[str, ...] = ()


_ALLOWED = AdmissionResponse()


class AdmissionHandler:
    """Reviews objects before a cluster stores them. It has no state and no side effects."""

    def __init__(self, policy: AdmissionPolicy) -> None:
        self._strategies = manifest_strategies(policy)

    def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Returns a denial if a rule is violated, with the same Status as in local mode."""
        try:
            if _is_exempt(request):
                return _ALLOWED
            return AdmissionResponse(warnings=self._validate(request))
        except RequestError as error:
            _, status = status_of(error, ErrorTarget(request.kind, _name(request)), patching=request.patching)
            return AdmissionResponse(denial=status)

    def mutate(self, request: AdmissionRequest) -> AdmissionResponse:
        """
        Returns a patch that sets the defaults.

        Invalid objects are allowed: ``validate`` denies them after all other webhooks have made their changes.
        """
        if request.kind != FRAMEWORKS:
            return _mutate_job(request)
        try:
            if _is_exempt(request) or not matches_schema(request.object):
                return _ALLOWED
        except RequestError:
            return _ALLOWED
        complete = _with_defaults(request)
        patch = tuple(json_patch(request.object["spec"], complete["spec"], "/spec"))
        if not patch:
            return _ALLOWED
        # Validation only sees the defaulted object, so warnings about the submitted one are reported here.
        remaining = validation_warnings(complete)
        return AdmissionResponse(
            patch=patch,
            warnings=tuple(text for text in validation_warnings(request.object) if text not in remaining),
        )

    def _validate(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Returns the warnings. Raises InvalidObject, BadRequest."""
        old, strategy = request.old, self._strategies[request.kind]
        if old is not None and request.kind == FRAMEWORKS and not matches_schema(old):
            # Stored while the webhook was unavailable: it cannot be compared.
            old = None
        is_strict = request.validation is FieldValidation.STRICT
        manifest = strategy.validate(request.object, old, strict=is_strict)
        if request.old is None:
            errors = strategy.creation_errors(manifest.object)
        else:
            errors = () if old is None else strategy.update_errors(old, manifest.object)
        if errors:
            raise InvalidObject(tuple(errors))
        if request.validation is FieldValidation.IGNORE:
            return without_field_warnings(manifest.warnings)
        return manifest.warnings


def _mutate_job(request: AdmissionRequest) -> AdmissionResponse:
    """Records the version in which a new job is written."""
    metadata = request.object.get("metadata")
    if request.old is not None or not isinstance(metadata, dict):
        return _ALLOWED
    new = annotate_written_version(request.kind, request.object)["metadata"]
    return AdmissionResponse(patch=tuple(json_patch(metadata, new, "/metadata")))


def _with_defaults(request: AdmissionRequest) -> Object:
    """Returns the Framework with all defaults, and with replicas if it can be scaled."""
    return with_replicas(
        with_defaults(
            request.object if request.old is None else reconcile_replicas(request.object, request.old)
        )
    )


def _is_exempt(request: AdmissionRequest) -> bool:
    """
    Whether the spec is unchanged or the object is being deleted.

    Such a request is always allowed: labels, owners and finalizers of an object that the current rules would deny must
    be removable, or neither the object nor its namespace could be deleted.
    """
    if as_object(request.object.get("metadata")).get("deletionTimestamp"):
        return True
    if request.old is None:
        return False
    try:
        return bool(request.object.get("spec") == request.old.get("spec"))
    except RecursionError as error:
        raise too_deep() from error


def _name(request: AdmissionRequest) -> str:
    metadata = as_object(request.object.get("metadata"))
    return str(metadata.get("name") or metadata.get("generateName") or "")
