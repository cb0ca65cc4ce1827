"""Errors as responses: every exception becomes a Kubernetes Status."""

import logging
import re
import uuid

from aiohttp import web
from aiohttp.typedefs import Handler

from launcher.api.http.request_body import content_type
from launcher.api.http.request_types import APPLY
from launcher.api.http.status import (
    SERVER,
    error_target,
    failure_status,
    internal_error_status,
    status_of,
    status_response,
)
from launcher.core.errors import LauncherError, StoreCorrupted
from launcher.store.interface import Object

log = logging.getLogger(__name__)

#: Reasons of errors that aiohttp raises.
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
#: Audit IDs of clients that are copied into the response.
_AUDIT_ID = re.compile(r"[\x21-\x7e]{1,128}")


@web.middleware
async def errors_as_status(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Responds with a Status to any error of *handler*."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        code, status = error.status, _of_http(request, error)
        headers = {name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers}
    except LauncherError as error:
        if isinstance(error, StoreCorrupted):
            log.exception("store corrupted or locked", extra={"path": request.path})
        target = error_target(request)
        patching = request.method == "PATCH" and content_type(request) != APPLY
        code, status = status_of(error, target, patching=patching)
        headers = {}
    except ConnectionError:
        raise  # the client closed the connection
    except Exception:
        log.exception("request failed", extra={"path": request.path, "method": request.method})
        code, status, headers = 500, internal_error_status(), {}
    if request.writer.output_size:
        # Part of a response has been sent: closing the connection is the only way to report the error.
        raise ConnectionResetError("the response was interrupted")
    response = status_response(request, code, status)
    response.headers.update(headers)
    return response


def _of_http(request: web.Request, error: web.HTTPException) -> Object:
    message = error.text or error.reason
    if error.status == 404 and error.empty_body is False and message.startswith("404"):
        message = f"the server could not find the requested resource: {request.path}"
    elif message == f"{error.status}: {error.reason}":
        message = error.reason
    details = {}
    if "Retry-After" in error.headers:
        details["retryAfterSeconds"] = int(error.headers["Retry-After"])
    return failure_status(error.status, _REASONS.get(error.status, "Unknown"), message, details)


async def add_common_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Adds the headers that every response has."""
    response.headers["Server"] = SERVER
    response.headers.setdefault("Cache-Control", "no-cache, private")
    audit_id = request.headers.get("Audit-Id", "")
    response.headers.setdefault("Audit-Id", audit_id if _AUDIT_ID.fullmatch(audit_id) else str(uuid.uuid4()))
