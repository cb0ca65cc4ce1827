"""Clients read from a Status the error that the server wrote into it."""

from typing import Any

import pytest

from launcher.api.http.status import status_of
from launcher.core.api_status import STATUS, error_with_reason, invalid_object
from launcher.core.errors import FieldError, InvalidObject, RequestError


@pytest.mark.parametrize(
    "error", [kind for kind in STATUS if issubclass(kind, RequestError) and kind is not InvalidObject]
)
def test_a_client_gets_the_error_that_the_server_reports(error: type[RequestError]) -> None:
    _, status = status_of(error("sentence"))

    received = error_with_reason(status, status["message"])

    assert type(received) is error
    assert str(received) == "sentence"


def test_a_client_gets_the_fields_of_an_invalid_object() -> None:
    errors = (
        FieldError("spec.a", "must be at least 1"),
        FieldError("spec.b", "Required value", "FieldValueRequired"),
    )
    _, status = status_of(InvalidObject(errors))

    received = error_with_reason(status, status["message"])

    assert isinstance(received, InvalidObject)
    assert received.errors == errors


def test_an_error_of_the_server_is_not_one_of_the_caller() -> None:
    assert error_with_reason({"reason": "ServiceUnavailable"}, "down") is None
    assert error_with_reason({}, "down") is None


@pytest.mark.parametrize("details", [None, [], {"causes": None}, {"causes": ["text"]}])
def test_a_status_without_fields_is_an_invalid_object_with_its_message(details: Any) -> None:
    assert str(invalid_object({"details": details}, "not allowed")) == "not allowed"
