"""The admission webhook: handles AdmissionReviews of kube-apiserver."""

from base64 import b64encode
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from launcher.api.http.request_body import read_body
from launcher.api.http.request_options import FieldValidation
from launcher.api.http.warnings import truncate_warnings
from launcher.api.webhook.admission import (
    AdmissionHandler,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)
from launcher.core.errors import BadRequest
from launcher.core.json_access import as_object
from launcher.core.parsing.decoder import MAX_BODY_BYTES
from launcher.core.validation.admission_policy import AdmissionPolicy
from launcher.core.validation.field_errors import quote_value
from launcher.job_kinds.job_kind import JOB_KINDS
from launcher.store.interface import FRAMEWORKS, Object, ResourceKind

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
#: Two objects of the maximum size, and the other fields of the review.
_MAX_REVIEW_BYTES = 2 * MAX_BODY_BYTES + 256 * 1024


class Webhook:
    """Reviews Frameworks and jobs for kube-apiserver. It has no side effects and needs no credentials."""

    def __init__(self, policy: AdmissionPolicy) -> None:
        self._handler = AdmissionHandler(policy)

    def add_to(self, app: web.Application) -> None:
        """Adds the routes of the webhook to *app*."""
        app.router.add_post("/admission/validate", self.validate)
        app.router.add_post("/admission/mutate", self.mutate)

    async def validate(self, request: web.Request) -> web.Response:
        """``POST /admission/validate``: allows or denies an object."""
        return await _respond(request, self._handler.validate)

    async def mutate(self, request: web.Request) -> web.Response:
        """``POST /admission/mutate``: sets the defaults of an object."""
        return await _respond(request, self._handler.mutate)


async def _respond(
    request: web.Request, handle: Callable[[AdmissionRequest], AdmissionResponse]
) -> web.Response:
    fields = _review_request(await read_body(request, _MAX_REVIEW_BYTES))
    admission = _admission_request(fields)
    result = AdmissionResponse() if admission is None else handle(admission)
    review = {"apiVersion": API_VERSION, "kind": KIND, "response": _response(fields["uid"], result)}
    return web.Response(body=orjson.dumps(review), content_type="application/json")


def _review_request(data: bytes) -> Object:
    """Returns the request of the review in a body. Raises BadRequest."""
    try:
        review = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from error
    version, kind = as_object(review).get("apiVersion"), as_object(review).get("kind")
    if version != API_VERSION or kind != KIND:
        raise BadRequest(
            f"the body must be an {KIND} of {API_VERSION}, not kind {_quoted(kind)} of apiVersion {_quoted(version)}"
        )
    fields = review.get("request")
    if not isinstance(fields, dict):
        raise BadRequest("request: Required value: must be an object")
    if not isinstance(fields.get("uid"), str) or not fields["uid"]:
        raise BadRequest("request.uid: Required value")
    return fields


def _admission_request(fields: Object) -> AdmissionRequest | None:
    """Returns the reviewed request, or None for a deletion or a subresource. Raises BadRequest."""
    kind = _kind(as_object(fields.get("resource")))
    operation = fields.get("operation")
    if fields.get("subResource") or operation not in list(AdmissionOperation):
        return None
    obj, old = fields.get("object"), fields.get("oldObject")
    if not isinstance(obj, dict):
        raise BadRequest(f"request.object: Required value: must be set for {operation}")
    options = as_object(fields.get("options"))
    return AdmissionRequest(
        object=_reviewed_fields(obj),
        old=_reviewed_fields(old)
        if operation == AdmissionOperation.UPDATE and isinstance(old, dict)
        else None,
        validation=_validation(options.get("fieldValidation")),
        # Only an apply has force, and its errors have the format of a whole object's.
        patching=options.get("kind") == "PatchOptions" and "force" not in options,
        kind=kind,
    )


def _kind(resource: Object) -> ResourceKind:
    """Returns the reviewed kind. Raises BadRequest for kinds without rules."""
    group, version, plural = (resource.get(name) for name in ("group", "version", "resource"))
    if (group, plural) == (FRAMEWORKS.group, FRAMEWORKS.plural):
        return FRAMEWORKS
    for job_kind in JOB_KINDS:
        for kind in job_kind.kinds:
            if (group, version, plural) == (kind.group, kind.version, kind.plural):
                return kind
    supported = ", ".join((FRAMEWORKS.resource, *(job_kind.kind.resource for job_kind in JOB_KINDS)))
    raise BadRequest(
        f"request.resource: Unsupported value: this webhook reviews only {supported}; correct the rules of its "
        "configuration"
    )


def _reviewed_fields(obj: Object) -> Object:
    """Returns the object without the status and managedFields, which are often most of it."""
    result = {name: value for name, value in obj.items() if name != "status"}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        result["metadata"] = {name: value for name, value in metadata.items() if name != "managedFields"}
    return result


def _validation(value: Any) -> FieldValidation:
    return FieldValidation(value) if value in list(FieldValidation) else FieldValidation.WARN


def _response(uid: str, result: AdmissionResponse) -> Object:
    response: Object = {"uid": uid, "allowed": result.denial is None}
    if result.denial is not None:
        response["status"] = result.denial
    if result.warnings:
        response["warnings"] = truncate_warnings(result.warnings)
    if result.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(orjson.dumps(result.patch)).decode()
    return response


def _quoted(value: Any) -> str:
    return "missing" if value is None else quote_value(value)
