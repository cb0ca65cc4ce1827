"""Deadlines, kept pods, retries, background roles, deletion and clocks in the planner."""

from typing import Any

import pytest

from launcher.core.planning.actions import CreatePod, DeletePod, ListPodsLive
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner, plan
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.spec import CleanPodPolicy, ExecutionType, RoleName
from launcher.core.status import State
from tests.core.builders import START, a_role, a_terminated_status
from tests.core.planning.harness import NO_FAILURE_SPEC, new_harness, running_harness

W = RoleName("w")
PENDING = {"phase": "Pending", "conditions": [
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
]}  # fmt: skip

# The first plan.


def test_a_new_framework_gets_one_pod_for_each_task() -> None:
    harness = new_harness(a_role("w", 2), a_role("ps"))

    result = plan(harness.framework, [], START)

    assert result.actions == (
        CreatePod(W, 0, 0, 0),
        CreatePod(W, 1, 0, 0),
        CreatePod(RoleName("ps"), 0, 0, 0),
    )
    assert result.status.state is State.CREATION_PENDING
    assert result.status.observed_generation == 1


def test_a_plan_after_all_actions_were_executed_has_no_actions() -> None:
    harness = running_harness(a_role("w", 2))

    second = harness.plan()

    assert (second.status, second.actions, second.requeue_at) == (harness.status, (), None)


def test_a_planner_has_no_status_before_its_first_pass() -> None:
    planner = Planner(new_harness().framework, PlannerOptions())

    with pytest.raises(ValueError, match="before the first pass"):
        planner.status()


# activeDeadlineSeconds.


def test_a_framework_that_runs_longer_than_its_deadline_is_stopped() -> None:
    harness = running_harness(
        a_role("w", 2, retry=(False, -2)), active_deadline_seconds=100, retry=(False, -2)
    )

    due = harness.plan().requeue_at
    harness.advance(99)
    before = harness.state
    harness.advance(1)

    assert (due, before) == (START + 100, State.RUNNING)
    assert (harness.final_code, harness.counters, harness.task_code("w0")) == (-211, (0, 0), -220)
    assert harness.existing_pods() == set()


def test_the_deadline_counts_from_the_start_and_not_from_the_creation() -> None:
    harness = new_harness(active_deadline_seconds=100, execution=ExecutionType.CREATE)
    harness.sync()
    harness.advance(1_000)
    suspended = harness.state

    harness.edit_spec(execution=ExecutionType.START)
    harness.advance(0)
    harness.advance(99)
    before = harness.attempt_code
    harness.advance(1)

    assert (suspended, before, harness.final_code) == (State.CREATION_PENDING, None, -211)


def test_the_deadline_spans_all_attempts() -> None:
    harness = running_harness(a_role("w"), active_deadline_seconds=100, retry=(False, -1))
    harness.now += 60
    harness.fail("w0", 1)
    harness.run_pods("w0")
    second_attempt = harness.status.attempt.id

    harness.advance(40)

    assert (second_attempt, harness.final_code, harness.counters) == (1, -211, (1, 1))


def test_the_deadline_does_not_wait_for_a_retry() -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(500, 500))
    harness = running_harness(a_role("w"), active_deadline_seconds=100, retry=(True, 0), options=options)
    harness.fail("w0", 201)

    due = harness.plan().requeue_at
    harness.advance(99)
    before = harness.state
    harness.advance(1)

    assert (due, before) == (START + 100, State.ATTEMPT_COMPLETED)
    assert (harness.final_code, harness.counters, len(harness.created_pods)) == (-211, (0, 0), 1)
    assert "exceeded while waiting to retry" in harness.status.message


def test_pods_are_stopped_at_the_deadline_with_any_clean_pod_policy() -> None:
    harness = running_harness(a_role("w"), active_deadline_seconds=100, clean_pods=CleanPodPolicy.NONE)

    harness.advance(100)

    assert (harness.final_code, harness.existing_pods()) == (-211, set())


# task.pendingDeadlineSeconds.


def test_a_pod_that_is_pending_past_its_deadline_fails() -> None:
    harness = new_harness(a_role("w", pending_deadline_seconds=60))
    harness.sync()
    harness.report_status("w0", PENDING, node="")

    harness.advance(59)
    before = harness.task("w0").state
    harness.advance(1)

    assert (before, harness.final_code, harness.existing_pods()) == (State.PREPARING, -112, set())
    completion = harness.task("w0").attempt.completion
    assert completion is not None
    assert completion.diagnostics == "pendingDeadlineSeconds (60) exceeded (Unschedulable: 0/3 nodes)"


# task.failFast.


def an_invalid_image() -> dict[str, Any]:
    waiting = {"reason": "InvalidImageName", "message": "couldn't parse image name"}
    return {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}


def test_a_pod_that_can_never_start_fails_its_attempt_after_a_grace_and_is_deleted() -> None:
    harness = new_harness(a_role("w", retry=(True, 5)))
    harness.sync()
    harness.report_status("w0", an_invalid_image())
    harness.sync()

    due = harness.plan().requeue_at
    before = harness.task("w0").state
    harness.advance(10)
    harness.sync()

    assert due == START + 10
    assert before is State.PREPARING
    completion = harness.task("w0").attempt.completion
    assert completion is not None
    assert (completion.code, completion.phrase) == (-201, "PodStartPermanentError")
    assert "couldn't parse image name" in completion.diagnostics
    assert harness.task_counters("w0") == (0, 0), "a permanent failure is not retried"
    assert harness.existing_pods() == set()


def test_without_fail_fast_a_pod_that_can_never_start_waits() -> None:
    harness = new_harness(a_role("w", fail_fast=False))
    harness.sync()
    harness.report_status("w0", an_invalid_image())
    harness.sync()

    harness.advance(100_000)

    assert harness.task("w0").state is State.PREPARING
    assert harness.plan().requeue_at is None


def test_a_pod_whose_missing_secret_is_created_in_time_does_not_fail() -> None:
    harness = new_harness(a_role("w"))
    harness.sync()
    waiting = {"reason": "CreateContainerConfigError", "message": 'secret "s" not found'}
    status = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}
    harness.report_status("w0", status)
    harness.advance(60)
    harness.run_pods("w0")

    harness.advance(1000)

    assert harness.task("w0").state is State.RUNNING


def test_a_pod_that_runs_before_its_pending_deadline_does_not_fail() -> None:
    harness = new_harness(a_role("w", pending_deadline_seconds=60))
    harness.sync()
    harness.advance(59)

    harness.run_pods("w0")
    harness.advance(1_000)

    assert harness.state is State.RUNNING


def test_the_pending_deadline_starts_again_when_a_pod_is_pending_again() -> None:
    harness = new_harness(a_role("w", pending_deadline_seconds=60))
    harness.sync()
    harness.run_pods("w0")
    harness.now += 1_000

    harness.report_status("w0", PENDING)
    harness.sync()
    pending = harness.task("w0").state
    harness.advance(60)

    assert (pending, harness.final_code) == (State.PREPARING, -112)


def test_a_pod_past_its_pending_deadline_is_deleted_before_the_retry_delay() -> None:
    """The pod has no logs to keep and could still start."""
    harness = new_harness(a_role("w", pending_deadline_seconds=60, retry=(False, 3)))
    harness.sync()
    harness.advance(60)
    harness.advance(60)

    waiting = (harness.task("w0").state, harness.task("w0").retry.delay, harness.existing_pods())
    harness.advance(10)

    assert waiting == (State.ATTEMPT_COMPLETED, 10, set())
    assert (harness.task_counters("w0"), harness.existing_pods()) == ((2, 2), {"w0"})


# ttlSecondsAfterFinished.


def test_a_completed_framework_is_kept_for_thirty_days_by_default() -> None:
    harness = running_harness(options=PlannerOptions())
    harness.succeed("w0")

    due = harness.plan().requeue_at
    harness.advance(30 * 24 * 3600 - 1)
    before = harness.is_deleted
    harness.advance(1)

    assert (due, before, harness.is_deleted) == (START + 30 * 24 * 3600, False, True)


@pytest.mark.parametrize("seconds", [0, 50])
def test_a_completed_framework_is_deleted_after_its_ttl(seconds: int) -> None:
    harness = running_harness(a_role("w"), ttl_seconds=seconds)
    harness.now += 10

    harness.succeed("w0")
    immediately = harness.is_deleted
    harness.advance(seconds)

    assert (immediately, harness.is_deleted) == (seconds == 0, True)


def test_the_ttl_of_a_completed_framework_can_be_changed() -> None:
    harness = running_harness(a_role("w"))
    harness.succeed("w0")

    harness.edit_spec(ttl_seconds=50)
    harness.sync()
    harness.advance(50)

    assert harness.is_deleted


# cleanPodPolicy.


@pytest.mark.parametrize(
    ("clean", "left"),
    [
        (CleanPodPolicy.NONE, {"w0", "w1", "w2"}),
        (CleanPodPolicy.RUNNING, {"w0", "w1"}),
        (CleanPodPolicy.ALL, set()),
    ],
)
def test_the_clean_pod_policy_decides_which_pods_are_deleted_when_the_attempt_completes(
    clean: CleanPodPolicy, left: set[str]
) -> None:
    harness = running_harness(a_role("w", 3, min_counts=(1, -1)), clean_pods=clean)
    harness.succeed("w0")

    harness.fail("w1", 1)

    assert (harness.final_code, harness.task_code("w2")) == (1, -220)
    assert harness.existing_pods() == left


def test_a_framework_completes_only_after_its_pods_are_deleted() -> None:
    harness = running_harness(a_role("w", 2), clean_pods=CleanPodPolicy.ALL)
    harness.stuck_pods.add(harness.pod_name("w0"))

    harness.fail("w0", 1)
    during_deletion = (harness.state, harness.existing_pods())
    harness.confirm_deletion("w0")

    assert during_deletion == (State.DELETING, {"w0"})
    assert harness.final_code == 1


def test_a_terminated_pod_that_is_stuck_in_deletion_is_force_deleted() -> None:
    harness = running_harness(a_role("w", graceful_deletion_seconds=30), clean_pods=CleanPodPolicy.ALL)
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.succeed("w0")

    harness.advance(29)
    before = (harness.state, list(harness.force_deleted))
    harness.advance(1)

    assert before == (State.DELETING, [])
    assert (harness.final_code, harness.force_deleted) == (0, [harness.pod_name("w0")])


def test_a_kept_pod_that_another_client_deletes_and_that_is_stuck_is_force_deleted() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(-1, -1), graceful_deletion_seconds=30))
    harness.succeed("w0")
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.delete_pod("w0")

    harness.advance(30)

    assert harness.force_deleted == [harness.pod_name("w0")]
    assert (harness.task_code("w0"), harness.state) == (0, State.RUNNING)


def test_pods_that_were_left_running_are_deleted_before_the_next_attempt() -> None:
    harness = running_harness(a_role("w", 2), clean_pods=CleanPodPolicy.NONE, retry=(False, 1))
    harness.stuck_pods.add(harness.pod_name("w1"))

    harness.fail("w0", 1)
    during_deletion = (harness.state, harness.existing_pods(), len(harness.created_pods))
    harness.confirm_deletion("w1")

    assert during_deletion == (State.ATTEMPT_COMPLETED, {"w1"}, 2)
    assert (harness.status.attempt.id, harness.existing_pods(), len(harness.created_pods)) == (
        1,
        {"w0", "w1"},
        4,
    )


def test_the_next_attempt_starts_only_after_a_live_list_shows_no_pods() -> None:
    harness = running_harness(a_role("w"), retry=(False, 1))
    harness.report_status("w0", a_terminated_status(1))
    harness.crash(executed=9)
    harness.recorded_attempt = 0

    cached = harness.plan(pods_are_live=False)
    options = harness.options
    live = plan(harness.framework, [], harness.now, options=options, pods_are_live=True, recorded_attempt=0)

    assert cached.actions == (ListPodsLive(),)
    assert (cached.status.attempt.id, live.status.attempt.id) == (0, 1)


def test_stop_before_the_next_attempt_keeps_the_terminated_pods_of_the_last_one() -> None:
    harness = running_harness(a_role("w"), retry=(False, 1))
    harness.report_status("w0", a_terminated_status(1))
    planner = Planner(harness.framework, harness.options)
    planner.observe_pod(pod_from_json(harness.pods[harness.pod_name("w0")]))
    before_stop = planner.plan(harness.now).actions

    harness.stop()
    planner.update(harness.framework)
    planner.enqueue(harness.pod_name("w0"))
    after_stop = planner.plan(harness.now).actions

    assert (before_stop, after_stop) == ((DeletePod(harness.pod_name("w0"), "pod-0"),), ())
    assert planner.status().state is State.COMPLETED


@pytest.mark.parametrize("deadline", [None, 30])
def test_stop_and_deadline_during_a_retry_delay_stop_pods_that_were_left_running(
    deadline: int | None,
) -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    policies = {"retry": (True, 0), "clean_pods": CleanPodPolicy.NONE, "active_deadline_seconds": deadline}
    harness = running_harness(a_role("w", 2), options=options, **policies)
    harness.fail("w0", 201)
    left = harness.existing_pods()

    if deadline is None:
        harness.stop()
    harness.advance(30)

    assert left == {"w0", "w1"}
    assert (harness.final_code, harness.existing_pods()) == (-210 if deadline is None else -211, {"w0"})


def test_kept_pods_are_not_changed_after_a_restart() -> None:
    harness = running_harness(a_role("w", 2))
    harness.exit_pods({"w0": 0, "w1": 0})
    kept = dict(harness.pods)

    harness.restart()
    harness.advance(1_000)

    assert harness.final_code == 0
    assert harness.pods == kept


def test_the_clean_pod_policy_of_a_completed_framework_can_be_changed() -> None:
    harness = running_harness(a_role("w", 2), clean_pods=CleanPodPolicy.NONE)
    harness.fail("w0", 1)
    status = harness.status

    harness.edit_spec(clean_pods=CleanPodPolicy.RUNNING)
    harness.sync()
    without_running = harness.existing_pods()
    harness.edit_spec(clean_pods=CleanPodPolicy.ALL)
    harness.sync()

    assert (without_running, harness.existing_pods()) == ({"w0"}, set())
    assert harness.status is status


# Retries of tasks and their pods.


def test_a_failed_pod_is_kept_during_the_retry_delay_of_its_task() -> None:
    harness = running_harness(a_role("w", retry=(False, 5)))
    harness.fail("w0", 1)
    harness.run_pods("w0")
    harness.fail("w0", 1)

    harness.advance(9)
    waiting = (harness.task("w0").state, harness.task("w0").retry.delay, harness.pod_uid("w0"))
    harness.advance(1)

    assert waiting == (State.DELETION_PENDING, 10, "pod-1")
    assert (harness.pod_uid("w0"), harness.task_counters("w0")) == ("pod-2", (2, 2))


def test_the_retry_delay_does_not_change_when_the_pod_is_deleted() -> None:
    harness = running_harness(a_role("w", retry=(False, 5)))
    harness.fail("w0", 1)
    harness.run_pods("w0")
    harness.fail("w0", 1)

    harness.delete_pod("w0")
    waiting = (harness.task("w0").state, harness.task_code("w0"), harness.existing_pods())
    harness.advance(10)

    assert waiting == (State.ATTEMPT_COMPLETED, 1, set())
    assert (harness.existing_pods(), harness.task_counters("w0")) == ({"w0"}, (2, 2))


def test_a_task_that_ran_for_ten_minutes_is_retried_without_delay() -> None:
    harness = running_harness(a_role("w", retry=(False, 5)))
    harness.fail("w0", 1)
    harness.run_pods("w0")
    harness.now += 600

    harness.fail("w0", 1)

    assert (harness.task_counters("w0"), harness.pod_uid("w0")) == ((2, 2), "pod-2")


def test_a_task_in_its_retry_delay_completes_with_the_attempt() -> None:
    harness = running_harness(a_role("a", retry=(False, 5)), a_role("b"))
    harness.fail("a0", 1)
    harness.run_pods("a0")
    harness.fail("a0", 1)

    harness.fail("b0", 2)

    assert (harness.final_code, harness.task_code("a0"), harness.task_counters("a0")) == (2, 1, (1, 1))
    assert harness.task("a0").retry.delay is None
    assert harness.existing_pods() == {"a0", "b0"}


# Background roles.


def test_an_attempt_completes_without_its_background_roles() -> None:
    harness = running_harness(a_role("w"), a_role("board", background=True))

    harness.succeed("w0")

    assert (harness.final_code, harness.trigger, harness.task_code("board0")) == (0, "w0", -220)
    assert harness.existing_pods() == {"w0"}


def test_a_failed_background_role_does_not_complete_the_attempt() -> None:
    harness = running_harness(a_role("w"), a_role("board", 2, min_counts=(1, 1), background=True))

    harness.exit_pods({"board0": 1, "board1": 0})

    assert harness.state is State.RUNNING


def test_a_framework_with_only_background_roles_never_completes() -> None:
    harness = running_harness(a_role("board", background=True))

    harness.succeed("board0")

    assert (harness.state, harness.task("board0").state) == (State.RUNNING, State.COMPLETED)


# Deletion of the Framework.


def test_a_suspended_framework_that_is_deleted_creates_no_pods() -> None:
    harness = new_harness(execution=ExecutionType.CREATE)
    harness.sync()

    harness.delete_framework()
    harness.sync()

    assert (harness.state, harness.attempt_code, harness.created_pods) == (State.ATTEMPT_COMPLETED, -100, [])


def test_a_completed_framework_in_deletion_is_not_deleted_again() -> None:
    harness = running_harness(a_role("w"), ttl_seconds=5)
    harness.succeed("w0")

    harness.delete_framework()
    harness.advance(5)

    assert harness.plan().actions == ()


# Clocks.


def test_a_retry_without_a_delay_is_immediate_although_the_clock_was_set_back() -> None:
    harness = running_harness(a_role("w", 2, retry=(False, 1)), a_role("x"), retry=(False, 1))
    harness.stuck_pods |= {harness.pod_name("w0"), harness.pod_name("w1")}
    harness.fail("w0", 1)

    harness.now -= 50
    harness.confirm_deletion("w0")
    task = (harness.task_counters("w0"), harness.existing_pods())
    harness.fail("x0", 1)
    harness.now -= 50
    harness.confirm_deletion("w1")

    assert task == ((1, 1), {"w0", "w1", "x0"})
    assert harness.status.attempt.id == 1


def test_a_clock_that_is_set_back_does_not_extend_a_retry_delay() -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    harness = running_harness(a_role("w"), retry=(True, 0), options=options)
    harness.fail("w0", 201)

    harness.advance(-3_600)

    assert harness.status.attempt.id == 1


@pytest.mark.parametrize("jump", [-1, 0.25])
def test_a_small_clock_jump_does_not_shorten_a_retry_delay(jump: float) -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    harness = running_harness(a_role("w"), retry=(True, 0), options=options)
    harness.fail("w0", 201)

    harness.advance(jump)
    early = harness.status.attempt.id
    harness.advance(60 - jump)

    assert (early, harness.status.attempt.id) == (0, 1)
