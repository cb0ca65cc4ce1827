"""Scenario rows C: which task completes the attempt, and with which code."""

from launcher.core.status import State
from tests.core.builders import a_role
from tests.core.planning.harness import PlannerHarness, running_harness


def codes(harness: PlannerHarness) -> dict[str, int | None]:
    return {short: harness.task_code(short) for short in harness.tasks()}


def test_c1_an_attempt_succeeds_with_fewer_failures_than_the_limit() -> None:
    harness = running_harness(a_role("m", 10, min_counts=(3, -1)))

    harness.fail("m0", 1)
    harness.fail("m1", 1)
    for index in (2, 3, 4, 5, 6, 7, 9):
        harness.succeed(f"m{index}")
    unfinished = harness.state
    harness.succeed("m8")

    assert unfinished is State.RUNNING
    assert (harness.final_code, harness.trigger) == (0, "m8")


def test_c2_the_attempt_gets_the_code_of_the_failure_that_reaches_the_limit() -> None:
    harness = running_harness(a_role("m", 10, min_counts=(3, -1)))

    for index, code in enumerate([1, 2, 3]):
        harness.fail(f"m{index}", code)

    assert (harness.final_code, harness.trigger) == (3, "m2")
    assert codes(harness) == {"m0": 1, "m1": 2, "m2": 3, **{f"m{index}": -220 for index in range(3, 10)}}


def test_c3_only_the_master_decides_that_the_attempt_succeeded() -> None:
    harness = running_harness(a_role("master", min_counts=(1, 1)), a_role("w", 2, min_counts=(-1, -1)))

    harness.exit_pods({"w0": 1, "w1": 1})
    after_workers = harness.state
    harness.succeed("master0")

    assert after_workers is State.RUNNING
    assert (harness.final_code, harness.trigger) == (0, "master0")


def test_c4_only_the_master_decides_that_the_attempt_failed() -> None:
    harness = running_harness(a_role("master", min_counts=(1, 1)), a_role("w", 2, min_counts=(-1, -1)))

    harness.fail("master0", 1)

    assert harness.final_code == 1
    assert codes(harness) == {"master0": 1, "w0": -220, "w1": -220}


def test_c5_one_success_completes_an_attempt_that_requires_one() -> None:
    harness = running_harness(a_role("w", 3, min_counts=(3, 1)))

    harness.succeed("w1")

    assert (harness.final_code, harness.trigger) == (0, "w1")
    assert codes(harness) == {"w0": -220, "w1": 0, "w2": -220}


def test_c6_an_attempt_fails_when_all_tasks_have_failed() -> None:
    harness = running_harness(a_role("w", 3, min_counts=(3, 1)))

    harness.fail("w0", 5)
    harness.fail("w1", 6)
    harness.fail("w2", 7)

    assert (harness.final_code, harness.trigger) == (7, "w2")


def test_c7_without_thresholds_an_attempt_whose_tasks_all_failed_succeeds() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(-1, -1)))

    harness.fail("w0", 1)
    harness.fail("w1", 2)

    assert (harness.final_code, harness.trigger) == (0, "w1")


def test_c8_when_all_workers_have_succeeded_the_servers_are_stopped() -> None:
    harness = running_harness(a_role("ps", 2), a_role("w", 3, min_counts=(1, 3)))

    harness.succeed("w0")
    harness.succeed("w1")
    harness.succeed("w2")

    assert (harness.final_code, harness.trigger) == (0, "w2")
    assert (harness.task_code("ps0"), harness.task_code("ps1")) == (-220, -220)


def test_c9_a_lowered_threshold_is_reached_by_the_earliest_failure() -> None:
    harness = running_harness(a_role("w", 3, min_counts=(3, -1)))
    harness.now += 1
    harness.fail("w0", 1)
    harness.now += 1
    harness.fail("w1", 2)

    harness.edit_role("w", min_counts=(1, -1))
    harness.sync()

    assert (harness.final_code, harness.trigger, harness.task_code("w2")) == (1, "w0", -220)


def test_c10_a_threshold_of_zero_is_disabled() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(0, 0)))

    harness.exit_pods({"w0": 1, "w1": 1})

    assert harness.final_code == 0


def test_c11_a_failure_counts_though_an_earlier_role_succeeded_in_the_same_reconcile() -> None:
    harness = running_harness(a_role("a"), a_role("b"))

    harness.exit_pods({"a0": 0, "b0": 7})

    assert (harness.final_code, harness.trigger) == (7, "b0")


def test_c12_of_two_failures_in_one_reconcile_the_first_in_order_decides() -> None:
    harness = running_harness(a_role("a", 3))

    harness.exit_pods({"a2": 7, "a1": 8})

    assert (harness.final_code, harness.trigger) == (8, "a1")
    assert codes(harness) == {"a0": -220, "a1": 8, "a2": 7}


def test_c13_stop_completes_an_attempt_whose_limit_is_not_reached() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(2, -1)))

    harness.fail("w0", 1)
    harness.stop()
    harness.sync()

    assert (harness.final_code, harness.trigger) == (-210, None)
    assert codes(harness) == {"w0": 1, "w1": -220}


def test_c14_a_task_with_a_pending_retry_keeps_its_completion_when_the_attempt_completes() -> None:
    harness = running_harness(a_role("a", retry=(True, 0)), a_role("b"))

    harness.exit_pods({"a0": 200, "b0": 1})

    assert (harness.final_code, harness.trigger) == (1, "b0")
    assert (harness.task_code("a0"), harness.task_counters("a0")) == (200, (0, 0))


def test_c15_an_attempt_completes_though_a_threshold_cannot_be_reached() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(1, 5)))

    harness.exit_pods({"w0": 0, "w1": 0})

    assert harness.final_code == 0
