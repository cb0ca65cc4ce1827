"""Tasks that stall, found by the controller on a store in memory, in virtual time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from launcher.core.errors import Forbidden, LauncherError, NotFound, Unavailable
from launcher.store.interface import EVENTS, FRAMEWORKS, Object
from tests.controller.harness import RecordingStore, run_controller, wait_for_state
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run

DEADLINE_SECONDS = 60


class LogsInMemory:
    """The logs of pods by name. A text is the only line; a number is one of the seconds between new lines."""

    def __init__(self, logs: Mapping[str, str | int | LauncherError | None]) -> None:
        self.logs = dict(logs)
        self.reads: Counter[str] = Counter()

    @asynccontextmanager
    async def open_log(
        self, namespace: str, pod: str, container: str, *, previous: bool, follow: bool, tail_lines: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.reads[pod] += 1
        log = self.logs.get(pod)
        if isinstance(log, LauncherError):
            raise log
        if log is None:
            await asyncio.sleep(3600)
        if isinstance(log, int):
            second = int(asyncio.get_running_loop().time()) // log * log
            log = f"2026-01-01T00:00:00.{second:09}Z step {second}"
        yield _chunks(f"{log}\n")


async def _chunks(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


def a_role_with_deadline(tasks: int) -> Object:
    role = a_role("w", tasks)
    role["task"]["progressDeadlineSeconds"] = DEADLINE_SECONDS
    return role


def test_a_task_that_stalls_fails_and_the_output_of_all_tasks_is_kept() -> None:
    async def scenario() -> None:
        store, logs = RecordingStore(), LogsInMemory({"f-w-0": "T waits for rank 1", "f-w-1": 5})
        await store.create(FRAMEWORKS, a_framework("f", a_role_with_deadline(2)))
        async with run_controller(store, seconds=10_000, log_source=logs):
            await wait_for_state(store, "Completed", timeout_seconds=4 * DEADLINE_SECONDS)

        status = await store.status()
        assert status["attemptStatus"]["completionStatus"]["phrase"] == "Stalled"
        (role,) = status["attemptStatus"]["taskRoleStatuses"]
        stalled, stopped = (task["message"] for task in role["taskStatuses"])
        assert "last output: waits for rank 1" in stalled
        assert "Last output: step " in stopped

    run(scenario())


def test_the_output_of_tasks_without_a_deadline_is_read_only_when_another_stalls() -> None:
    async def scenario() -> None:
        store, logs = RecordingStore(), LogsInMemory({"f-w-0": "T the same", "f-ps-0": "T serving"})
        await store.create(FRAMEWORKS, a_framework("f", a_role_with_deadline(1), a_role("ps", 1)))
        async with run_controller(store, seconds=10_000, log_source=logs):
            await wait_for_state(store, "AttemptRunning")
            await asyncio.sleep(DEADLINE_SECONDS)
            before = logs.reads["f-ps-0"]
            await wait_for_state(store, "Completed", timeout_seconds=4 * DEADLINE_SECONDS)

        roles = (await store.status())["attemptStatus"]["taskRoleStatuses"]
        assert (before, logs.reads["f-ps-0"]) == (0, 1)
        assert "Last output: serving" in roles[1]["taskStatuses"][0]["message"]

    run(scenario())


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(Unavailable("kubelet down"), id="unavailable"),
        pytest.param(Forbidden("no right to get pods/log"), id="forbidden"),
        pytest.param(None, id="a kubelet that does not respond"),
        pytest.param(5, id="new lines"),
    ],
)
def test_a_task_whose_output_changes_or_cannot_be_read_does_not_fail(log: LauncherError | int | None) -> None:
    async def scenario() -> None:
        store, logs = RecordingStore(), LogsInMemory({"f-w-0": log})
        await store.create(FRAMEWORKS, a_framework("f", a_role_with_deadline(1)))
        async with run_controller(store, seconds=10_000, log_source=logs):
            await wait_for_state(store, "AttemptRunning")
            await asyncio.sleep(20 * DEADLINE_SECONDS)

        assert (await store.status())["state"] == "AttemptRunning"
        events = [event["reason"] for event in (await store.list(EVENTS)).items]
        assert ("OutputUnknown" in events) is isinstance(log, Forbidden)

    run(scenario())


def test_a_container_without_a_log_has_written_nothing() -> None:
    async def scenario() -> None:
        store, logs = RecordingStore(), LogsInMemory({"f-w-0": NotFound("no log")})
        await store.create(FRAMEWORKS, a_framework("f", a_role_with_deadline(1)))
        async with run_controller(store, seconds=10_000, log_source=logs):
            await wait_for_state(store, "Completed", timeout_seconds=4 * DEADLINE_SECONDS)

        assert "it has written nothing" in (await store.status())["message"]

    run(scenario())


def test_the_output_is_read_twice_within_the_deadline() -> None:
    async def scenario() -> None:
        store, logs = RecordingStore(), LogsInMemory({"f-w-0": 1})
        await store.create(FRAMEWORKS, a_framework("f", a_role_with_deadline(1)))
        async with run_controller(store, seconds=10_000, log_source=logs):
            await wait_for_state(store, "AttemptRunning")
            await asyncio.sleep(10 * DEADLINE_SECONDS)

        assert 19 <= logs.reads["f-w-0"] <= 21

    run(scenario())
