"""Errors of handling single objects: logged once, suppressed, and removed after a success."""

import asyncio
import logging

import pytest

from launcher.store.object_errors import ObjectErrors

KEY = ("default", "bad")


def fail(errors: ObjectErrors, error: BaseException, key: tuple[str, str] = KEY) -> None:
    with errors.handling("scheduler", "pods", key):
        raise error


def test_an_error_is_suppressed_and_logged_once_with_key_and_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = ObjectErrors()

    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            fail(errors, TypeError("spec is no object"))

    (record,) = caplog.records
    assert record.__dict__["object"] == KEY
    assert record.exc_info is not None
    assert [(each.description, each.reason) for each in errors.current()] == [
        ("scheduler: pods default/bad", "TypeError")
    ]
    assert errors.counts() == {("scheduler", "pods"): 1}


def test_another_error_of_the_same_object_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    errors = ObjectErrors()

    with caplog.at_level(logging.ERROR):
        fail(errors, TypeError("a"))
        fail(errors, KeyError("b"))

    assert len(caplog.records) == 2
    assert [each.reason for each in errors.current()] == ["KeyError"]


def test_the_error_is_removed_when_the_object_is_handled_without_an_error() -> None:
    errors = ObjectErrors()
    fail(errors, TypeError("a"))

    with errors.handling("scheduler", "pods", KEY):
        pass

    assert errors.current() == []


def test_a_cancellation_is_not_an_error_of_the_object() -> None:
    errors = ObjectErrors()

    with pytest.raises(asyncio.CancelledError):
        fail(errors, asyncio.CancelledError())

    assert errors.current() == []


def test_the_number_of_recorded_objects_is_limited() -> None:
    errors = ObjectErrors()

    for number in range(1500):
        fail(errors, TypeError("a"), ("default", f"bad-{number}"))

    assert len(errors.current()) == 1000
