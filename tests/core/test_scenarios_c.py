"""Scenario rows C: which task ends the attempt, and how."""

from launcher.core.status import State
from tests.core.world import World, a_role, running


def codes(world: World) -> dict[str, int | None]:
    return {short: world.task_code(short) for short in world.tasks()}


def test_c1_failures_below_the_limit_do_not_keep_an_attempt_from_succeeding() -> None:
    world = running(a_role("m", 10, ends=(3, -1)))

    world.fail("m0", 1)
    world.fail("m1", 1)
    for index in (2, 3, 4, 5, 6, 7, 9):
        world.ok(f"m{index}")
    unfinished = world.state
    world.ok("m8")

    assert unfinished is State.RUNNING
    assert (world.done, world.trigger) == (0, "m8")


def test_c2_the_failure_that_reaches_the_limit_gives_the_attempt_its_code() -> None:
    world = running(a_role("m", 10, ends=(3, -1)))

    for index, code in enumerate([1, 2, 3]):
        world.fail(f"m{index}", code)

    assert (world.done, world.trigger) == (3, "m2")
    assert codes(world) == {"m0": 1, "m1": 2, "m2": 3, **{f"m{index}": -220 for index in range(3, 10)}}


def test_c3_a_master_alone_decides_about_success() -> None:
    world = running(a_role("master", ends=(1, 1)), a_role("w", 2, ends=(-1, -1)))

    world.end({"w0": 1, "w1": 1})
    after_workers = world.state
    world.ok("master0")

    assert after_workers is State.RUNNING
    assert (world.done, world.trigger) == (0, "master0")


def test_c4_a_master_alone_decides_about_failure() -> None:
    world = running(a_role("master", ends=(1, 1)), a_role("w", 2, ends=(-1, -1)))

    world.fail("master0", 1)

    assert world.done == 1
    assert codes(world) == {"master0": 1, "w0": -220, "w1": -220}


def test_c5_the_first_success_is_enough_where_one_is_asked_for() -> None:
    world = running(a_role("w", 3, ends=(3, 1)))

    world.ok("w1")

    assert (world.done, world.trigger) == (0, "w1")
    assert codes(world) == {"w0": -220, "w1": 0, "w2": -220}


def test_c6_only_when_all_have_failed_the_attempt_fails() -> None:
    world = running(a_role("w", 3, ends=(3, 1)))

    world.fail("w0", 5)
    world.fail("w1", 6)
    world.fail("w2", 7)

    assert (world.done, world.trigger) == (7, "w2")


def test_c7_where_nobody_judges_all_failed_is_success() -> None:
    world = running(a_role("w", 2, ends=(-1, -1)))

    world.fail("w0", 1)
    world.fail("w1", 2)

    assert (world.done, world.trigger) == (0, "w1")


def test_c8_when_all_workers_have_succeeded_the_servers_are_stopped() -> None:
    world = running(a_role("ps", 2), a_role("w", 3, ends=(1, 3)))

    world.ok("w0")
    world.ok("w1")
    world.ok("w2")

    assert (world.done, world.trigger) == (0, "w2")
    assert (world.task_code("ps0"), world.task_code("ps1")) == (-220, -220)


def test_c9_a_stricter_rule_is_met_by_the_earliest_failure() -> None:
    world = running(a_role("w", 3, ends=(3, -1)))
    world.now += 1
    world.fail("w0", 1)
    world.now += 1
    world.fail("w1", 2)

    world.edit_role("w", ends=(1, -1))
    world.sync()

    assert (world.done, world.trigger, world.task_code("w2")) == (1, "w0", -220)


def test_c10_a_threshold_of_zero_is_off() -> None:
    world = running(a_role("w", 2, ends=(0, 0)))

    world.end({"w0": 1, "w1": 1})

    assert world.done == 0


def test_c11_a_failure_counts_though_an_earlier_role_succeeded_in_the_same_look() -> None:
    world = running(a_role("a"), a_role("b"))

    world.end({"a0": 0, "b0": 7})

    assert (world.done, world.trigger) == (7, "b0")


def test_c12_of_two_failures_in_one_look_the_first_in_order_decides() -> None:
    world = running(a_role("a", 3))

    world.end({"a2": 7, "a1": 8})

    assert (world.done, world.trigger) == (8, "a1")
    assert codes(world) == {"a0": -220, "a1": 8, "a2": 7}


def test_c13_stop_beats_a_limit_that_is_not_reached() -> None:
    world = running(a_role("w", 2, ends=(2, -1)))

    world.fail("w0", 1)
    world.stop()
    world.sync()

    assert (world.done, world.trigger) == (-210, None)
    assert codes(world) == {"w0": 1, "w1": -220}


def test_c14_a_task_that_was_to_be_retried_keeps_its_own_end_when_the_attempt_ends() -> None:
    world = running(a_role("a", retry=(True, 0)), a_role("b"))

    world.end({"a0": 200, "b0": 1})

    assert (world.done, world.trigger) == (1, "b0")
    assert (world.task_code("a0"), world.task_counters("a0")) == (200, (0, 0))


def test_c15_a_threshold_that_cannot_be_reached_does_not_keep_an_attempt_from_ending() -> None:
    world = running(a_role("w", 2, ends=(1, 5)))

    world.end({"w0": 0, "w1": 0})

    assert world.done == 0
