"""Stale and foreign pods, and pods that cannot be created."""

from dataclasses import replace

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.names import PodIdentityKey
from launcher.core.planning import messages
from launcher.core.planning.actions import DeletePod
from launcher.core.planning.planner import Planner, plan
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.spec import CleanPodPolicy, PodName
from launcher.core.status import State
from tests.core.builders import START, a_role
from tests.core.planning.harness import new_harness, running_harness

REJECTED = completion_for(Code.POD_CREATION_PERMANENT_ERROR, "the pod is invalid")

# Stale and foreign pods.


def test_a_pod_of_an_earlier_attempt_is_deleted_before_the_new_one_is_created() -> None:
    harness = new_harness(a_role("w", retry=(True, 0)))
    harness.creation_errors[harness.pod_name("w0")] = ["not now"]
    harness.sync()
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.add_pod("w0", FC_TASK_ATTEMPT_ID="7")

    harness.sync()
    actions = harness.plan().actions
    waiting = (harness.task("w0").state, harness.task("w0").message, harness.task("w0").attempt.pod_uid)
    harness.stuck_pods.clear()
    harness.advance(1)

    assert actions == ()
    assert waiting == (State.CREATION_PENDING, messages.WAITING_FOR_PREVIOUS_POD, None)
    assert harness.task("w0").attempt.pod_uid == "pod-0"


@pytest.mark.parametrize(
    ("key", "value"),
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
def test_an_owned_pod_with_another_identity_is_deleted_and_not_adopted(
    key: PodIdentityKey, value: str
) -> None:
    harness = new_harness()
    harness.crash(executed=0)
    harness.add_pod("w0", **{key.value: value})

    result = harness.plan()

    assert [type(action) for action in result.actions] == [DeletePod]
    assert result.status.roles[0].tasks[0].state is State.CREATION_PENDING


def test_a_pod_of_an_earlier_attempt_that_is_stuck_is_force_deleted() -> None:
    harness = new_harness(a_role("w", graceful_deletion_seconds=30))
    harness.crash(executed=0)
    harness.add_pod("w0", FC_TASK_ATTEMPT_ID="7")
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.sync()

    harness.advance(29)
    before = list(harness.force_deleted)
    harness.advance(1)

    assert (before, harness.force_deleted) == ([], [harness.pod_name("w0")])
    assert harness.task("w0").attempt.pod_uid == "pod-0"


@pytest.mark.parametrize("name", ["f-w-00", "f-w-1", "f-x-0", "g-w-0", "g-f-w-0", "f-w-٠", "w-0", "0"])
def test_an_owned_pod_without_a_task_is_deleted_and_the_status_does_not_change(name: str) -> None:
    harness = running_harness()
    pod = pod_from_json(harness.pods[harness.pod_name("w0")])

    result = plan(
        harness.framework,
        [pod, replace(pod, name=PodName(name), uid="stray")],
        harness.now,
        options=harness.options,
    )

    assert result.actions == (DeletePod(PodName(name), "stray"),)
    assert result.status == harness.status


def test_a_pod_with_another_uid_is_not_the_pod_of_the_attempt() -> None:
    """The uid of a task's pod changes only together with the number of its attempt."""
    harness = running_harness(a_role("w", retry=(True, 0)))
    pod = pod_from_json(harness.pods[harness.pod_name("w0")])
    planner = Planner(harness.framework, harness.options)
    planner.observe_pod(replace(pod, uid="other", version=99))

    result = planner.plan(harness.now, pods_are_live=True)
    task = planner.status().roles[0].tasks[0]

    assert result.actions == (DeletePod(pod.name, "other"),)
    assert (task.retry.total, task.attempt.pod_uid) == (1, None)


def test_an_older_version_of_a_pod_is_ignored() -> None:
    harness = running_harness()
    pod = pod_from_json(harness.pods[harness.pod_name("w0")])
    planner = Planner(harness.framework, harness.options)
    planner.observe_pod(pod)
    planner.plan(harness.now)

    planner.observe_pod(replace(pod, version=pod.version - 1, phase="Pending"))
    planner.plan(harness.now)

    assert planner.status().roles[0].tasks[0].state is State.RUNNING


def test_the_pod_uid_of_a_task_changes_only_with_its_attempt() -> None:
    harness = running_harness(a_role("w", retry=(False, -1)))

    for _ in range(4):
        harness.fail("w0", 1)
        harness.advance(300)

    attempts = [
        (task.retry.total, task.attempt.pod_uid)
        for status in harness.saved_statuses
        for task in status.roles[0].tasks
        if task.attempt.pod_uid is not None
    ]
    assert len(set(attempts)) == len({number for number, _ in attempts}) == 5


# Rejected creations.


def test_a_rejected_creation_does_not_change_a_completed_task() -> None:
    """A completion is recorded once: the task was stopped before the creation of its pod was rejected."""
    harness = new_harness(a_role("w", 2))
    planner = Planner(harness.framework, harness.options)
    planner.plan(START)
    harness.stop()
    planner.update(harness.framework)
    planner.plan(START)

    planner.creation_rejected(harness.pod_name("w1"), REJECTED)
    planner.plan(START)

    completions = [task.attempt.completion for task in planner.status().roles[0].tasks]
    assert [completion and completion.code for completion in completions] == [-220, -220]


def test_a_scale_down_precedes_a_rejected_creation_in_one_reconcile() -> None:
    harness = new_harness(a_role("w", 2))
    harness.sync_once()
    harness.restart()
    planner = Planner(harness.framework, harness.options)
    harness.edit_role("w", tasks=1)
    planner.update(harness.framework)
    planner.creation_rejected(harness.pod_name("w1"), REJECTED)

    result = planner.plan(START)

    assert "the pod is invalid" not in " ".join(transition.reason for transition in result.transitions)


def test_a_delayed_creation_is_ignored_for_a_running_or_unknown_task() -> None:
    harness = running_harness(a_role("w", 2))
    planner = Planner(harness.framework, harness.options)

    planner.creation_delayed(harness.pod_name("w0"), "too late")
    planner.creation_delayed(PodName("f-w-9"), "no such task")

    assert [task.message for task in planner.status().roles[0].tasks] == ["", ""]


@pytest.mark.parametrize("policy", CleanPodPolicy)
def test_a_pod_that_is_observed_after_the_deadline_is_deleted_before_the_framework_completes(
    policy: CleanPodPolicy,
) -> None:
    harness = new_harness(a_role("w", 2), active_deadline_seconds=60, clean_pods=policy)
    harness.crash(executed=1)
    planner = Planner(harness.framework, harness.options)

    # The cache does not contain the pod yet.
    planner.plan(START + 60)
    before_observation = planner.summary.state
    planner.observe_pod(pod_from_json(harness.pods[harness.pod_name("w0")]))
    result = planner.plan(START + 60, pods_are_live=True)
    during_deletion = planner.summary.state
    planner.pod_deleted(harness.pod_name("w0"))
    planner.plan(START + 60, pods_are_live=True)

    assert before_observation is State.CREATION_PENDING
    assert result.actions == (DeletePod(harness.pod_name("w0"), harness.pod_uid("w0")),)
    assert during_deletion is not State.COMPLETED
    assert planner.is_completed
