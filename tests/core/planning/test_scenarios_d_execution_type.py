"""Scenario rows D: executionType Create suspends, Start starts, Stop stops a Framework."""

import pytest

from launcher.core.planning.options import PlannerOptions
from launcher.core.spec import CleanPodPolicy, ExecutionType
from launcher.core.status import State
from tests.core.builders import a_role
from tests.core.planning.harness import NO_FAILURE_SPEC, new_harness, running_harness


def test_d1_a_framework_is_suspended_until_start() -> None:
    harness = new_harness(execution=ExecutionType.CREATE)

    harness.sync()
    harness.advance(1_000)
    suspended = (harness.state, sorted(harness.tasks()), len(harness.created_pods))
    harness.edit_spec(execution=ExecutionType.START)
    harness.sync()
    harness.run_pods("w0")

    assert suspended == (State.CREATION_PENDING, ["w0"], 0)
    assert harness.state is State.RUNNING


def test_d2_a_suspended_framework_can_be_stopped() -> None:
    harness = new_harness(execution=ExecutionType.CREATE)
    harness.sync()

    harness.stop()
    harness.sync()

    assert (harness.final_code, harness.task_code("w0"), harness.task("w0").state) == (
        -210,
        -220,
        State.COMPLETED,
    )
    assert (harness.created_pods, harness.status.run_time) == ([], None)


@pytest.mark.parametrize("clean", CleanPodPolicy)
def test_d3_stop_is_never_retried(clean: CleanPodPolicy) -> None:
    harness = running_harness(a_role("w", 2), retry=(False, -2), clean_pods=clean)

    harness.stop()
    harness.sync()

    assert (harness.final_code, harness.counters) == (-210, (0, 0))
    assert (harness.task_code("w0"), harness.task_code("w1")) == (-220, -220)
    assert harness.existing_pods() == set()


def test_d4_stop_during_a_retry_delay_completes_the_framework_without_another_attempt() -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    harness = running_harness(a_role("w", 2), retry=(True, 0), options=options)
    harness.fail("w0", 201)

    harness.stop()
    harness.sync()

    assert (harness.final_code, harness.counters, harness.status.retry.delay) == (-210, (0, 0), None)
    assert len(harness.created_pods) == 2


def test_d5_a_framework_that_is_created_with_stop_completes_at_once() -> None:
    harness = new_harness(execution=ExecutionType.STOP)

    harness.sync()

    assert harness.final_code == -210
    assert harness.created_pods == []


def test_d6_stop_deletes_a_pod_that_was_created_and_not_observed_yet() -> None:
    """There is no ConfigMap; a pod whose creation was not recorded takes its place."""
    harness = new_harness()
    harness.crash(executed=1)
    created = len(harness.pods)

    harness.stop()
    harness.sync()

    assert created == 1
    assert (harness.final_code, harness.existing_pods()) == (-210, set())


def test_d7_create_suspends_the_next_attempt_and_not_the_running_one() -> None:
    """Validation rejects the change from Start to Create; the planner handles it nevertheless."""
    harness = running_harness(a_role("w"), retry=(False, 1))

    harness.edit_spec(execution=ExecutionType.CREATE)
    harness.sync()
    unaffected = harness.state
    harness.fail("w0", 1)
    harness.advance(1_000)

    assert unaffected is State.RUNNING
    assert (harness.state, harness.status.attempt.id, harness.existing_pods()) == (
        State.CREATION_PENDING,
        1,
        set(),
    )


def test_d8_a_rescale_of_a_suspended_framework_takes_effect_at_the_start() -> None:
    harness = new_harness(a_role("w", 3), execution=ExecutionType.CREATE)
    harness.sync()

    harness.edit_role("w", tasks=1)
    harness.sync()
    suspended = {
        short: (task.state, task.deletion_pending, harness.task_code(short))
        for short, task in harness.tasks().items()
    }
    harness.edit_spec(execution=ExecutionType.START)
    harness.sync()

    removed = (State.CREATION_PENDING, True, -230)
    assert suspended == {"w0": (State.CREATION_PENDING, False, None), "w1": removed, "w2": removed}
    assert (sorted(harness.tasks()), harness.existing_pods(), len(harness.created_pods)) == (
        ["w0"],
        {"w0"},
        1,
    )


def test_d9_stop_of_a_later_attempt_keeps_the_counters() -> None:
    harness = running_harness(a_role("w"), retry=(False, -2))
    harness.succeed("w0")
    harness.run_pods("w0")

    harness.stop()
    harness.sync()

    assert (harness.final_code, harness.counters) == (-210, (1, 1))


def test_stop_does_not_change_the_code_of_a_completed_attempt() -> None:
    harness = running_harness(a_role("w"), clean_pods=CleanPodPolicy.ALL)
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.fail("w0", 3)
    before = harness.state

    harness.stop()
    harness.sync()
    harness.confirm_deletion("w0")

    assert before is State.DELETING
    assert harness.final_code == 3


def test_a_pod_that_was_created_before_the_change_to_create_is_adopted() -> None:
    harness = new_harness()
    harness.crash(executed=1)

    harness.edit_spec(execution=ExecutionType.CREATE)
    harness.sync()
    harness.run_pods("w0")

    assert harness.state is State.RUNNING
