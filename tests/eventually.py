"""Wait for a condition: in a test that runs in a thread, or in one that runs on an event loop."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

#: How long any condition may take: far longer than it does, even on a busy machine.
TIMEOUT_SECONDS = 60.0

T = TypeVar("T")


def until(probe: Callable[[], T | None], what: str, within: float = TIMEOUT_SECONDS) -> T:
    """The first result of *probe* that is neither None nor False. *what* describes the condition in the failure."""
    deadline = time.monotonic() + within
    while (found := probe()) is None or found is False:
        assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
        time.sleep(0.02)
    return found


@overload
async def eventually(
    probe: Callable[[], Awaitable[T | None]], what: str = ..., within: float = ..., *, interval: float = ...
) -> T: ...
@overload
async def eventually(
    probe: Callable[[], T | None], what: str = ..., within: float = ..., *, interval: float = ...
) -> T: ...
async def eventually(
    probe: Callable[[], Any],
    what: str = "the condition",
    within: float = TIMEOUT_SECONDS,
    *,
    interval: float = 0.01,
) -> Any:
    """
    The first result of *probe* that is neither None nor False; *probe* may be a coroutine function.

    The time is that of the event loop: in a test with virtual time, waiting takes none.
    """
    clock = asyncio.get_running_loop().time
    deadline = clock() + within
    while (found := await _result(probe())) is None or found is False:
        assert clock() < deadline, f"{what}: not within {within:g} s"
        await asyncio.sleep(interval)
    return found


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
