"""Whether a Framework or job may be stored, and with which defaults: in a cluster just as by our own API."""

from dataclasses import dataclass
from enum import StrEnum

from launcher.api.errors import Target, status_of
from launcher.api.frameworks import FrameworkRules
from launcher.api.jobs import JobRules
from launcher.api.keeping import Rules
from launcher.api.options import Validation
from launcher.api.policy import Policy
from launcher.api.webhook.difference import difference
from launcher.api.writing import without_findings
from launcher.core.checking.podrules import part
from launcher.core.checking.schema import has_shape
from launcher.core.defaults import defaulted
from launcher.core.errors import InvalidObject, RequestError
from launcher.core.reading.decode import too_deep
from launcher.core.replicas import followed, scalable
from launcher.core.validate import warnings_in
from launcher.jobs.foreign import FOREIGN, noted
from launcher.store.port import FRAMEWORKS, Kind, Object


class Operation(StrEnum):
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
    kind: Kind = FRAMEWORKS


@dataclass(frozen=True, slots=True)
class Verdict:
    """Yes, with what is to be changed and what to be told; or no, as a Status that says why."""

    refusal: Object | None = None
    patch: tuple[Object, ...] = ()
    warnings: tuple[str, ...] = ()


_YES = Verdict()


class Judge:
    """Looks at objects on their way into a cluster. It keeps nothing and changes nothing, dry run or not."""

    def __init__(self, policy: Policy) -> None:
        self._rules: dict[Kind, Rules] = {FRAMEWORKS: FrameworkRules(policy)}
        for foreign in FOREIGN:
            self._rules |= {kind: JobRules(kind, foreign, policy) for kind in foreign.kinds}

    def validated(self, request: Request) -> Verdict:
        """No, if a rule is broken: the same answer that our own API gives."""
        try:
            if _leaves_it(request):
                return _YES
            return Verdict(warnings=self._warnings(request))
        except RequestError as error:
            _, status = status_of(error, Target(request.kind, _name(request)), patching=request.patching)
            return Verdict(refusal=status)

    def defaulted(self, request: Request) -> Verdict:
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
        later = warnings_in(whole)
        return Verdict(
            patch=patch, warnings=tuple(text for text in warnings_in(request.object) if text not in later)
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


def _noted(request: Request) -> Verdict:
    """A new job has nothing to be written out but the version that it is written in."""
    metadata = request.object.get("metadata")
    if request.old is not None or not isinstance(metadata, dict):
        return _YES
    new = noted(request.kind, request.object)["metadata"]
    return Verdict(patch=tuple(difference(metadata, new, "/metadata")))


def _whole(request: Request) -> Object:
    """The object, which has the shape of a Framework, with nothing left open, and with a scale if it can have one."""
    return scalable(
        defaulted(request.object if request.old is None else followed(request.object, request.old))
    )


def _leaves_it(request: Request) -> bool:
    """
    Whether the wish is left as it is, or about to go with its object.

    Then it passes, whatever it is: a label, an owner or a finalizer must come off an object that today's rules would
    refuse, or it could never be deleted, nor could its namespace.
    """
    if part(request.object.get("metadata")).get("deletionTimestamp"):
        return True
    if request.old is None:
        return False
    try:
        return bool(request.object.get("spec") == request.old.get("spec"))
    except RecursionError as error:
        raise too_deep() from error


def _name(request: Request) -> str:
    metadata = part(request.object.get("metadata"))
    return str(metadata.get("name") or metadata.get("generateName") or "")
