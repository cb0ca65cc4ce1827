"""Kubernetes Status objects: the code, reason and details of each error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import orjson
from aiohttp import web

from launcher.api.http.content_negotiation import is_pretty
from launcher.api.http.version_conversion import to_requested
from launcher.core.api_status import STATUS
from launcher.core.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    FieldError,
    Forbidden,
    InvalidObject,
    LauncherError,
    NotFound,
    OutcomeUnknown,
    StoreCorrupted,
    TooManyRequests,
    Unavailable,
)
from launcher.core.validation.field_errors import DUPLICATE_FIELD, UNKNOWN_FIELD
from launcher.store.interface import Object, ResourceKind

_NAMES_RESOURCE = (NotFound, AlreadyExists, Conflict, Forbidden)
_STRICT = frozenset({UNKNOWN_FIELD, DUPLICATE_FIELD})
#: The Server header.
SERVER = "framework-launcher"


@dataclass(frozen=True, slots=True)
class ErrorTarget:
    """The object that a request names."""

    kind: ResourceKind
    name: str = ""


_TARGET = web.RequestKey("target", ErrorTarget)


class InvalidOptions(InvalidObject):
    """The options of a request are invalid: ``CreateOptions.meta.k8s.io "" is invalid: …``."""

    def __init__(
        self, kind: str, problems: tuple[FieldError, ...], *, group: str = "meta.k8s.io", name: str = ""
    ) -> None:
        super().__init__(problems)
        self.kind, self.group, self.name = kind, group, name


class NamespaceTerminating(Forbidden):
    """No object can be created in a namespace that is being deleted."""

    def __init__(self, target: ErrorTarget, namespace: str) -> None:
        super().__init__(
            f'{target.kind.resource} "{target.name}" is forbidden: unable to create new content in namespace '
            f"{namespace} because it is being terminated"
        )
        self.namespace = namespace


class FieldConflict(Conflict):
    """An apply would change fields of other managers; *causes* names each of them."""

    def __init__(self, message: str, causes: tuple[FieldError, ...]) -> None:
        super().__init__(message)
        self.causes = causes


class ResourceVersionTooLarge(Unavailable):
    """The requested resourceVersion has not been reached yet."""


def set_error_target(request: web.Request, kind: ResourceKind, name: str = "") -> None:
    """Sets the object that errors of *request* name."""
    request[_TARGET] = ErrorTarget(kind, name)


def error_target(request: web.Request) -> ErrorTarget | None:
    """Returns the object that errors of *request* name."""
    return request.get(_TARGET)


def status_of(
    error: LauncherError, target: ErrorTarget | None = None, *, patching: bool = False
) -> tuple[int, Object]:
    """Returns the HTTP code and the Status of *error*."""
    if isinstance(error, ResourceVersionTooLarge):
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        return 504, failure_status(504, "Timeout", str(error), {"causes": causes, "retryAfterSeconds": 1})
    code, reason = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    match error:
        case InvalidObject() if not patching and {each.reason for each in error.errors} <= _STRICT:
            text = ", ".join(problem.message for problem in error.errors)
            return 400, failure_status(400, "BadRequest", f"strict decoding error: {text}")
        case InvalidObject():
            return code, _invalid(error, target)
        case TooManyRequests():
            return code, failure_status(
                code, reason, str(error), {"retryAfterSeconds": ceil(error.retry_after)}
            )
        case Expired(token=str() as token):
            return code, {**failure_status(code, reason, str(error)), "metadata": {"continue": token}}
        case StoreCorrupted():
            return code, internal_error_status()
        case OutcomeUnknown():
            return code, failure_status(code, reason, str(error))
        case Unavailable():
            return code, failure_status(code, reason, str(error), {"retryAfterSeconds": 1})
        case _:
            return code, failure_status(code, reason, str(error), _details(error, target))


def _details(error: LauncherError, target: ErrorTarget | None) -> Object:
    """Returns the details of the Status of *error*."""
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


def failure_status(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> Object:
    """Returns a Status of a failed request."""
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    optional = {"details": dict(details)} if details else {}
    return {**status, "message": message, "reason": reason, **optional, "code": code}


def internal_error_status() -> Object:
    """Returns a Status without details of the error, which are logged."""
    message = "see the server log"
    details = {"causes": [{"message": message}]}
    return failure_status(500, "InternalError", f"Internal error occurred: {message}", details)


def _invalid(error: InvalidObject, target: ErrorTarget | None) -> Object:
    kind, group, name = "", "", ""
    if isinstance(error, InvalidOptions):
        kind, group, name = error.kind, error.group, error.name
    elif target is not None:
        kind, group, name = target.kind.kind, target.kind.group, target.name
    causes = [_cause(problem) for problem in error.errors]
    if not any(problem.field for problem in error.errors):
        # No field is named: a patch that cannot be applied.
        return failure_status(422, "Invalid", _listed(error.errors), {})
    details = {"name": name, "group": group, "kind": kind, "causes": causes}
    message = f'{kind}{"." if group else ""}{group} "{name}" is invalid: {_listed(error.errors)}'
    return failure_status(422, "Invalid", message, {key: value for key, value in details.items() if value})


def _cause(problem: FieldError) -> Object:
    return {"reason": problem.reason, "message": problem.message, "field": problem.field}


def _listed(problems: Sequence[FieldError]) -> str:
    texts = [str(problem) for problem in problems]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def status_response(request: web.BaseRequest, code: int, status: Object) -> web.Response:
    """Returns *status* as a response, always in JSON."""
    value = to_requested(request, status)
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if is_pretty(request) else 0)
    headers = {"Content-Type": "application/json"}
    if seconds := status.get("details", {}).get("retryAfterSeconds"):
        headers["Retry-After"] = str(seconds)
    return web.Response(status=code, body=orjson.dumps(value, option=option), headers=headers)
