"""The two ways to wait for a condition."""

import itertools

import pytest

from tests.eventually import eventually, until


def test_the_first_result_that_is_neither_none_nor_false_is_returned() -> None:
    results = iter([None, False, 0, 1])

    assert until(lambda: next(results), "a result") == 0


def test_a_condition_that_never_holds_is_named_in_the_failure() -> None:
    with pytest.raises(AssertionError, match=r"the pod runs: not within 0\.01 s"):
        until(lambda: None, "the pod runs", within=0.01)


async def test_on_an_event_loop_functions_and_coroutine_functions_are_probed() -> None:
    numbers = itertools.count()

    async def probe() -> int | None:
        return next(numbers) or None

    assert await eventually(lambda: next(numbers) or None) == 1
    assert await eventually(probe) == 2


async def test_on_an_event_loop_a_condition_that_never_holds_is_named_in_the_failure() -> None:
    with pytest.raises(AssertionError, match=r"the pod runs: not within 0\.01 s"):
        await eventually(lambda: None, "the pod runs", within=0.01)
