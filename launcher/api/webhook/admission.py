"""Whether a Framework or job may be stored, and with which defaults: in a cluster just as by our own API."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from launcher.api.http.request_options import Validation
from launcher.api.http.status import ErrorTarget, status_of
from launcher.api.resources.registry import ResourceStrategy
from launcher.api.resources.writes import without_findings
from launcher.api.validation.frameworks import FrameworkRules
from launcher.api.validation.jobs import JobRules
from launcher.core.defaults import defaulted
from launcher.core.errors import InvalidObject, RequestError
from launcher.core.parsing.decoder import too_deep
from launcher.core.replicas import reconcile_replicas, with_replicas
from launcher.core.validation.admission_policy import Policy
from launcher.core.validation.framework import validation_warnings
from launcher.core.validation.pod_template import as_object
from launcher.core.validation.schema import has_shape
from launcher.job_kinds.job_kind import FOREIGN, noted
from launcher.store.interface import FRAMEWORKS, Object, ResourceKind


def difference(old: Any, new: Any, path: str = "") -> Iterator[Object]:
    """
    Operations of a JSON patch (RFC 6902) that make *new* of *old*, as small as these are alike.

    A list of another length is replaced whole.
    """
    # First, since what nobody has touched is most often the very same object.
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _between_objects(old, new, path)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from difference(before, after, f"{path}/{index}")
    elif type(old) is not type(new) or old != new:  # for Python, 1 and True are equal
        yield {"op": "replace", "path": path, "value": new}


def _between_objects(old: Object, new: Object, path: str) -> Iterator[Object]:
    for name in old.keys() - new.keys():
        yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in new.items():
        place = f"{path}/{_escaped(name)}"
        if name in old:
            yield from difference(old[name], value, place)
        else:
            yield {"op": "add", "path": place, "value": value}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class AdmissionOperation(StrEnum):
    """What is done to an object; everything else is none of our business."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"


@dataclass(frozen=True, slots=True)
class Request:
    """A Framework or job that somebody wants to have stored, without its status, and the one whose place it takes."""

    object: Object
    old: Object | None
    validation: Validation
    #: Whether the object is what a patch has made of the old one, which is told otherwise.
    patching: bool
    kind: ResourceKind = FRAMEWORKS


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """Yes, with what is to be changed and what to be told; or no, as a Status that says why."""

    refusal: Object | None = None
    patch: tuple[Object, ...] = ()
    warnings: tuple[str, ...] = ()


_YES = AdmissionResponse()


class AdmissionHandler:
    """Looks at objects on their way into a cluster. It keeps nothing and changes nothing, dry run or not."""

    def __init__(self, policy: Policy) -> None:
        self._rules: dict[ResourceKind, ResourceStrategy] = {FRAMEWORKS: FrameworkRules(policy)}
        for foreign in FOREIGN:
            self._rules |= {kind: JobRules(kind, foreign, policy) for kind in foreign.kinds}

    def validated(self, request: Request) -> AdmissionResponse:
        """No, if a rule is broken: the same answer that our own API gives."""
        try:
            if _leaves_it(request):
                return _YES
            return AdmissionResponse(warnings=self._warnings(request))
        except RequestError as error:
            _, status = status_of(error, ErrorTarget(request.kind, _name(request)), patching=request.patching)
            return AdmissionResponse(refusal=status)

    def defaulted(self, request: Request) -> AdmissionResponse:
        """
        Yes, with a patch that writes out the defaults, empty if they are there.

        Also for what is wrong: what that is tells ``validated``, when others have made their changes, too.
        """
        if request.kind != FRAMEWORKS:
            return _noted(request)
        try:
            if _leaves_it(request) or not has_shape(request.object):
                return _YES
        except RequestError:
            return _YES
        whole = _whole(request)
        patch = tuple(difference(request.object["spec"], whole["spec"], "/spec"))
        if not patch:
            return _YES
        # What comes to be validated is already as it should be, so only here it can be seen what was written.
        later = validation_warnings(whole)
        return AdmissionResponse(
            patch=patch,
            warnings=tuple(text for text in validation_warnings(request.object) if text not in later),
        )

    def _warnings(self, request: Request) -> tuple[str, ...]:
        """What is legal but hardly meant. Raises InvalidObject, BadRequest."""
        old, rules = request.old, self._rules[request.kind]
        if old is not None and request.kind == FRAMEWORKS and not has_shape(old):
            # It got in while nobody looked. There is nothing in it to go by.
            old = None
        manifest = rules.check(request.object, old, strict=request.validation is Validation.STRICT)
        if request.old is None:
            problems = rules.creation_problems(manifest.object)
        else:
            problems = () if old is None else rules.change_problems(old, manifest.object)
        if problems:
            raise InvalidObject(tuple(problems))
        if request.validation is Validation.IGNORE:
            return without_findings(manifest.warnings)
        return manifest.warnings


def _noted(request: Request) -> AdmissionResponse:
    """A new job has nothing to be written out but the version that it is written in."""
    metadata = request.object.get("metadata")
    if request.old is not None or not isinstance(metadata, dict):
        return _YES
    new = noted(request.kind, request.object)["metadata"]
    return AdmissionResponse(patch=tuple(difference(metadata, new, "/metadata")))


def _whole(request: Request) -> Object:
    """The object, which has the shape of a Framework, with nothing left open, and with a scale if it can have one."""
    return with_replicas(
        defaulted(request.object if request.old is None else reconcile_replicas(request.object, request.old))
    )


def _leaves_it(request: Request) -> bool:
    """
    Whether the wish is left as it is, or about to go with its object.

    Then it passes, whatever it is: a label, an owner or a finalizer must come off an object that today's rules would
    refuse, or it could never be deleted, nor could its namespace.
    """
    if as_object(request.object.get("metadata")).get("deletionTimestamp"):
        return True
    if request.old is None:
        return False
    try:
        return bool(request.object.get("spec") == request.old.get("spec"))
    except RecursionError as error:
        raise too_deep() from error


def _name(request: Request) -> str:
    metadata = as_object(request.object.get("metadata"))
    return str(metadata.get("name") or metadata.get("generateName") or "")
