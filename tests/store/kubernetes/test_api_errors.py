"""What each answer of an API server means to the caller."""

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
from launcher.store.kubernetes.api_errors import refusal, to_error

NAMED = {"name": "mnist", "kind": "frameworks"}


def refused(
    code: int,
    reason: str = "",
    message: str = "the server's words",
    retry_after: str | None = None,
    **more: Any,
) -> LauncherError:
    """What is raised for that answer to a write."""
    status = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
        **more,
    }
    return to_error(refusal(code, orjson.dumps(status), retry_after), changes=True)


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
def test_each_answer_is_one_error_in_the_servers_own_words(
    code: int, reason: str, details: dict[str, str], error: type[LauncherError]
) -> None:
    raised = refused(code, reason, details=details)

    assert type(raised) is error
    assert "the server's words" in str(raised)


@pytest.mark.parametrize("code", [500, 502, 503, 504])
def test_a_read_that_fails_has_changed_nothing(code: int) -> None:
    assert type(to_error(refusal(code, b"", None), changes=False)) is Unavailable


def test_a_server_that_has_not_begun_has_changed_nothing() -> None:
    assert type(refused(503, "ServiceUnavailable", retry_after="5")) is Unavailable


def test_a_webhook_that_cannot_be_asked_has_let_nothing_through() -> None:
    words = 'Internal error occurred: failed calling webhook "x": connection refused'

    assert type(refused(500, "InternalError", words)) is Unavailable


def test_an_object_over_the_limit_of_etcd_is_too_large() -> None:
    assert type(refused(500, "", "etcdserver: request is too large")) is TooLarge


def test_a_pause_that_is_asked_for_is_passed_on() -> None:
    by_header = refused(429, "TooManyRequests", retry_after="7")
    by_body = refused(429, "TooManyRequests", details={"retryAfterSeconds": 3})
    unsaid = refused(429, "TooManyRequests")

    assert [
        error.retry_after for error in (by_header, by_body, unsaid) if isinstance(error, TooManyRequests)
    ] == [
        7.0,
        3.0,
        1.0,
    ]


def test_every_broken_rule_is_told_with_its_field() -> None:
    causes = [
        {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"},
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "A": no', "field": "metadata.name"},
    ]

    raised = refused(422, "Invalid", details={"causes": causes})

    assert isinstance(raised, InvalidObject)
    assert raised.errors == (
        FieldError("spec.containers", "Required value", "FieldValueRequired"),
        FieldError("metadata.name", 'Invalid value: "A": no', "FieldValueInvalid"),
    )


def test_a_list_that_expired_can_go_on_with_the_token_that_comes_along() -> None:
    raised = refused(410, "Expired", metadata={"continue": "next"})

    assert isinstance(raised, Expired)
    assert raised.token == "next"


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[]", b"\xff\xfe", b'{"kind":"Pod"}'])
def test_an_answer_that_is_no_status_is_told_all_the_same(body: bytes) -> None:
    raised = to_error(refusal(502, body, "soon"), changes=True)

    assert type(raised) is OutcomeUnknown
    assert str(raised)
