"""Gangs in the planner: the condition and its messages, the timeout, retries and rescales."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning.actions import ListPodsLive
from launcher.core.planning.gang import GANG_PLACED, is_placed, is_unplaced, members, min_members
from launcher.core.planning.planner import Planner
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.spec import CleanPodPolicy, ExecutionType, Gang, RoleName, TaskRole
from launcher.core.status import Condition, State
from tests.core.builders import START, a_role, a_spec
from tests.core.planning.harness import PlannerHarness, new_harness

UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes fit."}
    ],
}


def unscheduled_gang(
    *roles: TaskRole, timeout: int | None = 60, min_tasks: int | None = None, **spec: Any
) -> PlannerHarness:
    """A harness with a gang of these roles, by default of three workers, whose pods exist and have no node."""
    gang = Gang(timeout_seconds=timeout, min_tasks=min_tasks)
    harness = new_harness(*(roles or (a_role("w", 3),)), gang=gang, **spec)
    harness.sync()
    return harness


def gang_condition(harness: PlannerHarness) -> Condition:
    found = harness.status.condition(GANG_PLACED)
    assert found is not None
    return found


def mark_unschedulable(harness: PlannerHarness, task: str) -> None:
    """Sets the condition that the scheduler reports for a pod without a node."""
    pod = harness.pods[harness.pod_name(task)]
    harness.store_pod({**pod, "status": UNSCHEDULABLE})
    harness.sync()


# Members.


@pytest.mark.parametrize(
    ("gang", "count"),
    [
        pytest.param(Gang(), 5, id="all tasks"),
        pytest.param(Gang(min_tasks=3), 3, id="minTasks"),
        pytest.param(Gang(min_tasks=9), 5, id="at most all tasks"),
        pytest.param(None, 0, id="no gang"),
    ],
)
def test_a_gang_requires_all_tasks_or_min_tasks(gang: Gang | None, count: int) -> None:
    spec = a_spec(a_role("w", 4), a_role("ps", 1), a_role("board", 2, background=True), gang=gang)

    assert (members(spec), min_members(spec)) == (5, count)


# An unscheduled gang.


def test_the_pods_of_a_gang_are_created_at_once() -> None:
    harness = new_harness(a_role("ps"), a_role("w", 2), gang=Gang())

    harness.sync_once()

    assert harness.existing_pods() == {"ps0", "w0", "w1"}


def test_the_condition_of_an_unscheduled_gang_counts_its_scheduled_tasks_and_names_a_reason() -> None:
    harness = unscheduled_gang()

    mark_unschedulable(harness, "w1")

    message = "Gang not scheduled: 0 of 3 tasks have a node. w-1: Unschedulable: 0/1 nodes fit."
    assert gang_condition(harness) == Condition(GANG_PLACED, False, START, "Unschedulable", message)
    assert (harness.state, harness.status.message) == (State.PREPARING, message)
    assert is_unplaced(harness.status)
    assert not is_placed(harness.status)


def test_without_a_reason_from_the_scheduler_the_condition_has_only_the_count() -> None:
    assert gang_condition(unscheduled_gang()).message == "Gang not scheduled: 0 of 3 tasks have a node."


def test_a_gang_is_placed_when_all_its_tasks_are_scheduled() -> None:
    harness = unscheduled_gang()
    harness.now += 5
    harness.run_pods("w0", "w1")
    before = gang_condition(harness)

    harness.run_pods("w2")

    assert before.message == "Gang not scheduled: 2 of 3 tasks have a node."
    message = "All 3 tasks of the gang are scheduled."
    assert gang_condition(harness) == Condition(GANG_PLACED, True, START + 5, "Placed", message)
    assert [event.message for event in harness.events if event.reason == GANG_PLACED] == [message]
    assert is_placed(harness.status)


def test_a_gang_is_placed_when_its_pods_have_nodes_though_none_is_running() -> None:
    harness = unscheduled_gang()

    for task in ("w0", "w1", "w2"):
        harness.report_status(task, {"phase": "Pending"})
    harness.sync()

    assert (gang_condition(harness).status, harness.state) == (True, State.PREPARING)
    assert gang_condition(harness).message == "All 3 tasks of the gang are scheduled."
    assert harness.status.message == "Waiting for containers to start."


def test_a_completed_task_that_had_a_node_counts() -> None:
    harness = unscheduled_gang(a_role("w", 2, min_counts=(-1, -1)))

    harness.succeed("w0")
    assert not gang_condition(harness).status
    harness.run_pods("w1")

    assert gang_condition(harness).status


def test_a_gang_is_placed_when_min_tasks_are_scheduled() -> None:
    harness = unscheduled_gang(min_tasks=2)
    assert gang_condition(harness).message == ("Gang not scheduled: 0 of 3 tasks have a node (minTasks 2).")

    harness.run_pods("w0", "w2")

    assert gang_condition(harness).message == "2 of 3 tasks of the gang are scheduled."


def test_background_roles_are_not_members_of_the_gang() -> None:
    harness = unscheduled_gang(a_role("w", 2), a_role("board", background=True))

    harness.run_pods("w0", "w1")

    assert gang_condition(harness).status


def test_a_gang_without_tasks_is_placed() -> None:
    harness = unscheduled_gang(a_role("w", 0), a_role("board", background=True))

    assert gang_condition(harness).status


def test_a_framework_without_a_gang_has_no_gang_condition() -> None:
    harness = new_harness()
    harness.sync()

    assert harness.status.condition(GANG_PLACED) is None
    assert not is_unplaced(harness.status)
    assert not is_placed(harness.status)


def test_the_pods_of_a_gang_are_created_in_the_role_sequence() -> None:
    harness = new_harness(
        a_role("ps"), a_role("w", 2), gang=Gang(), role_sequence=(RoleName("w"), RoleName("ps"))
    )

    harness.sync()

    assert [pod["metadata"]["name"] for pod in harness.created_pods] == ["f-w-0", "f-w-1", "f-ps-0"]


# The timeout.


def test_a_gang_that_is_not_placed_within_its_timeout_fails_and_its_pods_are_deleted() -> None:
    harness = unscheduled_gang()
    harness.run_pods("w0")
    mark_unschedulable(harness, "w2")

    harness.advance(59)
    before = (harness.state, harness.existing_pods())
    harness.advance(1)

    reason = "gang.timeoutSeconds (60) exceeded: 1 of 3 tasks have a node. w-2: Unschedulable: 0/1 nodes fit."
    assert before == (State.RUNNING, {"w0", "w1", "w2"})
    assert (harness.final_code, harness.existing_pods()) == (-113, set())
    assert harness.status.attempt.completion == completion_for(Code.GANG_TIMEOUT, reason)
    assert harness.status.message == f"{reason} Framework not retried: maxRetryCount is 0."
    assert {harness.task_code(task) for task in harness.tasks()} == {-220}


def test_the_framework_is_requeued_at_the_timeout() -> None:
    harness = unscheduled_gang(timeout=60)

    assert harness.plan().requeue_at == START + 60


def test_a_gang_without_a_timeout_waits_forever() -> None:
    harness = unscheduled_gang(timeout=None)

    harness.advance(10**6)

    assert harness.state is State.PREPARING
    assert harness.plan().requeue_at is None


def test_the_timeout_counts_from_the_creation_of_the_first_pod() -> None:
    harness = unscheduled_gang(execution=ExecutionType.CREATE)
    harness.advance(100)
    held = harness.status.condition(GANG_PLACED)

    harness.edit_spec(execution=ExecutionType.START)
    harness.advance(50)
    harness.advance(59)
    before = harness.state
    harness.advance(1)

    assert (held, before, harness.final_code) == (None, State.PREPARING, -113)


def test_a_pod_that_cannot_be_created_does_not_extend_the_timeout() -> None:
    harness = new_harness(a_role("w", 2), gang=Gang(timeout_seconds=60))
    harness.creation_errors[harness.pod_name("w1")] = ["exceeded quota"] * 9
    harness.sync()

    harness.advance(60)

    assert harness.final_code == -113
    assert "1 of 2" not in harness.status.message
    assert "w-1: exceeded quota" in harness.status.message


@pytest.mark.parametrize("policy", CleanPodPolicy)
def test_all_pods_of_a_timed_out_gang_are_deleted_with_any_clean_pod_policy(policy: CleanPodPolicy) -> None:
    harness = unscheduled_gang(clean_pods=policy)
    harness.run_pods("w0")

    harness.advance(60)

    assert (harness.final_code, harness.existing_pods()) == (-113, set())


def test_a_timed_out_gang_is_retried_by_the_retry_policy_with_a_new_timeout() -> None:
    harness = unscheduled_gang(retry=(False, 1))
    harness.run_pods("w0")

    harness.advance(60)
    again = (harness.state, harness.counters, gang_condition(harness).since, harness.existing_pods())
    harness.advance(59)
    before = harness.state
    harness.advance(1)

    assert again == (State.PREPARING, (1, 1), START + 60, {"w0", "w1", "w2"})
    assert (before, harness.final_code) == (State.PREPARING, -113)


def test_with_fancy_retries_a_timed_out_gang_is_retried_after_a_delay_and_not_counted() -> None:
    harness = unscheduled_gang(retry=(True, 0))

    harness.advance(60)
    between = (harness.state, harness.existing_pods())
    harness.advance(60)

    assert between == (State.ATTEMPT_COMPLETED, set())
    assert (harness.state, harness.counters) == (State.PREPARING, (1, 0))


def test_the_gang_of_the_next_attempt_is_unscheduled_again() -> None:
    harness = unscheduled_gang(retry=(False, 1))
    harness.run_pods()

    harness.fail("w0")

    assert (harness.counters, gang_condition(harness).status, gang_condition(harness).since) == (
        (1, 1),
        False,
        START,
    )


# Retries, rescales and restarts.


def test_a_retried_task_of_a_placed_gang_has_no_timeout() -> None:
    harness = unscheduled_gang(a_role("w", 3, retry=(False, 1)))
    harness.run_pods()
    harness.fail("w1")

    harness.advance(1000)

    assert (harness.state, harness.task("w1").state) == (State.RUNNING, State.PREPARING)
    assert gang_condition(harness).status


def test_a_task_that_is_retried_before_the_gang_is_placed_needs_a_node_again() -> None:
    harness = unscheduled_gang(a_role("w", 2, retry=(True, 0)))
    harness.run_pods("w0")
    harness.delete_pod("w0")

    harness.run_pods("w1")
    before = gang_condition(harness).status
    harness.run_pods("w0")

    assert (before, gang_condition(harness).status) == (False, True)


def test_a_placed_gang_stays_placed_when_tasks_are_added() -> None:
    harness = unscheduled_gang()
    harness.run_pods()

    harness.edit_role("w", tasks=5)
    harness.sync()
    harness.advance(1000)

    assert (harness.state, gang_condition(harness).status) == (State.RUNNING, True)


def test_tasks_that_are_added_to_an_unscheduled_gang_are_members() -> None:
    harness = unscheduled_gang()
    harness.edit_role("w", tasks=4)
    harness.sync()

    harness.run_pods("w0", "w1", "w2")
    with_three = gang_condition(harness).status
    harness.run_pods("w3")

    assert (with_three, gang_condition(harness).status, gang_condition(harness).since) == (False, True, START)


def test_removed_tasks_are_no_longer_members() -> None:
    harness = unscheduled_gang()
    harness.run_pods("w0", "w1")

    harness.edit_role("w", tasks=2)
    harness.sync()

    assert gang_condition(harness).message == "All 2 tasks of the gang are scheduled."


def test_a_gang_that_is_added_to_a_running_framework_is_placed() -> None:
    harness = new_harness(a_role("w", 2))
    harness.sync()
    harness.run_pods()

    harness.edit_spec(gang=Gang(timeout_seconds=5))
    harness.sync()

    assert gang_condition(harness).status


def test_a_removed_gang_has_no_timeout() -> None:
    harness = unscheduled_gang()

    harness.edit_spec(gang=None)
    harness.sync()
    harness.advance(1000)

    assert harness.state is State.PREPARING
    assert (gang_condition(harness).status, gang_condition(harness).reason) == (True, "NoGang")


def test_a_task_that_completes_before_the_gang_is_placed_ends_the_attempt_if_too_few_are_left() -> None:
    harness = new_harness(a_role("w", 3, min_counts=(-1, -1)), gang=Gang())
    harness.creation_errors[harness.pod_name("w1")] = [
        completion_for(Code.POD_CREATION_PERMANENT_ERROR, "no such thing")
    ]

    harness.sync()

    assert (harness.final_code, harness.trigger, harness.existing_pods()) == (-200, "w1", set())
    assert "Task w-1 completed before the gang was scheduled; 3 tasks are required." in harness.status.message


def test_a_gang_is_placed_without_a_failed_task_if_min_tasks_are_left() -> None:
    harness = new_harness(a_role("w", 3, min_counts=(-1, -1)), gang=Gang(min_tasks=2))
    harness.creation_errors[harness.pod_name("w1")] = [
        completion_for(Code.POD_CREATION_PERMANENT_ERROR, "no such thing")
    ]
    harness.sync()

    harness.run_pods("w0", "w2")

    assert gang_condition(harness).status


def test_a_restart_does_not_extend_the_timeout() -> None:
    harness = unscheduled_gang()
    harness.advance(30)
    harness.restart()

    harness.advance(30)

    assert harness.final_code == -113


def test_a_gang_does_not_time_out_before_a_live_list_of_its_pods() -> None:
    harness = unscheduled_gang()
    harness.run_pods()
    stored = replace(harness.framework, status=harness.saved_statuses[0])
    planner = Planner(stored, harness.options)

    # As after a restart: the nodes of the pods are not yet observed.
    result = planner.plan(START + 60)
    before = planner.summary.attempt.completion is not None
    for pod in harness.pods.values():
        planner.observe_pod(pod_from_json(pod))
    planner.plan(START + 60, pods_are_live=True)

    assert (ListPodsLive() in result.actions, before) == (True, False)
    assert is_placed(planner.summary)
