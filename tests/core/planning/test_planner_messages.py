"""Conditions, messages and events of a plan."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.events import ObjectEvent
from launcher.core.planning import messages
from launcher.core.planning.options import PlannerOptions
from launcher.core.spec import CleanPodPolicy, ExecutionType, RoleName, StartAfter
from launcher.core.status import Condition
from tests.core.builders import START, a_role
from tests.core.planning.harness import NO_FAILURE_SPEC, PlannerHarness, new_harness, running_harness


def conditions(harness: PlannerHarness) -> dict[str, tuple[bool, int, str]]:
    """Status, seconds since the start and reason of every condition."""
    return {each.type: (each.status, each.since - START, each.reason) for each in harness.status.conditions}


# Conditions.


def test_conditions_record_each_state_with_its_time() -> None:
    harness = new_harness(execution=ExecutionType.CREATE)
    harness.sync()
    suspended = conditions(harness)
    harness.edit_spec(execution=ExecutionType.START)
    harness.advance(10)
    started = conditions(harness)
    harness.now += 10
    harness.run_pods("w0")
    running = conditions(harness)
    harness.now += 10
    harness.succeed("w0")

    assert suspended == {"Suspended": (True, 0, "Held")}
    assert started == {"Suspended": (False, 10, "Started"), "Started": (True, 10, "AttemptStarted")}
    assert running == {**started, "Running": (True, 20, "AttemptRunning")}
    assert conditions(harness) == {
        **started,
        "Running": (False, 30, "AttemptDeletionPending"),
        "Succeeded": (True, 30, "Succeeded"),
    }


def test_a_failed_framework_is_failed_and_not_succeeded() -> None:
    harness = running_harness()

    harness.fail("w0", 3)

    failed = harness.status.condition("Failed")
    assert failed == Condition("Failed", True, START, "ContainerUnrecognizedFailed", harness.status.message)
    assert harness.status.condition("Succeeded") is None


def test_a_framework_that_was_never_suspended_has_no_suspended_condition() -> None:
    harness = running_harness()

    assert harness.status.condition("Suspended") is None


def test_a_suspended_framework_that_is_stopped_is_no_longer_suspended() -> None:
    harness = new_harness(execution=ExecutionType.CREATE)
    harness.sync()

    harness.stop()
    harness.advance(5)

    assert conditions(harness) == {
        "Suspended": (False, 5, "Completed"),
        "Failed": (True, 5, "StopFrameworkRequested"),
    }


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(-1, -1)))

    harness.advance(50)
    harness.succeed("w0")

    assert conditions(harness)["Running"] == (True, 0, "AttemptRunning")


def test_started_keeps_the_time_of_the_first_attempt() -> None:
    harness = running_harness(a_role("w"), retry=(False, 1))
    harness.now += 50

    harness.fail("w0", 1)
    between = conditions(harness)
    harness.run_pods("w0")

    assert (between["Started"], between["Running"][0]) == ((True, 0, "AttemptStarted"), False)
    assert conditions(harness)["Running"] == (True, 50, "AttemptRunning")


@pytest.mark.parametrize("completed", [False, True])
def test_the_generation_is_observed_until_the_framework_completes(completed: bool) -> None:
    harness = running_harness()
    if completed:
        harness.succeed("w0")

    harness.edit_spec(description="another")
    harness.sync()

    assert harness.status.observed_generation == (1 if completed else 2)


# Messages.


def test_the_message_of_a_suspended_framework() -> None:
    harness = new_harness(execution=ExecutionType.CREATE)
    harness.sync()

    assert harness.status.message == messages.SUSPENDED


def test_the_message_of_a_framework_without_tasks() -> None:
    harness = new_harness(a_role("w", 0))
    harness.sync()

    assert harness.status.message == messages.NO_TASKS


def test_the_message_during_a_retry_delay_has_the_delay_and_the_reason() -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    harness = running_harness(a_role("w"), retry=(True, 0), options=options)

    harness.fail("w0", 201)

    assert harness.status.message == (
        "Container c exited with code 201 (ContainerTransientConflictFailed). Retrying after 60s: attempt 2 "
        "(transient resource conflict, not counted: fancyRetryPolicy)."
    )


def test_the_event_of_a_new_attempt_has_the_reason_of_the_previous_one() -> None:
    harness = running_harness(a_role("w"), retry=(False, 2))

    harness.fail("w0", 7)

    started = [event.message for event in harness.events if event.reason == "AttemptStarted"]
    assert started == ["Attempt 2 of 3. Previous attempt: container c exited with code 7."]


@pytest.mark.parametrize(
    ("retry", "code", "message"),
    [
        pytest.param(
            (False, 0),
            3,
            "Task w-0 failed: container c exited with code 3. Role w: 1 failed task reached minFailedTaskCount 1. "
            "Framework not retried: maxRetryCount is 0.",
            id="no retry is allowed",
        ),
        pytest.param(
            (True, 5),
            210,
            "Task w-0 failed: container c exited with code 210 (ContainerPermanentFailed). "
            "Role w: 1 failed task reached minFailedTaskCount 1. "
            "Framework not retried: permanent failure (fancyRetryPolicy).",
            id="permanent",
        ),
        pytest.param(
            (False, 0),
            0,
            "All tasks completed: 1 succeeded, 0 failed.",
            id="succeeded",
        ),
    ],
)
def test_the_message_of_a_completed_framework_has_the_cause_and_why_it_is_not_retried(
    retry: tuple[bool, int], code: int, message: str
) -> None:
    harness = running_harness(a_role("w"), retry=retry)

    harness.exit_pods({"w0": code})

    assert harness.status.message == message


def test_the_message_of_a_stopped_framework() -> None:
    harness = running_harness()

    harness.stop()
    harness.sync()

    assert harness.status.message == "Stopped: executionType is Stop."
    assert harness.task("w0").message == "Stopped: executionType is Stop."
    completion = harness.task("w0").attempt.completion
    assert completion is not None
    assert completion.diagnostics == "Attempt completed. Stopped: executionType is Stop."


def test_the_message_of_a_framework_past_its_deadline() -> None:
    harness = running_harness(a_role("w"), active_deadline_seconds=9)

    harness.advance(9)

    assert harness.status.message == "activeDeadlineSeconds (9) exceeded."


def test_the_message_of_a_failed_task_has_the_cause_and_the_retry() -> None:
    harness = running_harness(a_role("w", 2, retry=(False, 1), min_counts=(-1, -1)))
    harness.stuck_pods.add(harness.pod_name("w0"))

    harness.fail("w0", 3)
    first = harness.task("w0").message
    harness.confirm_deletion("w0")
    harness.run_pods("w0")
    harness.fail("w0", 3)

    assert first == "Container c exited with code 3. Retrying: attempt 2 of 2."
    assert harness.task("w0").message == (
        "Container c exited with code 3. Not retried: no retries left (1 of 1 used)."
    )


def test_the_message_of_a_task_in_its_retry_delay_has_the_delay() -> None:
    harness = running_harness(a_role("w", retry=(False, -1)))
    harness.fail("w0", 3)
    harness.run_pods("w0")

    harness.fail("w0", 3)

    assert harness.task("w0").message == (
        "Container c exited with code 3. Retrying after 10s: attempt 3 (maxRetryCount -1 retries every failure)."
    )


def test_the_message_of_a_task_has_the_reason_of_its_waiting_container() -> None:
    harness = new_harness()
    harness.sync()

    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    harness.report_status(
        "w0", {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}
    )
    harness.sync()
    pending = harness.task("w0").message
    harness.run_pods("w0")

    assert (pending, harness.task("w0").message) == ("ErrImagePull: no such image", "")


def test_the_message_of_a_task_whose_pod_is_being_deleted() -> None:
    harness = running_harness()
    harness.stuck_pods.add(harness.pod_name("w0"))

    harness.delete_pod("w0")

    assert harness.task("w0").message == messages.POD_DELETING


def test_the_message_of_a_task_whose_pod_was_rejected() -> None:
    harness = new_harness()
    rejection = completion_for(Code.POD_CREATION_PERMANENT_ERROR, "Pod creation rejected: no containers")
    harness.creation_errors[harness.pod_name("w0")] = [rejection]

    harness.sync()

    assert harness.task("w0").message == "Pod creation rejected: no containers"


def test_the_message_of_a_task_whose_pod_keeps_running() -> None:
    harness = running_harness(a_role("w", 2), clean_pods=CleanPodPolicy.NONE)

    harness.fail("w0", 1)

    assert harness.task("w1").message == messages.POD_KEEPS_RUNNING


def test_the_message_of_a_task_that_can_never_start() -> None:
    after = StartAfter(RoleName("ps"))
    harness = new_harness(
        a_role("ps", min_counts=(-1, -1)), a_role("w", min_counts=(-1, -1), start_after=(after,))
    )
    harness.sync()

    harness.fail("ps0", 1)

    assert harness.task("w0").message == "startAfter can no longer be met: role ps cannot become Running."


# Events.


def test_events_are_recorded_in_order() -> None:
    harness = running_harness(a_role("w", 2))

    harness.fail("w0", 3)

    assert [(event.reason, event.warning) for event in harness.events] == [
        ("AttemptRunning", False),
        ("ContainerUnrecognizedFailed", True),
        ("AttemptEnding", False),
        ("FrameworkFailed", True),
    ]
    assert harness.events[1] == ObjectEvent(
        "ContainerUnrecognizedFailed",
        "Task w-0: Container c exited with code 3. Not retried: maxRetryCount is 0.",
        warning=True,
    )


def test_a_stop_by_the_user_is_recorded_as_an_event_that_is_no_warning() -> None:
    harness = running_harness()

    harness.stop()
    harness.sync()

    event = harness.events[-1]
    assert (event.reason, event.warning) == ("FrameworkStopped", False)


def test_a_success_has_no_warning_and_no_events_of_intermediate_states() -> None:
    harness = running_harness()

    harness.succeed("w0")

    assert [(event.reason, event.warning) for event in harness.events] == [
        ("AttemptRunning", False),
        ("FrameworkSucceeded", False),
    ]


def test_a_task_that_fails_and_is_retried_in_one_reconcile_has_an_event() -> None:
    harness = new_harness(a_role("w", retry=(False, 1)))
    harness.creation_errors[harness.pod_name("w0")] = [
        completion_for(Code.POD_CREATION_UNKNOWN_ERROR, "denied")
    ]

    harness.sync()

    warnings = [event for event in harness.events if event.warning]
    assert warnings == [
        ObjectEvent("TaskRetried", "Task w-0: Attempt 2 of 2. Previous attempt: denied.", warning=True)
    ]


# Messages of waiting Frameworks.


def a_pending_status(reason: str = "", message: str = "", *, last_exit: int | None = None) -> dict[str, Any]:
    """``pod.status`` of a pod on a node whose container is waiting."""
    waiting = {key: value for key, value in (("reason", reason), ("message", message)) if value}
    container: dict[str, Any] = {"name": "c", "state": {"waiting": waiting}}
    if last_exit is not None:
        container["lastState"] = {"terminated": {"exitCode": last_exit, "reason": "Error"}}
    return {"phase": "Pending", "containerStatuses": [container]}


def unschedulable(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def test_the_message_counts_the_pods_without_a_node() -> None:
    harness = new_harness(a_role("w", 2))

    harness.sync()

    assert harness.status.message == "Waiting for 2 of 2 tasks to be scheduled."


def test_the_message_names_an_unschedulable_task_and_its_reason() -> None:
    pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": 8}}}]}}
    harness = new_harness(replace(a_role("w", 2), pod=pod))
    harness.sync()

    harness.report_status("w1", unschedulable("0/1 nodes are available: 1 Insufficient cpu."), node="")
    harness.sync()

    assert harness.status.message == "w-1: no node has 8 cpu free."


def test_the_message_of_a_framework_whose_pods_have_nodes_but_do_not_run() -> None:
    harness = new_harness(a_role("w", 2))
    harness.sync()

    harness.report_status("w0", a_pending_status("ContainerCreating"))
    harness.report_status("w1", a_pending_status("ContainerCreating"))
    harness.sync()

    assert harness.status.message == messages.WAITING_FOR_CONTAINERS


def test_a_missing_volume_is_in_the_message_of_the_framework() -> None:
    harness = new_harness(a_role("w"))
    harness.sync()

    harness.report_status(
        "w0",
        a_pending_status("ContainerCreating", 'volume "data": hostPath type check failed: /y is not a file'),
    )
    harness.sync()

    assert harness.status.message == "w-0: hostPath /y does not exist or is of another type."


def test_a_crash_loop_is_in_the_message_of_task_and_framework_with_its_last_exit() -> None:
    harness = running_harness(a_role("w", 2))
    crash = {**a_pending_status("CrashLoopBackOff", "back-off 10s", last_exit=3), "phase": "Running"}

    harness.report_status("w1", crash)
    harness.sync()

    assert harness.task("w1").message == "container c failed and is restarted: exit code 3"
    assert harness.status.message == f"2 of 2 tasks running. w-1: {harness.task('w1').message}."


def test_a_container_that_runs_again_after_a_crash_leaves_no_reason_behind() -> None:
    harness = running_harness(a_role("w", 2))
    crash = {**a_pending_status("CrashLoopBackOff", "back-off 10s", last_exit=3), "phase": "Running"}
    harness.report_status("w1", crash)
    harness.sync()

    harness.run_pods("w1")

    assert (harness.task("w1").message, harness.status.message) == ("", "2 of 2 tasks running.")


def test_a_role_that_waits_for_another_is_in_the_message_while_nothing_runs() -> None:
    harness = new_harness(a_role("a"), a_role("b", start_after=(StartAfter(RoleName("a")),)))

    harness.sync()

    assert harness.status.message == "b-0: Waiting for role a to be Running (startAfter)."


def test_reconciling_a_waiting_framework_again_saves_nothing() -> None:
    harness = new_harness(a_role("w", 2))
    harness.sync()
    harness.report_status("w1", unschedulable("0/1 nodes are available."), node="")
    harness.sync()
    saved_before = len(harness.saved_statuses)

    harness.advance(5)
    harness.advance(5)

    assert len(harness.saved_statuses) == saved_before


def test_the_deletion_of_a_framework_records_no_warnings_about_its_pods() -> None:
    harness = running_harness(a_role("w", 2))
    harness.events.clear()

    harness.delete_framework()
    harness.sync()
    harness.advance(5)

    assert harness.task_code("w0") == Code.POD_EXTERNAL_DELETED
    assert [event for event in harness.events if event.warning] == []


def test_the_deletion_of_a_pod_by_its_user_records_a_warning() -> None:
    harness = running_harness(a_role("w", 2))

    harness.delete_pod("w0")
    harness.sync()

    assert "PodExternalDeleted" in [event.reason for event in harness.events if event.warning]
