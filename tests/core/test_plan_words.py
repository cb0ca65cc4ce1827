"""What a plan says: conditions, messages and events that tell people why things are as they are."""

from typing import Any

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning.actions import ObjectEvent
from launcher.core.planning.options import PlannerOptions
from launcher.core.spec import CleanPodPolicy, ExecutionType, RoleName, StartAfter
from launcher.core.status import Condition
from tests.core.world import NO_FAILURE_SPEC, START, World, a_role, a_world, running


def conditions(world: World) -> dict[str, tuple[bool, int, str]]:
    """Status, seconds since the start and reason of every condition."""
    return {each.type: (each.status, each.since - START, each.reason) for each in world.status.conditions}


# Conditions, as kubectl wait reads them.


def test_conditions_tell_the_story_with_its_times() -> None:
    world = a_world(execution=ExecutionType.CREATE)
    world.sync()
    held = conditions(world)
    world.edit(execution=ExecutionType.START)
    world.after(10)
    started = conditions(world)
    world.now += 10
    world.run("w0")
    runs = conditions(world)
    world.now += 10
    world.ok("w0")

    assert held == {"Suspended": (True, 0, "Held")}
    assert started == {"Suspended": (False, 10, "Started"), "Started": (True, 10, "AttemptStarted")}
    assert runs == {**started, "Running": (True, 20, "AttemptRunning")}
    assert conditions(world) == {
        **started,
        "Running": (False, 30, "AttemptDeletionPending"),
        "Succeeded": (True, 30, "Succeeded"),
    }


def test_a_failed_framework_is_failed_and_not_succeeded() -> None:
    world = running()

    world.fail("w0", 3)

    failed = world.status.condition("Failed")
    assert failed == Condition("Failed", True, START, "ContainerUnrecognizedFailed", world.status.message)
    assert world.status.condition("Succeeded") is None


def test_what_was_never_held_is_not_called_suspended() -> None:
    world = running()

    assert world.status.condition("Suspended") is None


def test_what_was_stopped_while_held_is_not_suspended_any_more() -> None:
    world = a_world(execution=ExecutionType.CREATE)
    world.sync()

    world.stop()
    world.after(5)

    assert conditions(world) == {
        "Suspended": (False, 5, "Completed"),
        "Failed": (True, 5, "StopFrameworkRequested"),
    }


def test_a_condition_keeps_its_time_until_it_turns() -> None:
    world = running(a_role("w", 2, ends=(-1, -1)))

    world.after(50)
    world.ok("w0")

    assert conditions(world)["Running"] == (True, 0, "AttemptRunning")


def test_started_keeps_the_time_of_the_first_attempt() -> None:
    world = running(a_role("w"), retry=(False, 1))
    world.now += 50

    world.fail("w0", 1)
    between = conditions(world)
    world.run("w0")

    assert (between["Started"], between["Running"][0]) == ((True, 0, "AttemptStarted"), False)
    assert conditions(world)["Running"] == (True, 50, "AttemptRunning")


@pytest.mark.parametrize("ended", [False, True])
def test_the_generation_is_observed_until_the_end(ended: bool) -> None:
    world = running()
    if ended:
        world.ok("w0")

    world.edit(description="another")
    world.sync()

    assert world.status.observed_generation == (1 if ended else 2)


# Messages: why it is where it is.


def test_a_framework_that_is_held_says_so() -> None:
    world = a_world(execution=ExecutionType.CREATE)
    world.sync()

    assert world.status.message == "held: executionType is Create"


def test_a_framework_without_tasks_says_so() -> None:
    world = a_world(a_role("w", 0))
    world.sync()

    assert world.status.message == "there are no tasks to run"


def test_a_framework_that_waits_for_its_retry_says_how_long_and_why() -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 60))
    world = running(a_role("w"), retry=(True, 0), rules=rules)

    world.fail("w0", 201)

    assert world.status.message == (
        "ContainerTransientConflictFailed (201); tried again in 60 s: the failure is a passing conflict over "
        "resources; the retry is not counted (fancyRetryPolicy)"
    )


def test_another_attempt_says_what_it_comes_after() -> None:
    world = running(a_role("w"), retry=(False, 2))

    world.fail("w0", 7)

    said = [notice.message for notice in world.notices if notice.reason == "AttemptStarted"]
    assert said == ["try 2 after ContainerUnrecognizedFailed (7): retry 1 of 2"]


@pytest.mark.parametrize(
    ("retry", "code", "message"),
    [
        pytest.param(
            (False, 0),
            3,
            "ContainerUnrecognizedFailed (3); role w: 1 task failed, and minFailedTaskCount is 1; "
            "not tried again: maxRetryCount is 0",
            id="no retry is allowed",
        ),
        pytest.param(
            (True, 5),
            210,
            "ContainerPermanentFailed (210); role w: 1 task failed, and minFailedTaskCount is 1; not tried again: "
            "the failure is permanent, another try would end the same way (fancyRetryPolicy)",
            id="permanent",
        ),
        pytest.param(
            (False, 0),
            0,
            "Succeeded (0); every task has ended (1), and no rule of any role was met before",
            id="succeeded",
        ),
    ],
)
def test_a_finished_framework_says_how_it_ended_and_why_not_again(
    retry: tuple[bool, int], code: int, message: str
) -> None:
    world = running(a_role("w"), retry=retry)

    world.end({"w0": code})

    assert world.status.message == message


def test_a_stopped_framework_says_so() -> None:
    world = running()

    world.stop()
    world.sync()

    assert world.status.message == "StopFrameworkRequested (-210); executionType is Stop"
    assert world.task("w0").message == "stopped because the attempt is over"
    end = world.task("w0").attempt.completion
    assert end is not None
    assert end.diagnostics == "the attempt is over: executionType is Stop"


def test_a_framework_past_its_deadline_says_so() -> None:
    world = running(a_role("w"), active_deadline_seconds=9)

    world.after(9)

    assert (
        world.status.message
        == "ActiveDeadlineExceeded (-211); activeDeadlineSeconds is over: 9 s after its start"
    )


def test_a_task_that_fails_says_what_follows() -> None:
    world = running(a_role("w", 2, retry=(False, 1), ends=(-1, -1)))
    world.stuck.add(world.pod("w0"))

    world.fail("w0", 3)
    first = world.task("w0").message
    world.confirm("w0")
    world.run("w0")
    world.fail("w0", 3)

    assert first == "ContainerUnrecognizedFailed (3); tried again at once: retry 1 of 1"
    assert (
        world.task("w0").message
        == "ContainerUnrecognizedFailed (3); not tried again: its one retry is used up"
    )


def test_a_task_that_waits_for_its_retry_says_how_long() -> None:
    world = running(a_role("w", retry=(False, -1)))
    world.fail("w0", 3)
    world.run("w0")

    world.fail("w0", 3)

    assert world.task("w0").message == (
        "ContainerUnrecognizedFailed (3); tried again in 10 s: maxRetryCount -1 retries every failure"
    )


def test_a_task_whose_pod_cannot_run_says_what_is_in_its_way() -> None:
    world = a_world()
    world.sync()

    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    world.status_of(
        "w0", {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}
    )
    world.sync()
    pending = world.task("w0").message
    world.run("w0")

    assert (pending, world.task("w0").message) == ("ErrImagePull: no such image", "")


def test_a_task_whose_pod_is_deleted_by_others_says_so() -> None:
    world = running()
    world.stuck.add(world.pod("w0"))

    world.delete_pod("w0")

    assert world.task("w0").message == "its pod is being deleted by somebody else"


def test_a_task_whose_pod_is_turned_down_says_why() -> None:
    world = a_world()
    refusal = completion_for(Code.POD_CREATION_PERMANENT_ERROR, "Pod creation refused: no containers")
    world.refusals[world.pod("w0")] = [refusal]

    world.sync()

    assert world.task("w0").message == "Pod creation refused: no containers"


def test_a_task_left_running_says_so() -> None:
    world = running(a_role("w", 2), clean_pods=CleanPodPolicy.NONE)

    world.fail("w0", 1)

    assert world.task("w1").message == "the attempt is over; its pod is left running"


def test_a_task_that_can_never_start_says_why() -> None:
    after = StartAfter(RoleName("ps"))
    world = a_world(a_role("ps", ends=(-1, -1)), a_role("w", ends=(-1, -1), start_after=(after,)))
    world.sync()

    world.fail("ps0", 1)

    assert world.task("w0").message == "waits for role ps to be Running (startAfter), which can no longer be"


# Events.


def test_events_tell_what_happened_in_order() -> None:
    world = running(a_role("w", 2))

    world.fail("w0", 3)

    assert [(notice.reason, notice.warning) for notice in world.notices] == [
        ("AttemptRunning", False),
        ("ContainerUnrecognizedFailed", True),
        ("AttemptEnding", False),
        ("FrameworkFailed", True),
    ]
    assert world.notices[1] == ObjectEvent(
        "ContainerUnrecognizedFailed",
        "task w[0]: ContainerUnrecognizedFailed (3); not tried again: maxRetryCount is 0",
        warning=True,
    )


def test_a_success_is_no_warning_and_its_states_that_nobody_could_see_are_no_news() -> None:
    world = running()

    world.ok("w0")

    assert [(notice.reason, notice.warning) for notice in world.notices] == [
        ("AttemptRunning", False),
        ("FrameworkSucceeded", False),
    ]


def test_a_task_that_is_retried_within_one_look_is_told_of_too() -> None:
    world = a_world(a_role("w", retry=(False, 1)))
    world.refusals[world.pod("w0")] = [completion_for(Code.POD_CREATION_UNKNOWN_ERROR, "denied")]

    world.sync()

    told = [notice for notice in world.notices if notice.warning]
    assert told == [
        ObjectEvent(
            "TaskRetried", "task w[0]: try 2 after PodCreationUnknownError (-310): retry 1 of 1", warning=True
        )
    ]


# The message of a Framework that waits names what it waits for.


def a_pending_status(reason: str = "", message: str = "", *, last_exit: int | None = None) -> dict[str, Any]:
    """``pod.status`` of a pod on a node whose container waits."""
    waiting = {key: value for key, value in (("reason", reason), ("message", message)) if value}
    container: dict[str, Any] = {"name": "c", "state": {"waiting": waiting}}
    if last_exit is not None:
        container["lastState"] = {"terminated": {"exitCode": last_exit, "reason": "Error"}}
    return {"phase": "Pending", "containerStatuses": [container]}


def unschedulable(message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [condition]}


def test_a_framework_whose_pods_have_no_node_says_how_many() -> None:
    world = a_world(a_role("w", 2))

    world.sync()

    assert world.status.message == "waiting for 2 of 2 tasks to be scheduled"


def test_a_framework_with_an_unschedulable_pod_names_the_task_and_the_reason() -> None:
    world = a_world(a_role("w", 2))
    world.sync()

    world.status_of("w1", unschedulable("0/1 nodes are available: 1 Insufficient cpu."), node="")
    world.sync()

    assert world.status.message == "w[1]: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu."


def test_a_framework_whose_pods_are_placed_and_not_running_waits_for_containers() -> None:
    world = a_world(a_role("w", 2))
    world.sync()

    world.status_of("w0", a_pending_status("ContainerCreating"))
    world.status_of("w1", a_pending_status("ContainerCreating"))
    world.sync()

    assert world.status.message == "waiting for containers to start"


def test_a_missing_volume_is_in_the_message_of_the_framework() -> None:
    world = a_world(a_role("w"))
    world.sync()

    world.status_of("w0", a_pending_status("ContainerCreating", 'volume "data": hostPath /y does not exist'))
    world.sync()

    assert world.status.message == 'w[0]: ContainerCreating: volume "data": hostPath /y does not exist'


def test_a_crash_loop_is_in_the_message_of_task_and_framework_with_its_last_exit() -> None:
    world = running(a_role("w", 2))
    crash = {**a_pending_status("CrashLoopBackOff", "back-off 10s", last_exit=3), "phase": "Running"}

    world.status_of("w1", crash)
    world.sync()

    assert world.task("w1").message == "CrashLoopBackOff: back-off 10s; last exit code 3 (Error)"
    assert world.status.message == f"a task runs; w[1]: {world.task('w1').message}"


def test_a_container_that_runs_again_after_a_crash_leaves_no_reason_behind() -> None:
    world = running(a_role("w", 2))
    crash = {**a_pending_status("CrashLoopBackOff", "back-off 10s", last_exit=3), "phase": "Running"}
    world.status_of("w1", crash)
    world.sync()

    world.run("w1")

    assert (world.task("w1").message, world.status.message) == ("", "a task runs")


def test_a_role_that_waits_for_another_is_in_the_message_while_nothing_runs() -> None:
    world = a_world(a_role("a"), a_role("b", start_after=(StartAfter(RoleName("a")),)))

    world.sync()

    assert world.status.message == "b[0]: waits for role a to be Running (startAfter)"


def test_looking_again_at_a_framework_that_waits_changes_nothing() -> None:
    world = a_world(a_role("w", 2))
    world.sync()
    world.status_of("w1", unschedulable("0/1 nodes are available."), node="")
    world.sync()
    saved = len(world.saved)

    world.after(5)
    world.after(5)

    assert len(world.saved) == saved


def test_the_deletion_of_a_framework_is_no_warning_about_its_pods() -> None:
    world = running(a_role("w", 2))
    world.notices.clear()

    world.delete_framework()
    world.sync()
    world.after(5)

    assert world.task_code("w0") == Code.POD_EXTERNAL_DELETED
    assert [notice for notice in world.notices if notice.warning] == []


def test_the_deletion_of_a_pod_by_its_user_is_a_warning() -> None:
    world = running(a_role("w", 2))

    world.delete_pod("w0")
    world.sync()

    assert "PodExternalDeleted" in [notice.reason for notice in world.notices if notice.warning]
