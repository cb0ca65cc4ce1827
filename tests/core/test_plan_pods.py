"""Pods that are not what they should be, and pods that cannot be created."""

from dataclasses import replace

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.names import PodIdentityKey
from launcher.core.planning.actions import DeletePod
from launcher.core.planning.planner import Planner, plan
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.spec import CleanPodPolicy, PodName
from launcher.core.status import State
from tests.core.world import START, a_role, a_world, running

TURNED_DOWN = completion_for(Code.POD_CREATION_PERMANENT_ERROR, "the pod is invalid")

# Pods that are not what they should be.


def test_a_pod_of_an_earlier_attempt_goes_before_the_new_one_comes() -> None:
    world = a_world(a_role("w", retry=(True, 0)))
    world.refusals[world.pod("w0")] = ["not now"]
    world.sync()
    world.stuck.add(world.pod("w0"))
    world.put("w0", FC_TASK_ATTEMPT_ID="7")

    world.sync()
    asked = world.plan().actions
    waiting = (world.task("w0").state, world.task("w0").message, world.task("w0").attempt.pod_uid)
    world.stuck.clear()
    world.after(1)

    assert asked == ()
    assert waiting == (State.CREATION_PENDING, "waits for the pod of an earlier try to go", None)
    assert world.task("w0").attempt.pod_uid == "pod-0"


@pytest.mark.parametrize(
    ("mark", "value"),
    [
        (PodIdentityKey.TASK_ATTEMPT_ID, "1"),
        (PodIdentityKey.FRAMEWORK_ATTEMPT_ID, "1"),
        (PodIdentityKey.TASK_UID, "11111111-1111-1111-1111-111111111111"),
        (PodIdentityKey.TASK_UID, "nonsense"),
        (PodIdentityKey.TASK_INDEX, "1"),
        (PodIdentityKey.TASKROLE_NAME, "x"),
        (PodIdentityKey.FRAMEWORK_NAME, "g"),
    ],
)
def test_a_pod_of_ours_with_other_marks_is_not_adopted_but_deleted(mark: PodIdentityKey, value: str) -> None:
    world = a_world()
    world.crash(done=0)
    world.put("w0", **{mark.value: value})

    todo = world.plan()

    assert [type(action) for action in todo.actions] == [DeletePod]
    assert todo.status.roles[0].tasks[0].state is State.CREATION_PENDING


def test_an_earlier_pod_that_does_not_go_is_removed_by_force_too() -> None:
    world = a_world(a_role("w", graceful_deletion_seconds=30))
    world.crash(done=0)
    world.put("w0", FC_TASK_ATTEMPT_ID="7")
    world.stuck.add(world.pod("w0"))
    world.sync()

    world.after(29)
    before = list(world.forced)
    world.after(1)

    assert (before, world.forced) == ([], [world.pod("w0")])
    assert world.task("w0").attempt.pod_uid == "pod-0"


@pytest.mark.parametrize("name", ["f-w-00", "f-w-1", "f-x-0", "g-w-0", "g-f-w-0", "f-w-٠", "w-0", "0"])
def test_a_pod_of_ours_that_no_task_stands_behind_goes_and_nobody_else_notices(name: str) -> None:
    world = running()
    pod = pod_from_json(world.pods[world.pod("w0")])

    todo = plan(
        world.framework, [pod, replace(pod, name=PodName(name), uid="stray")], world.now, rules=world.rules
    )

    assert todo.actions == (DeletePod(PodName(name), "stray"),)
    assert todo.status == world.status


def test_a_pod_with_another_uid_is_not_the_pod_of_the_attempt() -> None:
    """For any observer a pod's uid changes only together with the attempt's number."""
    world = running(a_role("w", retry=(True, 0)))
    pod = pod_from_json(world.pods[world.pod("w0")])
    planner = Planner(world.framework, world.rules)
    planner.attempt_state.observe_pod(replace(pod, uid="other", version=99))

    look = planner.plan(world.now, fresh=True)
    task = planner.status().roles[0].tasks[0]

    assert look.actions == (DeletePod(pod.name, "other"),)
    assert (task.retry.total, task.attempt.pod_uid) == (1, None)


def test_an_older_view_of_a_pod_is_passed_over() -> None:
    world = running()
    pod = pod_from_json(world.pods[world.pod("w0")])
    planner = Planner(world.framework, world.rules)
    planner.attempt_state.observe_pod(pod)
    planner.plan(world.now)

    planner.attempt_state.observe_pod(replace(pod, version=pod.version - 1, phase="Pending"))
    planner.plan(world.now)

    assert planner.status().roles[0].tasks[0].state is State.RUNNING


def test_uids_change_only_with_the_number_of_the_try() -> None:
    world = running(a_role("w", retry=(False, -1)))

    for _ in range(4):
        world.fail("w0", 1)
        world.after(300)

    seen = [
        (task.retry.total, task.attempt.pod_uid)
        for status in world.saved
        for task in status.roles[0].tasks
        if task.attempt.pod_uid is not None
    ]
    assert len(set(seen)) == len({number for number, _ in seen}) == 5


# Creations that are refused.


def test_a_refusal_comes_too_late_for_a_task_that_is_over() -> None:
    """An end is written once: the task was scaled away before its pod was turned down."""
    world = a_world(a_role("w", 2))
    planner = Planner(world.framework, world.rules)
    planner.plan(START)
    world.stop()
    planner.update(world.framework)
    planner.plan(START)

    planner.attempt_state.reject_creation(world.pod("w1"), TURNED_DOWN)
    planner.plan(START)

    ends = [task.attempt.completion for task in planner.status().roles[0].tasks]
    assert [end and end.code for end in ends] == [-220, -220]


def test_a_refusal_and_a_scale_down_in_one_look_leave_the_scale_downs_end() -> None:
    world = a_world(a_role("w", 2))
    world.sync_once()
    world.restart()
    planner = Planner(world.framework, world.rules)
    world.edit_role("w", tasks=1)
    planner.update(world.framework)
    planner.attempt_state.reject_creation(world.pod("w1"), TURNED_DOWN)

    look = planner.plan(START)

    assert "the pod is invalid" not in " ".join(step.reason for step in look.steps)


def test_what_a_creation_waits_for_is_noted_with_its_task_only() -> None:
    world = running(a_role("w", 2))
    planner = Planner(world.framework, world.rules)

    planner.attempt_state.set_creation_message(world.pod("w0"), "too late")
    planner.attempt_state.set_creation_message(PodName("f-w-9"), "nobody")

    assert [task.message for task in planner.status().roles[0].tasks] == ["", ""]


@pytest.mark.parametrize("policy", CleanPodPolicy)
def test_a_pod_that_comes_into_sight_only_after_the_end_is_taken_back_before_it_is_over(
    policy: CleanPodPolicy,
) -> None:
    world = a_world(a_role("w", 2), active_deadline_seconds=60, clean_pods=policy)
    world.crash(done=1)
    planner = Planner(world.framework, world.rules)

    # A launcher whose cache does not know of the pod yet.
    planner.plan(START + 60)
    unseen = planner.summary.state
    planner.attempt_state.observe_pod(pod_from_json(world.pods[world.pod("w0")]))
    look = planner.plan(START + 60, fresh=True)
    there = planner.summary.state
    planner.attempt_state.pod_deleted(world.pod("w0"))
    planner.plan(START + 60, fresh=True)

    assert unseen is State.CREATION_PENDING
    assert look.actions == (DeletePod(world.pod("w0"), world.uid("w0")),)
    assert there is not State.COMPLETED
    assert planner.is_completed
