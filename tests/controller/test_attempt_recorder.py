"""Records of completed attempts, written by the controller on a store in memory, in virtual time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from launcher.controller.framework_state import FrameworkState
from launcher.core.errors import Forbidden, NotServed, OutcomeUnknown, Unavailable
from launcher.core.planning.actions import RecordAttempt
from launcher.core.planning.options import PlannerOptions
from launcher.core.validation.framework import validation_errors
from launcher.store.interface import EVENTS, FRAMEWORK_ATTEMPTS, FRAMEWORKS, Object, ResourceKind
from tests.controller.harness import RecordingStore, run_controller, wait_for_state
from tests.controller.simulation.scenarios import a_framework, a_role
from tests.controller.simulation.virtual_time import run

#: Longer than all retry delays of a Framework with a few retries.
LONG_SECONDS = 3600.0


async def records(store: RecordingStore) -> list[Object]:
    return list((await store.list(FRAMEWORK_ATTEMPTS)).items)


async def fail_framework(store: RecordingStore, *, retries: int, **spec: Any) -> None:
    """Runs a Framework whose only task always fails, until its retries are used up."""
    await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), retries=retries, **spec))
    async with run_controller(store, code=7):
        await wait_for_state(store, "Completed", timeout_seconds=LONG_SECONDS)


async def event_reasons(store: RecordingStore) -> list[str]:
    return [event["reason"] for event in (await store.list(EVENTS)).items]


def test_every_attempt_that_was_retried_is_an_object_that_the_framework_owns() -> None:
    async def scenario() -> None:
        store = RecordingStore()

        await fail_framework(store, retries=2)

        framework = await store.get(FRAMEWORKS, "default", "f")
        first, second = await records(store)
        assert (first["metadata"]["name"], second["metadata"]["name"]) == ("f-1", "f-2")
        for number, record in enumerate((first, second)):
            (owner,) = record["metadata"]["ownerReferences"]
            assert owner["uid"] == framework["metadata"]["uid"]
            assert record["attemptStatus"]["id"] == number
            assert record["attemptStatus"]["completionStatus"]["code"] == 7
            (role,) = record["attemptStatus"]["taskRoleStatuses"]
            assert role["taskStatuses"][0]["attemptStatus"]["podUID"]
        assert [record["retriesLeft"] for record in (first, second)] == [1, 0]
        assert "exited with code 7" in first["message"]

    run(scenario())


def test_an_attempt_that_another_leader_has_recorded_is_not_recorded_again_as_the_next_one() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.fail = failing("create", Unavailable("down"))
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), retries=1))
        async with run_controller(store, code=7):
            await wait_for_state(store, "AttemptCompleted")
        obj = await store.get(FRAMEWORKS, "default", "f")
        own, other = (FrameworkState(obj, PlannerOptions(), [], validation_errors) for _ in range(2))
        now = store.clock() + LONG_SECONDS
        (action,) = own.plan(now).actions
        assert isinstance(action, RecordAttempt)
        record = own.attempt_record(action)
        assert record is not None

        store.fail = lambda *_: None
        await store.create(FRAMEWORK_ATTEMPTS, record)
        other.attempt_recorded(action.attempt)
        other.plan(now, pods_are_live=True)
        own.observe_framework(await store.update_status(FRAMEWORKS, other.status_update()))

        assert (await store.status())["attemptStatus"]["id"] == 1
        assert own.attempt_record(action) is None

    run(scenario())


def test_a_framework_that_is_not_retried_causes_no_call_for_records() -> None:
    async def scenario() -> None:
        store = RecordingStore()

        await fail_framework(store, retries=0)

        assert [call for call in store.calls if call[1] == FRAMEWORK_ATTEMPTS] == []

    run(scenario())


def test_only_the_latest_records_are_kept() -> None:
    async def scenario() -> None:
        store = RecordingStore()

        await fail_framework(store, retries=5, attemptHistoryLimit=2)

        assert [record["attempt"] for record in await records(store)] == [4, 5]

    run(scenario())


@pytest.mark.parametrize("error", [Unavailable("down"), OutcomeUnknown("lost")], ids=["unavailable", "lost"])
def test_the_retry_waits_until_the_record_is_stored(error: Exception) -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.fail = failing("create", error)
        await store.create(FRAMEWORKS, a_framework("f", a_role("w", 1), retries=1))
        async with run_controller(store, code=7):
            await wait_for_state(store, "AttemptCompleted")
            await asyncio.sleep(200)
            waiting = (await store.status())["attemptStatus"]["id"]

            store.fail = lambda *_: None
            await wait_for_state(store, "Completed", timeout_seconds=LONG_SECONDS)

        assert waiting == 0
        assert [record["attempt"] for record in await records(store)] == [1]

    run(scenario())


@pytest.mark.parametrize(
    "error", [Forbidden("no right"), NotServed("no such kind")], ids=["forbidden", "not served"]
)
def test_a_record_that_can_never_be_stored_is_reported_and_does_not_prevent_the_retry(
    error: Exception,
) -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.audit = lambda *_: None  # it requires a record for each retry
        store.fail = failing("create", error)

        await fail_framework(store, retries=1)

        assert (await store.status())["retryPolicyStatus"]["totalRetriedCount"] == 1
        assert await records(store) == []
        assert "AttemptNotRecorded" in await event_reasons(store)

    run(scenario())


def test_the_record_of_a_deleted_framework_of_the_same_name_is_replaced() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.audit = lambda *_: None  # the old record has no Framework
        await store.create(FRAMEWORK_ATTEMPTS, a_record("f-1", owner="f", uid="deleted"))

        await fail_framework(store, retries=1)

        (record,) = await records(store)
        framework = await store.get(FRAMEWORKS, "default", "f")
        assert record["metadata"]["ownerReferences"][0]["uid"] == framework["metadata"]["uid"]

    run(scenario())


def test_an_object_of_another_owner_is_not_replaced() -> None:
    async def scenario() -> None:
        store = RecordingStore()
        store.audit = lambda *_: None
        await store.create(FRAMEWORK_ATTEMPTS, a_record("f-1", owner="other", uid="x"))

        await fail_framework(store, retries=1)

        (record,) = await records(store)
        assert record["metadata"]["ownerReferences"][0]["name"] == "other"
        assert "AttemptNotRecorded" in await event_reasons(store)

    run(scenario())


def failing(verb: str, error: Exception) -> Callable[[str, ResourceKind, Any], Exception | None]:
    """Returns a ``fail`` function for calls for records with that verb."""
    return lambda called, kind, _: error if (called, kind) == (verb, FRAMEWORK_ATTEMPTS) else None


def a_record(name: str, *, owner: str, uid: str) -> Object:
    reference = {
        "apiVersion": FRAMEWORKS.api_version,
        "kind": FRAMEWORKS.kind,
        "name": owner,
        "uid": uid,
        "controller": True,
    }
    return {
        "apiVersion": FRAMEWORK_ATTEMPTS.api_version,
        "kind": FRAMEWORK_ATTEMPTS.kind,
        "metadata": {"namespace": "default", "name": name, "ownerReferences": [reference]},
        "attempt": 1,
    }
