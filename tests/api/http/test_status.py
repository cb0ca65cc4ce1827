"""Every error has one shape, also those that no handler ever sees."""

import asyncio

import orjson
import pytest

from launcher.api.http.status import ErrorTarget, InvalidOptions, ResourceVersionTooLarge, status_of
from launcher.core.api_status import STATUS
from launcher.core.errors import (
    BadRequest,
    Conflict,
    Expired,
    InvalidObject,
    LauncherError,
    NotFound,
    OutcomeUnknown,
    RequestError,
    StoreCorrupted,
    TooManyRequests,
    Unavailable,
)
from launcher.core.validation.field_errors import duplicate_field, required, unknown_field
from launcher.store.interface import FRAMEWORKS
from tests.api.conftest import Api
from tests.eventually import TIMEOUT_SECONDS

A = ErrorTarget(FRAMEWORKS, "a")


def all_errors(base: type[LauncherError] = LauncherError) -> set[type[LauncherError]]:
    return {base}.union(*map(all_errors, base.__subclasses__()))


def test_every_error_has_a_status() -> None:
    below = ("launcher.core", "launcher.store", "launcher.api")
    here = {error for error in all_errors() if error.__module__.startswith(below)}
    reported = {error for error in here if any(kind in STATUS for kind in error.__mro__)}

    # These two are never raised themselves.
    assert here - reported == {LauncherError, RequestError}


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (BadRequest("x"), 400, "BadRequest"),
        (NotFound("x"), 404, "NotFound"),
        (Conflict("x"), 409, "Conflict"),
        (InvalidObject((required("spec.a"),)), 422, "Invalid"),
        (TooManyRequests("x", 0.2), 429, "TooManyRequests"),
        (StoreCorrupted("a secret"), 500, "InternalError"),
        (Unavailable("x"), 503, "ServiceUnavailable"),
        (OutcomeUnknown("x"), 504, "Timeout"),
        (ResourceVersionTooLarge("x"), 504, "Timeout"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_becomes_a_status(error: LauncherError, code: int, reason: str) -> None:
    found, status = status_of(error, A)

    assert (found, status["code"], status["reason"], status["status"]) == (code, code, reason, "Failure")
    assert "secret" not in status["message"]


def test_only_errors_without_effect_have_retry_after() -> None:
    assert status_of(Unavailable("x"))[1]["details"]["retryAfterSeconds"] == 1
    assert status_of(TooManyRequests("x", 2.5))[1]["details"]["retryAfterSeconds"] == 3
    assert "details" not in status_of(OutcomeUnknown("x"))[1]


def test_details_name_the_resource_or_for_what_is_invalid_the_kind() -> None:
    _, deleted = status_of(NotFound("x"), A)
    _, invalid = status_of(InvalidObject((required("spec.a"),)), A)

    assert deleted["details"]["kind"] == "frameworks"
    assert invalid["details"]["kind"] == "Framework"
    assert invalid["message"] == ('Framework.launcher.microsoft.com "a" is invalid: spec.a: Required value')


def test_errors_of_options_name_the_options() -> None:
    _, status = status_of(InvalidOptions("PodLogOptions", (required("x"),), group="", name="p"), A)

    assert status["message"] == 'PodLogOptions "p" is invalid: x: Required value'


def test_strict_decoding_errors_are_bad_requests_except_for_patches() -> None:
    error = InvalidObject((unknown_field("spec.a", None), duplicate_field("spec.b")))

    code, status = status_of(error, A)

    assert (code, status["reason"]) == (400, "BadRequest")
    assert status["message"].startswith('strict decoding error: unknown field "spec.a", duplicate field')
    assert status_of(error, A, patching=True)[0] == 422
    mixed = InvalidObject((*error.errors, required("spec.c")))
    assert status_of(mixed, A)[0] == 422


def test_an_expired_list_has_a_continue_token() -> None:
    assert status_of(Expired("x", token="abc"))[1]["metadata"] == {"continue": "abc"}


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * 70_000 + b"\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=["a long line", "a long header", "no HTTP", "TLS"],
)
async def test_a_malformed_request_gets_a_status(api: Api, request_: bytes) -> None:
    host, port = api.url.removeprefix("http://").split(":")
    async with asyncio.timeout(TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request_)
        response = await reader.read()
        writer.close()
        await writer.wait_closed()

    head, _, body = response.partition(b"\r\n\r\n")
    assert head.startswith((b"HTTP/1.0 400", b"HTTP/1.1 400"))
    assert b"Content-Type: application/json" in head
    assert b"Server: framework-launcher" in head
    assert orjson.loads(body)["reason"] == "BadRequest"
    assert b"xxxx" not in body
