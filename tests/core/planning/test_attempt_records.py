"""The record of a completed attempt of a Framework, before the next attempt replaces it."""

from typing import Any

import pytest

from launcher.core.planning.actions import CreatePod, RecordAttempt
from launcher.core.spec import CleanPodPolicy
from launcher.core.status import State
from tests.core.builders import a_role, a_terminated_status
from tests.core.planning.harness import PlannerHarness, running_harness


def failed_harness(**spec: Any) -> PlannerHarness:
    """A Framework of one task whose pod has failed and is gone, after a restart: no record is known."""
    harness = running_harness(a_role("w"), clean_pods=CleanPodPolicy.ALL, **spec)
    harness.report_status("w0", a_terminated_status(7))
    harness.sync(until=lambda: harness.state is State.ATTEMPT_COMPLETED)
    harness.restart()
    return harness


def test_the_next_attempt_starts_only_after_the_record_of_the_completed_one_is_stored() -> None:
    harness = failed_harness(retry=(False, 2))

    before = harness.plan()
    harness.recorded_attempt = 0
    after = harness.plan()

    (action,) = before.actions
    assert isinstance(action, RecordAttempt)
    assert (before.status.state, before.status.attempt.id) == (State.ATTEMPT_COMPLETED, 0)
    assert (after.status.attempt.id, [type(action) for action in after.actions]) == (1, [CreatePod])


def test_the_record_has_the_cause_and_the_decision_to_retry() -> None:
    harness = failed_harness(retry=(False, 2))

    harness.sync(until=lambda: bool(harness.records))

    record = harness.records[0]
    assert "exited with code 7" in record.message
    assert (record.retry.accountable, record.retry.left) == (True, 1)
    assert record.retry.reason == "attempt 2 of 3"


def test_each_attempt_that_is_retried_is_recorded_once() -> None:
    harness = failed_harness(retry=(False, 2))

    for _ in range(2):
        harness.sync()
        harness.advance(600)
        harness.run_pods()
        harness.fail("w0", 7)

    assert harness.state is State.COMPLETED
    assert sorted(harness.records) == [0, 1]


def test_a_launcher_that_restarts_records_the_attempt_again_before_the_next_one_starts() -> None:
    harness = failed_harness(retry=(False, 2))
    harness.sync(until=lambda: bool(harness.records))

    harness.restart()
    result = harness.plan()

    assert [type(action) for action in result.actions] == [RecordAttempt]
    assert result.status.attempt.id == 0


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"retry": (False, 0)}, id="a Framework that is not retried"),
        pytest.param({"retry": (False, 1), "attempt_history_limit": 0}, id="attemptHistoryLimit 0"),
    ],
)
def test_no_attempt_is_recorded(spec: dict[str, Any]) -> None:
    harness = failed_harness(**spec)

    harness.sync()

    assert harness.records == {}


def test_an_attempt_during_whose_backoff_the_framework_is_stopped_is_not_recorded() -> None:
    harness = failed_harness(retry=(False, 3))
    harness.sync()
    harness.run_pods()
    harness.fail("w0", 7)
    assert harness.status.retry.delay, "the second retry has a delay"

    harness.stop()
    harness.sync()

    assert harness.state is State.COMPLETED
    assert sorted(harness.records) == [0]
