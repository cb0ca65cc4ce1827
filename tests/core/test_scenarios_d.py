"""Scenario rows D: Create holds, Start starts, Stop ends."""

import pytest

from launcher.core.planning.options import PlannerOptions
from launcher.core.spec import CleanPodPolicy, ExecutionType
from launcher.core.status import State
from tests.core.world import NO_FAILURE_SPEC, a_role, a_world, running


def test_d1_create_holds_until_start() -> None:
    world = a_world(execution=ExecutionType.CREATE)

    world.sync()
    world.after(1_000)
    held = (world.state, sorted(world.tasks()), len(world.made))
    world.edit(execution=ExecutionType.START)
    world.sync()
    world.run("w0")

    assert held == (State.CREATION_PENDING, ["w0"], 0)
    assert world.state is State.RUNNING


def test_d2_what_was_held_can_be_stopped_without_ever_running() -> None:
    world = a_world(execution=ExecutionType.CREATE)
    world.sync()

    world.stop()
    world.sync()

    assert (world.done, world.task_code("w0"), world.task("w0").state) == (-210, -220, State.COMPLETED)
    assert (world.made, world.status.run_time) == ([], None)


@pytest.mark.parametrize("clean", CleanPodPolicy)
def test_d3_stop_is_never_retried(clean: CleanPodPolicy) -> None:
    world = running(a_role("w", 2), retry=(False, -2), clean_pods=clean)

    world.stop()
    world.sync()

    assert (world.done, world.counters) == (-210, (0, 0))
    assert (world.task_code("w0"), world.task_code("w1")) == (-220, -220)
    assert world.live() == set()


def test_d4_stop_during_a_retry_delay_ends_at_once_and_makes_no_attempt() -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    world = running(a_role("w", 2), retry=(True, 0), rules=rules)
    world.fail("w0", 201)

    world.stop()
    world.sync()

    assert (world.done, world.counters, world.status.retry.delay) == (-210, (0, 0), None)
    assert len(world.made) == 2


def test_d5_what_is_created_stopped_ends_at_once() -> None:
    world = a_world(execution=ExecutionType.STOP)

    world.sync()

    assert world.done == -210
    assert world.made == []


def test_d6_a_pod_that_was_created_but_not_seen_yet_is_deleted_by_stop() -> None:
    """There is no ConfigMap to be unseen; a pod whose creation was not recorded is the like of it."""
    world = a_world()
    world.crash(done=1)
    created = len(world.pods)

    world.stop()
    world.sync()

    assert created == 1
    assert (world.done, world.live()) == (-210, set())


def test_d7_create_holds_the_next_attempt_and_not_the_one_that_runs() -> None:
    """Validation refuses the change from Start to Create; this is what the core makes of it all the same."""
    world = running(a_role("w"), retry=(False, 1))

    world.edit(execution=ExecutionType.CREATE)
    world.sync()
    unaffected = world.state
    world.fail("w0", 1)
    world.after(1_000)

    assert unaffected is State.RUNNING
    assert (world.state, world.status.attempt.id, world.live()) == (State.CREATION_PENDING, 1, set())


def test_d8_a_rescale_while_held_is_carried_out_at_the_start() -> None:
    world = a_world(a_role("w", 3), execution=ExecutionType.CREATE)
    world.sync()

    world.edit_role("w", tasks=1)
    world.sync()
    held = {
        short: (task.state, task.deletion_pending, world.task_code(short))
        for short, task in world.tasks().items()
    }
    world.edit(execution=ExecutionType.START)
    world.sync()

    removed = (State.CREATION_PENDING, True, -230)
    assert held == {"w0": (State.CREATION_PENDING, False, None), "w1": removed, "w2": removed}
    assert (sorted(world.tasks()), world.live(), len(world.made)) == (["w0"], {"w0"}, 1)


def test_d9_stop_of_a_later_attempt_keeps_the_counters() -> None:
    world = running(a_role("w"), retry=(False, -2))
    world.ok("w0")
    world.run("w0")

    world.stop()
    world.sync()

    assert (world.done, world.counters) == (-210, (1, 1))


def test_stop_after_a_final_end_keeps_that_end() -> None:
    world = running(a_role("w"), clean_pods=CleanPodPolicy.ALL)
    world.stuck.add(world.pod("w0"))
    world.fail("w0", 3)
    before = world.state

    world.stop()
    world.sync()
    world.confirm("w0")

    assert before is State.DELETING
    assert world.done == 3


def test_a_pod_that_was_begun_before_create_was_written_is_not_forgotten() -> None:
    world = a_world()
    world.crash(done=1)

    world.edit(execution=ExecutionType.CREATE)
    world.sync()
    world.run("w0")

    assert world.state is State.RUNNING
