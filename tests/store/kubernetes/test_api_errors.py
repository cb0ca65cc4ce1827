"""Error responses of an API server as errors of the launcher."""

from typing import Any

import orjson
import pytest

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
    NotServed,
    OutcomeUnknown,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from launcher.store.kubernetes.api_errors import error_response, to_error

NAMED = {"name": "mnist", "kind": "frameworks"}


def error_for(
    code: int,
    reason: str = "",
    message: str = "the server's words",
    retry_after: str | None = None,
    **more: Any,
) -> LauncherError:
    """The error for this response to a write."""
    status = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
        **more,
    }
    return to_error(error_response(code, orjson.dumps(status), retry_after), mutates=True)


@pytest.mark.parametrize(
    ("code", "reason", "details", "error"),
    [
        (400, "BadRequest", {}, BadRequest),
        (401, "Unauthorized", {}, Unavailable),
        (403, "Forbidden", NAMED, Forbidden),
        (404, "NotFound", NAMED, NotFound),
        (404, "NotFound", {}, NotServed),
        (405, "MethodNotAllowed", {}, BadRequest),
        (406, "NotAcceptable", {}, BadRequest),
        (409, "AlreadyExists", NAMED, AlreadyExists),
        (409, "Conflict", NAMED, Conflict),
        (410, "Expired", {}, Expired),
        (413, "RequestEntityTooLarge", {}, TooLarge),
        (415, "UnsupportedMediaType", {}, BadRequest),
        (422, "Invalid", NAMED, InvalidObject),
        (429, "TooManyRequests", {}, TooManyRequests),
        (500, "InternalError", {}, OutcomeUnknown),
        (500, "ServerTimeout", {}, OutcomeUnknown),
        (503, "ServiceUnavailable", {}, OutcomeUnknown),
        (504, "Timeout", {}, OutcomeUnknown),
        (302, "", {}, Unavailable),
    ],
)
def test_each_error_response_becomes_one_error_with_the_servers_message(
    code: int, reason: str, details: dict[str, str], error: type[LauncherError]
) -> None:
    raised = error_for(code, reason, details=details)

    assert type(raised) is error
    assert "the server's words" in str(raised)


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_a_failed_read_is_unavailable(code: int) -> None:
    assert type(to_error(error_response(code, b"", None), mutates=False)) is Unavailable


def test_a_write_that_the_server_did_not_start_is_unavailable() -> None:
    assert type(error_for(503, "ServiceUnavailable", retry_after="5")) is Unavailable


def test_an_unreachable_webhook_means_nothing_was_stored() -> None:
    message = 'Internal error occurred: failed calling webhook "x": connection refused'

    assert type(error_for(500, "InternalError", message)) is Unavailable


def test_an_object_over_the_limit_of_etcd_is_too_large() -> None:
    assert type(error_for(500, "", "etcdserver: request is too large")) is TooLarge


def test_retry_after_is_returned() -> None:
    by_header = error_for(429, "TooManyRequests", retry_after="7")
    by_body = error_for(429, "TooManyRequests", details={"retryAfterSeconds": 3})
    without = error_for(429, "TooManyRequests")

    assert [
        error.retry_after for error in (by_header, by_body, without) if isinstance(error, TooManyRequests)
    ] == [
        7.0,
        3.0,
        1.0,
    ]


def test_every_cause_is_reported_with_its_field() -> None:
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "A": no', "field": "metadata.name"},
    ]

    raised = error_for(422, "Invalid", details={"causes": causes})

    assert isinstance(raised, InvalidObject)
    assert raised.errors == (
        FieldError("spec.containers", "Required value", "FieldValueRequired"),
        FieldError("metadata.name", 'Invalid value: "A": no', "FieldValueInvalid"),
    )


def test_an_expired_list_has_a_token_to_continue_with() -> None:
    raised = error_for(410, "Expired", metadata={"continue": "next"})

    assert isinstance(raised, Expired)
    assert raised.token == "next"


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[]", b"\xff\xfe", b'{"kind":"Pod"}'])
def test_a_response_without_a_status_keeps_its_text(body: bytes) -> None:
    raised = to_error(error_response(502, body, "soon"), mutates=True)

    assert type(raised) is OutcomeUnknown
    assert str(raised)
