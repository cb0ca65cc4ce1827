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
from tests.core.world import NO_FAILURE_SPEC, UID, World, a_role, a_world, running

#: The longest that the back-off makes anybody wait.
LONGEST_WAIT = 300


def again(world: World, task: str = "w0") -> None:
    """Wait until the next try has come, and let it run."""
    world.after(LONGEST_WAIT)
    world.run(task)


def in_conflict(**spec: Any) -> World:
    """Two workers of which one gave way to others, the Framework waiting 60 s for its retry (row B12)."""
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    world = running(a_role("w", 2), retry=(True, 0), rules=rules, **spec)
    world.fail("w0", 201)
    return world


def test_b1_a_task_is_retried_until_its_budget_is_used_up() -> None:
    world = running(a_role("w", retry=(False, 2)))

    world.fail("w0", 1)
    again(world)
    world.fail("w0", 1)
    again(world)
    world.fail("w0", 1)

    assert (world.task("w0").state, world.task_code("w0"), world.task_counters("w0")) == (
        State.COMPLETED,
        1,
        (2, 2),
    )
    assert world.done == 1


def test_b2_transient_failures_do_not_use_up_the_budget() -> None:
    world = running(a_role("w", retry=(True, 1)))

    world.fail("w0", 200)
    again(world)
    world.fail("w0", 200)
    again(world)
    world.ok("w0")

    assert (world.task_code("w0"), world.task_counters("w0"), world.done) == (0, (2, 0), 0)


def test_b3_both_budgets_together_allow_four_pods() -> None:
    world = running(a_role("w", retry=(True, 1)), retry=(True, 1))

    for _ in range(3):
        world.fail("w0", 1)
        again(world)
    world.fail("w0", 1)

    assert (world.done, world.counters, world.task_counters("w0")) == (1, (1, 1), (1, 1))
    assert len(world.made) == 4


def test_b4_a_permanent_failure_is_tried_again_by_nobody() -> None:
    world = running(a_role("w", retry=(True, 1)), retry=(True, 1))

    world.fail("w0", 210)

    assert (world.done, world.counters, world.task_counters("w0")) == (210, (0, 0), (0, 0))


def test_b5_a_permanent_failure_beats_retry_always() -> None:
    world = running(a_role("w", retry=(True, -2)))

    world.fail("w0", 210)

    assert (world.task_code("w0"), world.done) == (210, 210)


def test_b6_success_with_a_fancy_retry_always_runs_again() -> None:
    world = running(a_role("w", retry=(True, -2)))

    world.ok("w0")

    assert world.task_counters("w0") == (1, 1)
    assert len(world.made) == 2


def test_b7_retry_always_keeps_a_service_running() -> None:
    world = running(a_role("w", retry=(False, -2)))

    world.ok("w0")
    again(world)

    assert (world.task_counters("w0"), world.state) == ((1, 1), State.RUNNING)


def test_b8_without_fancy_a_permanent_failure_is_any_failure() -> None:
    world = running(a_role("w", retry=(False, -1)))

    world.fail("w0", 210)

    assert world.task_counters("w0") == (1, 1)


def test_b9_retry_on_failure_ends_with_success() -> None:
    world = running(a_role("w", retry=(False, -1)))

    world.ok("w0")

    assert (world.done, world.task_counters("w0")) == (0, (0, 0))


def test_b10_the_framework_retries_until_it_succeeds_each_time_with_new_tasks() -> None:
    world = running(a_role("w"), retry=(False, -1))

    world.fail("w0", 1)
    again(world)
    world.fail("w0", 210)
    again(world)
    world.ok("w0")

    assert (world.done, world.counters, world.task_counters("w0")) == (0, (2, 2), (0, 0))


def test_b11_a_framework_that_is_always_retried_begins_a_new_attempt() -> None:
    world = running(a_role("w"), retry=(False, -2))

    world.ok("w0")

    assert (world.status.attempt.id, world.counters) == (1, (1, 1))
    stored = status_to_json(world.status, world.framework.name, UID)
    assert stored["attemptStatus"]["configMapUID"] == attempt_uid(UID, 1) != attempt_uid(UID, 0)


def test_b12_after_a_conflict_the_framework_stays_away_for_a_while() -> None:
    world = in_conflict()
    at_once = (world.state, world.status.retry.delay)

    world.after(59)
    shortly_before = (world.state, world.status.retry.delay)
    world.after(1)

    assert at_once == shortly_before == (State.ATTEMPT_COMPLETED, 60)
    assert (world.status.attempt.id, world.counters, world.status.retry.delay) == (1, (1, 0), None)


def test_b13_without_fancy_a_conflict_is_retried_at_once_and_counts() -> None:
    world = running(a_role("w"), retry=(False, 3))

    world.fail("w0", 201)

    assert (world.status.attempt.id, world.counters) == (1, (1, 1))
    assert all(status.retry.delay is None for status in world.saved)


def test_b14_a_task_does_not_wait_after_a_conflict() -> None:
    world = running(a_role("w", retry=(True, 0)), retry=(True, 0))

    world.fail("w0", 201)

    assert (world.task_counters("w0"), world.status.attempt.id) == ((1, 0), 0)
    assert len(world.made) == 2


def test_b15_a_killed_container_is_a_transient_failure_by_the_default_rules() -> None:
    world = running(a_role("w"), retry=(True, 0), rules=PlannerOptions())

    world.fail("w0", 137, reason="Error")

    assert (world.status.attempt.id, world.counters) == (1, (1, 0))


def test_b16_without_rules_a_killed_container_is_an_unknown_failure() -> None:
    world = running(a_role("w"), retry=(True, 0))

    world.fail("w0", 137, reason="Error")

    end = world.status.attempt.completion
    assert end is not None
    assert (world.done, end.phrase) == (137, "ContainerUnrecognizedFailed")


def test_b17_a_rescale_during_the_delay_waits_for_the_next_attempt() -> None:
    world = in_conflict()

    world.edit_role("w", tasks=3)
    world.sync()
    during = (world.state, len(world.tasks()))
    world.after(60)

    assert during == (State.ATTEMPT_COMPLETED, 2)
    assert (world.status.attempt.id, sorted(world.tasks())) == (1, ["w0", "w1", "w2"])


def test_b18_a_scheduled_retry_comes_even_if_the_policy_no_longer_allows_it() -> None:
    world = in_conflict()

    world.edit(retry=RetryPolicy(False, 0))
    world.after(59)
    before = world.status.attempt.id
    world.after(1)

    assert (before, world.status.attempt.id, world.counters) == (0, 1, (1, 1))


def test_b19_a_pod_deleted_by_others_is_replaced_once_it_is_gone() -> None:
    world = running(a_role("w", retry=(True, 0)))
    old = world.uid("w0")
    world.stuck.add(world.pod("w0"))

    world.delete_pod("w0")
    while_it_goes = (world.task("w0").state, world.task_code("w0"), len(world.made))
    world.confirm("w0")

    assert while_it_goes == (State.DELETING, -101, 1)
    task = world.task("w0")
    assert (world.task_counters("w0"), task.attempt.completion) == ((1, 0), None)
    assert task.attempt.pod_uid == world.uid("w0") != old
    listed = status_to_json(world.status, world.framework.name, UID)["attemptStatus"]["taskRoleStatuses"][0]
    assert listed["taskStatuses"][0]["attemptStatus"]["instanceUID"] == f"1_{world.uid('w0')}"


def test_b20_without_a_retry_a_pod_deleted_by_others_ends_the_framework() -> None:
    world = running()

    world.delete_pod("w0")

    assert world.done == -101


@pytest.mark.parametrize(
    ("between", "chance", "delay"),
    [
        pytest.param((60, 900), 0.0, 60, id="the least"),
        pytest.param((60, 900), 0.5, 480, id="in between"),
        pytest.param((60, 900), 1 - 2**-53, 900, id="the most"),
        pytest.param((60, 60), 0.9, 60, id="no choice"),
    ],
)
def test_b21_the_delay_after_a_conflict_is_drawn_between_both_ends(
    between: tuple[int, int], chance: float, delay: int
) -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=between)
    world = running(a_role("w"), retry=(True, 0), rules=rules)
    world.chance = chance

    world.fail("w0", 201)

    assert world.status.retry.delay == delay


def test_b22_a_new_try_of_a_task_starts_with_a_clean_record() -> None:
    world = running(a_role("w", retry=(True, 0)))
    before = world.task("w0")
    world.now += 5

    world.delete_pod("w0")
    begun = world.saved[-2].roles[0].tasks[0]

    assert (begun.start_time, begun.run_time) == (before.start_time, before.run_time)
    assert begun.attempt.start_time == before.attempt.start_time + 5
    facts = (begun.attempt.run_time, begun.attempt.ip, begun.attempt.pod_uid, begun.attempt.completion)
    assert facts == (None, None, None, None)


def test_b23_a_pod_that_is_turned_down_for_good_beats_retry_always() -> None:
    world = a_world(a_role("w", retry=(True, -2)))
    refusal = completion_for(Code.POD_CREATION_PERMANENT_ERROR, "the pod is invalid")
    world.refusals[world.pod("w0")] = [refusal]

    world.sync()

    assert world.done == -200
    assert world.made == []


def test_the_delay_is_drawn_once() -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures)
    world = running(a_role("w"), retry=(True, 0), rules=rules)
    world.fail("w0", 201)

    later = plan(world.framework, [], world.now + 59, rules=rules, chance=0.9)

    assert later.status.retry.delay == 60
    assert later.requeue_at == int(world.now) + 60
