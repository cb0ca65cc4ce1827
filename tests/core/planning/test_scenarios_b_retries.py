"""Scenario rows B: retries of tasks and of whole attempts."""

from typing import Any

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.names import attempt_uid
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import plan
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import RetryPolicy
from launcher.core.status import State
from tests.core.builders import UID, a_role
from tests.core.planning.harness import NO_FAILURE_SPEC, PlannerHarness, new_harness, running_harness

#: The longest delay of the back-off.
MAX_DELAY_SECONDS = 300


def run_next_attempt(harness: PlannerHarness, task: str = "w0") -> None:
    """Advances the clock past the retry delay and runs the new pod."""
    harness.advance(MAX_DELAY_SECONDS)
    harness.run_pods(task)


def after_conflict(**spec: Any) -> PlannerHarness:
    """Two workers of which one failed with a resource conflict; the Framework waits 60 s for its retry (row B12)."""
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    harness = running_harness(a_role("w", 2), retry=(True, 0), options=options, **spec)
    harness.fail("w0", 201)
    return harness


def test_b1_a_task_is_retried_until_its_budget_is_used_up() -> None:
    harness = running_harness(a_role("w", retry=(False, 2)))

    harness.fail("w0", 1)
    run_next_attempt(harness)
    harness.fail("w0", 1)
    run_next_attempt(harness)
    harness.fail("w0", 1)

    assert (harness.task("w0").state, harness.task_code("w0"), harness.task_counters("w0")) == (
        State.COMPLETED,
        1,
        (2, 2),
    )
    assert harness.final_code == 1


def test_b2_transient_failures_do_not_use_up_the_budget() -> None:
    harness = running_harness(a_role("w", retry=(True, 1)))

    harness.fail("w0", 200)
    run_next_attempt(harness)
    harness.fail("w0", 200)
    run_next_attempt(harness)
    harness.succeed("w0")

    assert (harness.task_code("w0"), harness.task_counters("w0"), harness.final_code) == (0, (2, 0), 0)


def test_b3_the_budgets_of_task_and_framework_together_allow_four_pods() -> None:
    harness = running_harness(a_role("w", retry=(True, 1)), retry=(True, 1))

    for _ in range(3):
        harness.fail("w0", 1)
        run_next_attempt(harness)
    harness.fail("w0", 1)

    assert (harness.final_code, harness.counters, harness.task_counters("w0")) == (1, (1, 1), (1, 1))
    assert len(harness.created_pods) == 4


def test_b4_a_permanent_failure_is_retried_neither_by_task_nor_by_framework() -> None:
    harness = running_harness(a_role("w", retry=(True, 1)), retry=(True, 1))

    harness.fail("w0", 210)

    assert (harness.final_code, harness.counters, harness.task_counters("w0")) == (210, (0, 0), (0, 0))


def test_b5_a_permanent_failure_is_not_retried_with_retry_always() -> None:
    harness = running_harness(a_role("w", retry=(True, -2)))

    harness.fail("w0", 210)

    assert (harness.task_code("w0"), harness.final_code) == (210, 210)


def test_b6_a_success_is_retried_with_fancy_retry_always() -> None:
    harness = running_harness(a_role("w", retry=(True, -2)))

    harness.succeed("w0")

    assert harness.task_counters("w0") == (1, 1)
    assert len(harness.created_pods) == 2


def test_b7_retry_always_keeps_a_service_running() -> None:
    harness = running_harness(a_role("w", retry=(False, -2)))

    harness.succeed("w0")
    run_next_attempt(harness)

    assert (harness.task_counters("w0"), harness.state) == ((1, 1), State.RUNNING)


def test_b8_without_fancy_a_permanent_failure_is_retried_like_any_other() -> None:
    harness = running_harness(a_role("w", retry=(False, -1)))

    harness.fail("w0", 210)

    assert harness.task_counters("w0") == (1, 1)


def test_b9_a_success_is_not_retried_with_retry_on_failure() -> None:
    harness = running_harness(a_role("w", retry=(False, -1)))

    harness.succeed("w0")

    assert (harness.final_code, harness.task_counters("w0")) == (0, (0, 0))


def test_b10_the_framework_retries_until_it_succeeds_each_time_with_new_tasks() -> None:
    harness = running_harness(a_role("w"), retry=(False, -1))

    harness.fail("w0", 1)
    run_next_attempt(harness)
    harness.fail("w0", 210)
    run_next_attempt(harness)
    harness.succeed("w0")

    assert (harness.final_code, harness.counters, harness.task_counters("w0")) == (0, (2, 2), (0, 0))


def test_b11_a_framework_that_is_always_retried_starts_a_new_attempt() -> None:
    harness = running_harness(a_role("w"), retry=(False, -2))

    harness.succeed("w0")

    assert (harness.status.attempt.id, harness.counters) == (1, (1, 1))
    stored = status_to_json(harness.status, harness.framework.name, UID)
    assert stored["attemptStatus"]["configMapUID"] == attempt_uid(UID, 1) != attempt_uid(UID, 0)


def test_b12_a_framework_is_retried_with_a_delay_after_a_conflict() -> None:
    harness = after_conflict()
    after_failure = (harness.state, harness.status.retry.delay)

    harness.advance(59)
    shortly_before = (harness.state, harness.status.retry.delay)
    harness.advance(1)

    assert after_failure == shortly_before == (State.ATTEMPT_COMPLETED, 60)
    assert (harness.status.attempt.id, harness.counters, harness.status.retry.delay) == (1, (1, 0), None)


def test_b13_without_fancy_a_conflict_is_retried_at_once_and_counts() -> None:
    harness = running_harness(a_role("w"), retry=(False, 3))

    harness.fail("w0", 201)

    assert (harness.status.attempt.id, harness.counters) == (1, (1, 1))
    assert all(status.retry.delay is None for status in harness.saved_statuses)


def test_b14_a_task_is_retried_without_delay_after_a_conflict() -> None:
    harness = running_harness(a_role("w", retry=(True, 0)), retry=(True, 0))

    harness.fail("w0", 201)

    assert (harness.task_counters("w0"), harness.status.attempt.id) == ((1, 0), 0)
    assert len(harness.created_pods) == 2


def test_b15_a_killed_container_is_a_transient_failure_by_the_default_rules() -> None:
    harness = running_harness(a_role("w"), retry=(True, 0), options=PlannerOptions())

    harness.fail("w0", 137, reason="Error")

    assert (harness.status.attempt.id, harness.counters) == (1, (1, 0))


def test_b16_without_rules_a_killed_container_is_an_unknown_failure() -> None:
    harness = running_harness(a_role("w"), retry=(True, 0))

    harness.fail("w0", 137, reason="Error")

    completion = harness.status.attempt.completion
    assert completion is not None
    assert (harness.final_code, completion.phrase) == (137, "ContainerUnrecognizedFailed")


def test_b17_a_rescale_during_the_retry_delay_applies_to_the_next_attempt() -> None:
    harness = after_conflict()

    harness.edit_role("w", tasks=3)
    harness.sync()
    during = (harness.state, len(harness.tasks()))
    harness.advance(60)

    assert during == (State.ATTEMPT_COMPLETED, 2)
    assert (harness.status.attempt.id, sorted(harness.tasks())) == (1, ["w0", "w1", "w2"])


def test_b18_a_scheduled_retry_is_executed_though_the_policy_no_longer_allows_it() -> None:
    harness = after_conflict()

    harness.edit_spec(retry=RetryPolicy(False, 0))
    harness.advance(59)
    before = harness.status.attempt.id
    harness.advance(1)

    assert (before, harness.status.attempt.id, harness.counters) == (0, 1, (1, 1))


def test_b19_a_pod_deleted_by_another_client_is_replaced_after_its_deletion() -> None:
    harness = running_harness(a_role("w", retry=(True, 0)))
    old = harness.pod_uid("w0")
    harness.stuck_pods.add(harness.pod_name("w0"))

    harness.delete_pod("w0")
    during_deletion = (harness.task("w0").state, harness.task_code("w0"), len(harness.created_pods))
    harness.confirm_deletion("w0")

    assert during_deletion == (State.DELETING, -101, 1)
    task = harness.task("w0")
    assert (harness.task_counters("w0"), task.attempt.completion) == ((1, 0), None)
    assert task.attempt.pod_uid == harness.pod_uid("w0") != old
    role = status_to_json(harness.status, harness.framework.name, UID)["attemptStatus"]["taskRoleStatuses"][0]
    assert role["taskStatuses"][0]["attemptStatus"]["instanceUID"] == f"1_{harness.pod_uid('w0')}"


def test_b20_without_retries_the_deletion_of_a_pod_by_another_client_completes_the_framework() -> None:
    harness = running_harness()

    harness.delete_pod("w0")

    assert harness.final_code == -101


@pytest.mark.parametrize(
    ("limits", "jitter", "delay"),
    [
        pytest.param((60, 900), 0.0, 60, id="minimum"),
        pytest.param((60, 900), 0.5, 480, id="in the middle"),
        pytest.param((60, 900), 1 - 2**-53, 900, id="maximum"),
        pytest.param((60, 60), 0.9, 60, id="minimum equals maximum"),
    ],
)
def test_b21_the_delay_after_a_conflict_is_random_between_its_limits(
    limits: tuple[int, int], jitter: float, delay: int
) -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=limits)
    harness = running_harness(a_role("w"), retry=(True, 0), options=options)
    harness.jitter = jitter

    harness.fail("w0", 201)

    assert harness.status.retry.delay == delay


def test_b22_a_new_attempt_of_a_task_has_an_empty_status() -> None:
    harness = running_harness(a_role("w", retry=(True, 0)))
    before = harness.task("w0")
    harness.now += 5

    harness.delete_pod("w0")
    next_attempt = harness.saved_statuses[-2].roles[0].tasks[0]

    assert (next_attempt.start_time, next_attempt.run_time) == (before.start_time, before.run_time)
    assert next_attempt.attempt.start_time == before.attempt.start_time + 5
    fields = (
        next_attempt.attempt.run_time,
        next_attempt.attempt.ip,
        next_attempt.attempt.pod_uid,
        next_attempt.attempt.completion,
    )
    assert fields == (None, None, None, None)


def test_b23_a_permanently_rejected_pod_is_not_retried_with_retry_always() -> None:
    harness = new_harness(a_role("w", retry=(True, -2)))
    rejection = completion_for(Code.POD_CREATION_PERMANENT_ERROR, "the pod is invalid")
    harness.creation_errors[harness.pod_name("w0")] = [rejection]

    harness.sync()

    assert harness.final_code == -200
    assert harness.created_pods == []


def test_the_random_delay_is_chosen_once() -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures)
    harness = running_harness(a_role("w"), retry=(True, 0), options=options)
    harness.fail("w0", 201)

    later = plan(harness.framework, [], harness.now + 59, options=options, jitter=0.9)

    assert later.status.retry.delay == 60
    assert later.requeue_at == int(harness.now) + 60
