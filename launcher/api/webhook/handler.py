"""The admission webhook: AdmissionReviews of a kube-apiserver, read and answered."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from launcher.api.http.request_body import body_of
from launcher.api.http.request_options import Validation
from launcher.api.http.warnings import shortened
from launcher.api.webhook.admission import AdmissionHandler, AdmissionOperation, AdmissionResponse, Request
from launcher.core.errors import BadRequest
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from launcher.core.validation.admission_policy import Policy
from launcher.core.validation.field_errors import quote_value
from launcher.core.validation.pod_template import as_object
from launcher.job_kinds.job_kind import FOREIGN
from launcher.store.interface import FRAMEWORKS, Object, ResourceKind

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
#: A Framework and the one before it, each as large as can be, and what is told around them.
_MOST_BYTES = 2 * MAX_BODY_BYTES + 256 * 1024


class Webhook:
    """Answers a kube-apiserver that asks about Frameworks and jobs. It has no side effects and needs no credentials."""

    def __init__(self, policy: Policy) -> None:
        self._judge = AdmissionHandler(policy)

    def add_to(self, app: web.Application) -> None:
        """Let *app*, which tells errors as a Status, answer at the paths of the webhook."""
        app.router.add_post("/admission/validate", self.validate)
        app.router.add_post("/admission/mutate", self.mutate)

    async def validate(self, request: web.Request) -> web.Response:
        """``POST /admission/validate``: may it be stored?"""
        return await _answer(request, self._judge.validated)

    async def mutate(self, request: web.Request) -> web.Response:
        """``POST /admission/mutate``: what is to be written out before it is stored?"""
        return await _answer(request, self._judge.defaulted)


async def _answer(request: web.Request, judge: Callable[[Request], AdmissionResponse]) -> web.Response:
    asked = _asked(await body_of(request, _MOST_BYTES))
    about = _about(asked)
    verdict = AdmissionResponse() if about is None else judge(about)
    review = {"apiVersion": API_VERSION, "kind": KIND, "response": _response(asked["uid"], verdict)}
    return web.Response(body=orjson.dumps(review), content_type="application/json")


def _asked(data: bytes) -> Object:
    """The request of the review in a body. Raises BadRequest."""
    try:
        review = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    version, kind = as_object(review).get("apiVersion"), as_object(review).get("kind")
    if version != API_VERSION or kind != KIND:
        raise BadRequest(
            f"here only a kube-apiserver asks, by an {KIND} of {API_VERSION}; "
            f"this is of kind {_shown(kind)} and apiVersion {_shown(version)}"
        )
    asked = review.get("request")
    if not isinstance(asked, dict):
        raise BadRequest("request: missing: it has to be an object that says what is to be reviewed")
    if not isinstance(asked.get("uid"), str) or not asked["uid"]:
        raise BadRequest("request.uid: missing: without it no answer can be told from others")
    return asked


def _about(asked: Object) -> Request | None:
    """What is to be looked at; None when it is a deletion or a part of its own. Raises BadRequest."""
    kind = _kind(as_object(asked.get("resource")))
    operation = asked.get("operation")
    if asked.get("subResource") or operation not in list(AdmissionOperation):
        return None
    obj, old = asked.get("object"), asked.get("oldObject")
    if not isinstance(obj, dict):
        raise BadRequest(f"request.object: missing: {operation} has to come with an object")
    options = as_object(asked.get("options"))
    return Request(
        object=_wish(obj),
        old=_wish(old) if operation == AdmissionOperation.UPDATE and isinstance(old, dict) else None,
        validation=_validation(options.get("fieldValidation")),
        # Only an apply may be forced, and what is wrong with that is told as of an object written whole.
        patching=options.get("kind") == "PatchOptions" and "force" not in options,
        kind=kind,
    )


def _kind(resource: Object) -> ResourceKind:
    """Which of the kinds that there are rules for is asked about. Raises BadRequest when it is none of them."""
    group, version, plural = (resource.get(name) for name in ("group", "version", "resource"))
    if (group, plural) == (FRAMEWORKS.group, FRAMEWORKS.plural):
        return FRAMEWORKS
    for foreign in FOREIGN:
        for kind in foreign.kinds:
            if (group, version, plural) == (kind.group, kind.version, kind.plural):
                return kind
    known = " and ".join((FRAMEWORKS.resource, *(foreign.kind.resource for foreign in FOREIGN)))
    raise BadRequest(
        f"request.resource: this webhook knows {known} alone: name no other in the rules of its configuration"
    )


def _wish(obj: Object) -> Object:
    """The object without what its users do not write, which is often most of it."""
    wish = {name: value for name, value in obj.items() if name != "status"}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        wish["metadata"] = {name: value for name, value in metadata.items() if name != "managedFields"}
    return wish


def _validation(said: Any) -> Validation:
    return Validation(said) if said in list(Validation) else Validation.WARN


def _response(uid: str, verdict: AdmissionResponse) -> Object:
    response: Object = {"uid": uid, "allowed": verdict.refusal is None}
    if verdict.refusal is not None:
        response["status"] = verdict.refusal
    if verdict.warnings:
        response["warnings"] = shortened(verdict.warnings)
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(orjson.dumps(verdict.patch)).decode()
    return response


def _shown(value: Any) -> str:
    return "missing" if value is None else quote_value(value)
