"""What a plan does about deadlines, kept pods, retries, background roles, deletion and clocks."""

import pytest

from launcher.core.planning.actions import CreatePod, DeletePod, ListPodsLive
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner, plan
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.spec import CleanPodPolicy, ExecutionType, RoleName
from launcher.core.status import State
from tests.core.world import NO_FAILURE_SPEC, START, a_role, a_world, an_ended_status, running

W = RoleName("w")
PENDING = {"phase": "Pending", "conditions": [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
]}  # fmt: skip

# The first plan.


def test_a_new_framework_gets_one_pod_for_each_task() -> None:
    world = a_world(a_role("w", 2), a_role("ps"))

    todo = plan(world.framework, [], START)

    assert todo.actions == (CreatePod(W, 0, 0, 0), CreatePod(W, 1, 0, 0), CreatePod(RoleName("ps"), 0, 0, 0))
    assert todo.status.state is State.CREATION_PENDING
    assert todo.status.observed_generation == 1


def test_a_plan_that_was_carried_out_leaves_nothing_to_do() -> None:
    world = running(a_role("w", 2))

    again = world.plan()

    assert (again.status, again.actions, again.requeue_at) == (world.status, (), None)


def test_nothing_is_known_before_the_first_look() -> None:
    planner = Planner(a_world().framework, PlannerOptions())

    with pytest.raises(ValueError, match="before its first look"):
        planner.status()


# activeDeadlineSeconds.


def test_a_framework_that_runs_longer_than_its_deadline_is_stopped() -> None:
    world = running(a_role("w", 2, retry=(False, -2)), active_deadline_seconds=100, retry=(False, -2))

    due = world.plan().requeue_at
    world.after(99)
    before = world.state
    world.after(1)

    assert (due, before) == (START + 100, State.RUNNING)
    assert (world.done, world.counters, world.task_code("w0")) == (-211, (0, 0), -220)
    assert world.live() == set()


def test_the_deadline_counts_from_the_start_and_not_from_the_creation() -> None:
    world = a_world(active_deadline_seconds=100, execution=ExecutionType.CREATE)
    world.sync()
    world.after(1_000)
    held = world.state

    world.edit(execution=ExecutionType.START)
    world.after(0)
    world.after(99)
    before = world.code
    world.after(1)

    assert (held, before, world.done) == (State.CREATION_PENDING, None, -211)


def test_the_deadline_counts_through_all_attempts() -> None:
    world = running(a_role("w"), active_deadline_seconds=100, retry=(False, -1))
    world.now += 60
    world.fail("w0", 1)
    world.run("w0")
    again = world.status.attempt.id

    world.after(40)

    assert (again, world.done, world.counters) == (1, -211, (1, 1))


def test_the_deadline_does_not_wait_for_a_retry() -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(500, 500))
    world = running(a_role("w"), active_deadline_seconds=100, retry=(True, 0), rules=rules)
    world.fail("w0", 201)

    due = world.plan().requeue_at
    world.after(99)
    before = world.state
    world.after(1)

    assert (due, before) == (START + 100, State.ATTEMPT_COMPLETED)
    assert (world.done, world.counters, len(world.made)) == (-211, (0, 0), 1)
    assert "before its retry after ContainerTransientConflictFailed (201)" in world.status.message


def test_pods_stop_at_the_deadline_whatever_the_policy_for_pods() -> None:
    world = running(a_role("w"), active_deadline_seconds=100, clean_pods=CleanPodPolicy.NONE)

    world.after(100)

    assert (world.done, world.live()) == (-211, set())


# task.pendingDeadlineSeconds.


def test_a_pod_that_stays_pending_for_too_long_is_given_up() -> None:
    world = a_world(a_role("w", pending_deadline_seconds=60))
    world.sync()
    world.status_of("w0", PENDING, node="")

    world.after(59)
    before = world.task("w0").state
    world.after(1)

    assert (before, world.done, world.live()) == (State.PREPARING, -112, set())
    end = world.task("w0").attempt.completion
    assert end is not None
    assert end.diagnostics == "its pod was still pending after 60 s (Unschedulable: 0/3 nodes)"


def test_a_pod_that_runs_in_time_is_not_given_up() -> None:
    world = a_world(a_role("w", pending_deadline_seconds=60))
    world.sync()
    world.after(59)

    world.run("w0")
    world.after(1_000)

    assert world.state is State.RUNNING


def test_a_pod_that_is_pending_again_has_its_time_again() -> None:
    world = a_world(a_role("w", pending_deadline_seconds=60))
    world.sync()
    world.run("w0")
    world.now += 1_000

    world.status_of("w0", PENDING)
    world.sync()
    again = world.task("w0").state
    world.after(60)

    assert (again, world.done) == (State.PREPARING, -112)


def test_a_pod_given_up_is_deleted_before_the_wait_for_its_retry() -> None:
    """It has no logs to keep, and might start after all."""
    world = a_world(a_role("w", pending_deadline_seconds=60, retry=(False, 3)))
    world.sync()
    world.after(60)
    world.after(60)

    waiting = (world.task("w0").state, world.task("w0").retry.delay, world.live())
    world.after(10)

    assert waiting == (State.ATTEMPT_COMPLETED, 10, set())
    assert (world.task_counters("w0"), world.live()) == ((2, 2), {"w0"})


# The time after the end.


def test_a_finished_framework_is_kept_for_thirty_days() -> None:
    world = running(rules=PlannerOptions())
    world.ok("w0")

    due = world.plan().requeue_at
    world.after(30 * 24 * 3600 - 1)
    before = world.gone
    world.after(1)

    assert (due, before, world.gone) == (START + 30 * 24 * 3600, False, True)


@pytest.mark.parametrize("seconds", [0, 50])
def test_a_framework_may_have_its_own_time_after_the_end(seconds: int) -> None:
    world = running(a_role("w"), ttl_seconds=seconds)
    world.now += 10

    world.ok("w0")
    at_once = world.gone
    world.after(seconds)

    assert (at_once, world.gone) == (seconds == 0, True)


def test_the_time_after_the_end_may_be_changed_after_the_end() -> None:
    world = running(a_role("w"))
    world.ok("w0")

    world.edit(ttl_seconds=50)
    world.sync()
    world.after(50)

    assert world.gone


# cleanPodPolicy.


@pytest.mark.parametrize(
    ("clean", "left"),
    [
        (CleanPodPolicy.NONE, {"w0", "w1", "w2"}),
        (CleanPodPolicy.RUNNING, {"w0", "w1"}),
        (CleanPodPolicy.ALL, set()),
    ],
)
def test_what_becomes_of_pods_when_the_attempt_is_over(clean: CleanPodPolicy, left: set[str]) -> None:
    world = running(a_role("w", 3, ends=(1, -1)), clean_pods=clean)
    world.ok("w0")

    world.fail("w1", 1)

    assert (world.done, world.task_code("w2")) == (1, -220)
    assert world.live() == left


def test_the_framework_is_not_over_before_everything_that_has_to_go_is_gone() -> None:
    world = running(a_role("w", 2), clean_pods=CleanPodPolicy.ALL)
    world.stuck.add(world.pod("w0"))

    world.fail("w0", 1)
    while_it_goes = (world.state, world.live())
    world.confirm("w0")

    assert while_it_goes == (State.DELETING, {"w0"})
    assert world.done == 1


def test_an_ended_pod_that_does_not_go_is_removed_by_force_too() -> None:
    world = running(a_role("w", graceful_deletion_seconds=30), clean_pods=CleanPodPolicy.ALL)
    world.stuck.add(world.pod("w0"))
    world.ok("w0")

    world.after(29)
    before = (world.state, list(world.forced))
    world.after(1)

    assert before == (State.DELETING, [])
    assert (world.done, world.forced) == (0, [world.pod("w0")])


def test_a_kept_pod_that_others_delete_and_that_does_not_go_is_removed_by_force_too() -> None:
    world = running(a_role("w", 2, ends=(-1, -1), graceful_deletion_seconds=30))
    world.ok("w0")
    world.stuck.add(world.pod("w0"))
    world.delete_pod("w0")

    world.after(30)

    assert world.forced == [world.pod("w0")]
    assert (world.task_code("w0"), world.state) == (0, State.RUNNING)


def test_pods_left_running_go_before_another_attempt() -> None:
    world = running(a_role("w", 2), clean_pods=CleanPodPolicy.NONE, retry=(False, 1))
    world.stuck.add(world.pod("w1"))

    world.fail("w0", 1)
    meanwhile = (world.state, world.live(), len(world.made))
    world.confirm("w1")

    assert meanwhile == (State.ATTEMPT_COMPLETED, {"w1"}, 2)
    assert (world.status.attempt.id, world.live(), len(world.made)) == (1, {"w0", "w1"}, 4)


def test_another_attempt_begins_only_when_the_store_itself_has_no_pod_left() -> None:
    world = running(a_role("w"), retry=(False, 1))
    world.status_of("w0", an_ended_status(1))
    world.crash(done=9)

    asked = world.plan(fresh=False)
    rules = world.rules
    confirmed = plan(world.framework, [], world.now, rules=rules, fresh=True)

    assert asked.actions == (ListPodsLive(),)
    assert (asked.status.attempt.id, confirmed.status.attempt.id) == (0, 1)


def test_stop_while_the_last_attempts_pods_are_swept_away_keeps_those_that_are_left() -> None:
    world = running(a_role("w"), retry=(False, 1))
    world.status_of("w0", an_ended_status(1))
    planner = Planner(world.framework, world.rules)
    planner.attempt_state.observe_pod(pod_from_json(world.pods[world.pod("w0")]))
    swept = planner.plan(world.now).actions

    world.stop()
    planner.update(world.framework)
    planner.attempt_state.enqueue(world.pod("w0"))
    kept = planner.plan(world.now).actions

    assert (swept, kept) == ((DeletePod(world.pod("w0"), "pod-0"),), ())
    assert planner.status().state is State.COMPLETED


@pytest.mark.parametrize("deadline", [None, 30])
def test_stop_and_deadline_during_a_retry_delay_stop_pods_that_were_left_running(
    deadline: int | None,
) -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    policies = {"retry": (True, 0), "clean_pods": CleanPodPolicy.NONE, "active_deadline_seconds": deadline}
    world = running(a_role("w", 2), rules=rules, **policies)
    world.fail("w0", 201)
    left = world.live()

    if deadline is None:
        world.stop()
    world.after(30)

    assert left == {"w0", "w1"}
    assert (world.done, world.live()) == (-210 if deadline is None else -211, {"w0"})


def test_kept_pods_are_not_touched_again() -> None:
    world = running(a_role("w", 2))
    world.end({"w0": 0, "w1": 0})
    kept = dict(world.pods)

    world.restart()
    world.after(1_000)

    assert world.done == 0
    assert world.pods == kept


def test_the_policy_for_pods_may_be_changed_after_the_end() -> None:
    world = running(a_role("w", 2), clean_pods=CleanPodPolicy.NONE)
    world.fail("w0", 1)
    status = world.status

    world.edit(clean_pods=CleanPodPolicy.RUNNING)
    world.sync()
    without_running = world.live()
    world.edit(clean_pods=CleanPodPolicy.ALL)
    world.sync()

    assert (without_running, world.live()) == ({"w0"}, set())
    assert world.status is status


# Retries of tasks and their pods.


def test_logs_stay_readable_while_a_task_waits_for_its_retry() -> None:
    world = running(a_role("w", retry=(False, 5)))
    world.fail("w0", 1)
    world.run("w0")
    world.fail("w0", 1)

    world.after(9)
    waiting = (world.task("w0").state, world.task("w0").retry.delay, world.uid("w0"))
    world.after(1)

    assert waiting == (State.DELETION_PENDING, 10, "pod-1")
    assert (world.uid("w0"), world.task_counters("w0")) == ("pod-2", (2, 2))


def test_a_retry_keeps_its_time_when_its_pod_is_deleted_meanwhile() -> None:
    world = running(a_role("w", retry=(False, 5)))
    world.fail("w0", 1)
    world.run("w0")
    world.fail("w0", 1)

    world.delete_pod("w0")
    waiting = (world.task("w0").state, world.task_code("w0"), world.live())
    world.after(10)

    assert waiting == (State.ATTEMPT_COMPLETED, 1, set())
    assert (world.live(), world.task_counters("w0")) == ({"w0"}, (2, 2))


def test_a_task_that_lasted_is_retried_at_once_again() -> None:
    world = running(a_role("w", retry=(False, 5)))
    world.fail("w0", 1)
    world.run("w0")
    world.now += 600

    world.fail("w0", 1)

    assert (world.task_counters("w0"), world.uid("w0")) == ((2, 2), "pod-2")


def test_a_task_waiting_for_its_retry_is_over_when_the_attempt_is() -> None:
    world = running(a_role("a", retry=(False, 5)), a_role("b"))
    world.fail("a0", 1)
    world.run("a0")
    world.fail("a0", 1)

    world.fail("b0", 2)

    assert (world.done, world.task_code("a0"), world.task_counters("a0")) == (2, 1, (1, 1))
    assert world.task("a0").retry.delay is None
    assert world.live() == {"a0", "b0"}


# Background roles.


def test_a_background_role_does_not_keep_the_attempt_from_ending() -> None:
    world = running(a_role("w"), a_role("board", background=True))

    world.ok("w0")

    assert (world.done, world.trigger, world.task_code("board0")) == (0, "w0", -220)
    assert world.live() == {"w0"}


def test_a_background_role_that_fails_ends_nothing() -> None:
    world = running(a_role("w"), a_role("board", 2, ends=(1, 1), background=True))

    world.end({"board0": 1, "board1": 0})

    assert world.state is State.RUNNING


def test_background_tasks_alone_never_end() -> None:
    world = running(a_role("board", background=True))

    world.ok("board0")

    assert (world.state, world.task("board0").state) == (State.RUNNING, State.COMPLETED)


# Deletion of the Framework.


def test_a_framework_deleted_while_held_ends_without_a_pod() -> None:
    world = a_world(execution=ExecutionType.CREATE)
    world.sync()

    world.delete_framework()
    world.sync()

    assert (world.state, world.code, world.made) == (State.ATTEMPT_COMPLETED, -100, [])


def test_a_finished_framework_that_is_being_deleted_is_not_deleted_again() -> None:
    world = running(a_role("w"), ttl_seconds=5)
    world.ok("w0")

    world.delete_framework()
    world.after(5)

    assert world.plan().actions == ()


# Clocks.


def test_a_retry_without_a_delay_does_not_wait_for_a_clock_that_was_set_back() -> None:
    world = running(a_role("w", 2, retry=(False, 1)), a_role("x"), retry=(False, 1))
    world.stuck |= {world.pod("w0"), world.pod("w1")}
    world.fail("w0", 1)

    world.now -= 50
    world.confirm("w0")
    task = (world.task_counters("w0"), world.live())
    world.fail("x0", 1)
    world.now -= 50
    world.confirm("w1")

    assert task == ((1, 1), {"w0", "w1", "x0"})
    assert world.status.attempt.id == 1


def test_a_clock_that_is_set_back_by_more_than_the_pause_does_not_make_it_longer() -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    world = running(a_role("w"), retry=(True, 0), rules=rules)
    world.fail("w0", 201)

    world.after(-3_600)

    assert world.status.attempt.id == 1


@pytest.mark.parametrize("jump", [-1, 0.25])
def test_a_clock_that_jumps_only_delays(jump: float) -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    world = running(a_role("w"), retry=(True, 0), rules=rules)
    world.fail("w0", 201)

    world.after(jump)
    early = world.status.attempt.id
    world.after(60 - jump)

    assert (early, world.status.attempt.id) == (0, 1)
