"""Every no, in one shape: whatever was raised becomes a Kubernetes Status, and nothing else leaves the server."""

import logging
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.http.api_group_alias import to_external
from launcher.api.http.content_negotiation import is_pretty
from launcher.api.http.request_body import APPLY, content_type
from launcher.core.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Expired,
    FieldError,
    Forbidden,
    InvalidObject,
    LauncherError,
    NotFound,
    OutcomeUnknown,
    StoreCorrupted,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from launcher.core.validation.field_errors import DUPLICATE_FIELD, UNKNOWN_FIELD
from launcher.store.interface import Object, ResourceKind

log = logging.getLogger(__name__)

#: The HTTP code and the reason of each error; clients branch on the reason. One that is not here has its parent's.
STATUS: Mapping[type[LauncherError], tuple[int, str]] = {
    BadRequest: (400, "BadRequest"),
    Forbidden: (403, "Forbidden"),
    NotFound: (404, "NotFound"),
    AlreadyExists: (409, "AlreadyExists"),
    Conflict: (409, "Conflict"),
    Expired: (410, "Expired"),
    TooLarge: (413, "RequestEntityTooLarge"),
    InvalidObject: (422, "Invalid"),
    TooManyRequests: (429, "TooManyRequests"),
    StoreCorrupted: (500, "InternalError"),
    Unavailable: (503, "ServiceUnavailable"),
    OutcomeUnknown: (504, "Timeout"),
}
#: What the HTTP layer itself refuses.
_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_NAMES_RESOURCE = (NotFound, AlreadyExists, Conflict, Forbidden)
_STRICT = frozenset({UNKNOWN_FIELD, DUPLICATE_FIELD})
#: What may be said back to whoever says it.
_AUDIT_ID = re.compile(r"[\x21-\x7e]{1,128}")
#: What the server calls itself.
SERVER = "framework-launcher"


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """What a request is about."""

    kind: ResourceKind
    name: str = ""


_TARGET = web.RequestKey("target", ErrorTarget)


class InvalidOptions(InvalidObject):
    """The options of a request break rules: ``CreateOptions.meta.k8s.io "" is invalid: …``."""

    def __init__(
        self, kind: str, problems: tuple[FieldError, ...], *, group: str = "meta.k8s.io", name: str = ""
    ) -> None:
        super().__init__(problems)
        self.kind, self.group, self.name = kind, group, name


class NamespaceTerminating(Forbidden):
    """Nothing new can be made in a namespace that is being deleted."""

    def __init__(self, target: ErrorTarget, namespace: str) -> None:
        super().__init__(
            f'{target.kind.resource} "{target.name}" is forbidden: unable to create new content in namespace '
            f"{namespace} because it is being terminated"
        )
        self.namespace = namespace


class FieldConflict(Conflict):
    """An apply would change what others own: each field is told by a Problem."""

    def __init__(self, message: str, causes: tuple[FieldError, ...]) -> None:
        super().__init__(message)
        self.causes = causes


class ResourceVersionTooLarge(Unavailable):
    """The version asked for has not been reached yet."""


def set_error_target(request: web.Request, kind: ResourceKind, name: str = "") -> None:
    """From now on what goes wrong with *request* is told as being about that object."""
    request[_TARGET] = ErrorTarget(kind, name)


def status_of(
    error: LauncherError, target: ErrorTarget | None = None, *, patching: bool = False
) -> tuple[int, Object]:
    """The HTTP code and the Status that tell of *error*."""
    if isinstance(error, ResourceVersionTooLarge):
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        return 504, failure(504, "Timeout", str(error), {"causes": causes, "retryAfterSeconds": 1})
    code, reason = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    match error:
        case InvalidObject() if not patching and {each.reason for each in error.errors} <= _STRICT:
            text = ", ".join(problem.message for problem in error.errors)
            return 400, failure(400, "BadRequest", f"strict decoding error: {text}")
        case InvalidObject():
            return code, _invalid(error, target)
        case TooManyRequests():
            return code, failure(code, reason, str(error), {"retryAfterSeconds": ceil(error.retry_after)})
        case Expired(token=str() as token):
            return code, {**failure(code, reason, str(error)), "metadata": {"continue": token}}
        case StoreCorrupted():
            return code, internal_error()
        case OutcomeUnknown():
            return code, failure(code, reason, str(error))
        case Unavailable():
            return code, failure(code, reason, str(error), {"retryAfterSeconds": 1})
        case _:
            return code, failure(code, reason, str(error), _details(error, target))


def _details(error: LauncherError, target: ErrorTarget | None) -> Object:
    """What a program may want to know of *error* besides its reason."""
    if isinstance(error, FieldConflict):
        return {"causes": [_cause(problem) for problem in error.causes]}
    if target is None or not isinstance(error, _NAMES_RESOURCE):
        return {}
    kind = target.kind
    details: Object = {"name": target.name, "group": kind.group, "kind": kind.plural}
    if isinstance(error, NamespaceTerminating):
        message = f"namespace {error.namespace} is being terminated"
        cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
        details["causes"] = [cause]
    return {name: value for name, value in details.items() if value}


def failure(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> Object:
    """A Status that says no."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    told = {"details": dict(details)} if details else {}
    return {**status, "message": message, "reason": reason, **told, "code": code}


def internal_error() -> Object:
    """A Status that says no more than that it is our fault; the log says the rest."""
    message = "the server's log tells more"
    details = {"causes": [{"message": message}]}
    return failure(500, "InternalError", f"Internal error occurred: {message}", details)


def _invalid(error: InvalidObject, target: ErrorTarget | None) -> Object:
    kind, group, name = "", "", ""
    if isinstance(error, InvalidOptions):
        kind, group, name = error.kind, error.group, error.name
    elif target is not None:
        kind, group, name = target.kind.kind, target.kind.group, target.name
    causes = [_cause(problem) for problem in error.errors]
    if not any(problem.field for problem in error.errors):
        # Nothing about a field: a patch that does not fit, in words of its own.
        return failure(422, "Invalid", _listed(error.errors), {})
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    message = f'{kind}{"." if group else ""}{group} "{name}" is invalid: {_listed(error.errors)}'
    return failure(422, "Invalid", message, {key: value for key, value in details.items() if value})


def _cause(problem: FieldError) -> Object:
    return {"reason": problem.reason, "message": problem.message, "field": problem.field}


def _listed(problems: Sequence[FieldError]) -> str:
    texts = [str(problem) for problem in problems]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def status_response(request: web.BaseRequest, code: int, status: Object) -> web.Response:
    """*status* as an answer, in JSON whatever else was asked for."""
    told = to_external(request, status)
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if is_pretty(request) else 0)
    headers = {"Content-Type": "application/json"}
    if seconds := status.get("details", {}).get("retryAfterSeconds"):
        headers["Retry-After"] = str(seconds)
    return web.Response(status=code, body=orjson.dumps(told, option=option), headers=headers)


@web.middleware
async def errors_as_status(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with a Status whatever *handler* raises."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code, status = error.status, _of_http(request, error)
        headers = {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
    except LauncherError as error:
        if isinstance(error, StoreCorrupted):
            log.exception("the store needs its admin", extra={"path": request.path})
        target = request.get(_TARGET)
        patching = request.method == "PATCH" and content_type(request) != APPLY
        code, status = status_of(error, target, patching=patching)
        headers = {}
    except ConnectionError:
        raise  # the client is gone
    except Exception:
        log.exception("request failed", extra={"path": request.path, "method": request.method})
        code, status, headers = 500, internal_error(), {}
    if request.writer.output_size:
        # Part of another answer is out already: all that is left is to break it off.
        raise ConnectionResetError("the answer broke off")
    response = status_response(request, code, status)
    response.headers.update(headers)
    return response


def _of_http(request: web.Request, error: web.HTTPException) -> Object:
    message = error.text or error.reason
    if error.status == 404 and error.empty_body is False and message.startswith("404"):
        message = f"the server could not find the requested resource: there is nothing at {request.path}"
    elif message == f"{error.status}: {error.reason}":
        message = error.reason
    details = {}
    if "Retry-After" in error.headers:
        details["retryAfterSeconds"] = int(error.headers["Retry-After"])
    return failure(error.status, _REASONS.get(error.status, "Unknown"), message, details)


async def common_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Give *response* what every answer carries."""
    response.headers["Server"] = SERVER
    response.headers.setdefault("Cache-Control", "no-cache, private")
    given = request.headers.get("Audit-Id", "")
    response.headers.setdefault("Audit-Id", given if _AUDIT_ID.fullmatch(given) else str(uuid.uuid4()))
