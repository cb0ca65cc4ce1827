"""Scenario rows F: faults of the cluster and the launcher; a task has at most one pod in all of them."""

from dataclasses import replace

from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning.actions import CreatePod
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner
from launcher.core.spec import RoleName
from launcher.core.status import State
from tests.core.builders import a_role, a_terminated_status
from tests.core.planning.harness import NO_FAILURE_SPEC, PlannerHarness, new_harness, running_harness


def test_f1_a_pod_that_is_stuck_in_deletion_is_force_deleted_after_its_timeout() -> None:
    harness = running_harness(a_role("w", retry=(True, 0), graceful_deletion_seconds=600))
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.delete_pod("w0")

    harness.advance(599)
    before = (harness.task("w0").state, list(harness.force_deleted))
    harness.advance(1)

    assert before == (State.DELETING, [])
    assert (harness.force_deleted, harness.task_counters("w0")) == ([harness.pod_name("w0")], (1, 0))
    assert len(harness.created_pods) == 2


def test_f2_without_a_timeout_a_pod_that_is_stuck_in_deletion_is_never_force_deleted() -> None:
    harness = running_harness(a_role("w", retry=(True, 0)))
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.delete_pod("w0")

    harness.advance(10_000_000)

    assert (harness.task("w0").state, harness.force_deleted, len(harness.created_pods)) == (
        State.DELETING,
        [],
        1,
    )
    assert harness.plan().requeue_at is None


def test_f4_the_deletion_of_all_pods_by_another_client_completes_the_attempt() -> None:
    """There is no ConfigMap whose deletion would delete the pods; here all pods are deleted."""
    harness = running_harness(a_role("w", 2))

    harness.request_deletion("w0")
    harness.request_deletion("w1")
    harness.sync()

    assert (harness.final_code, harness.task_code("w0"), harness.task_code("w1")) == (-101, -101, -101)


def test_f5_all_pods_deleted_by_another_client_are_replaced_if_tasks_are_retried() -> None:
    """Without a ConfigMap the attempt continues."""
    harness = running_harness(a_role("w", 2, retry=(True, 0)))

    harness.request_deletion("w0")
    harness.request_deletion("w1")
    harness.sync()
    harness.run_pods()

    assert (harness.state, harness.status.attempt.id) == (State.RUNNING, 0)
    assert (harness.task_counters("w0"), harness.task_counters("w1")) == ((1, 0), (1, 0))


def test_f6_a_lost_pod_is_a_transient_failure_of_the_framework() -> None:
    """There is no ConfigMap; a pod deleted by another client leads to the same retry."""
    harness = running_harness(a_role("w"), retry=(True, 0))

    harness.delete_pod("w0")

    assert (harness.status.attempt.id, harness.counters) == (1, (1, 0))


def test_f7_an_attempt_whose_pods_cannot_be_created_waits_without_a_limit() -> None:
    """There is no ConfigMap: an attempt whose pods cannot be created yet waits without a time limit."""
    harness = new_harness(a_role("w"), retry=(True, 0))
    harness.taken_names.add(harness.pod_name("w0"))
    harness.sync()

    harness.advance(100_000)

    assert (harness.state, harness.status.attempt.id, harness.attempt_code) == (
        State.CREATION_PENDING,
        0,
        None,
    )


def test_f8_a_pod_that_was_requested_and_not_observed_for_300_s_fails() -> None:
    """Responses of creations are observed at once; a stored status may still contain a requested creation."""
    harness = new_harness(a_role("w", retry=(True, 0)))
    harness.crash(executed=0)
    role = harness.status.roles[0]
    requested = replace(role.tasks[0], state=State.CREATION_REQUESTED)
    status = replace(harness.status, roles=(replace(role, tasks=(requested,)),), state=State.PREPARING)
    harness.framework = replace(harness.framework, status=status)

    harness.advance(299)
    waiting = (harness.task("w0").state, len(harness.created_pods))
    harness.advance(1)

    assert waiting == (State.CREATION_REQUESTED, 0)
    assert (harness.task_counters("w0"), len(harness.created_pods)) == ((1, 0), 1)
    assert "not observed within 300s" in " ".join(transition.reason for transition in harness.transitions)


def test_f9_a_pod_created_before_a_crash_is_adopted() -> None:
    """The labels of a pod contain its attempt, so it need not be deleted and created again."""
    harness = new_harness()

    harness.crash(executed=1)
    unrecorded = harness.task("w0").attempt.pod_uid
    harness.sync()
    harness.run_pods()

    assert unrecorded is None
    assert (harness.task("w0").attempt.pod_uid, len(harness.created_pods)) == ("pod-0", 1)
    assert (harness.state, harness.task_counters("w0")) == (State.RUNNING, (0, 0))


def test_f10_a_task_waits_while_a_foreign_pod_has_the_name_of_its_pod() -> None:
    harness = new_harness()
    harness.taken_names.add(harness.pod_name("w0"))

    harness.sync()
    for _ in range(5):
        harness.advance(100)
    waiting = (harness.task("w0").state, harness.task("w0").message, len(harness.created_pods))
    harness.taken_names.clear()
    harness.advance(100)

    assert waiting == (State.CREATION_PENDING, 'pods "f-w-0" already exists', 0)
    assert (harness.existing_pods(), harness.task_counters("w0")) == ({"w0"}, (0, 0))


def reject_creations(harness: PlannerHarness, *codes: Code) -> None:
    rejections = [completion_for(code, "rejected") for code in codes]
    harness.creation_errors[harness.pod_name("w0")] = list(rejections)


def test_f11_the_rejection_of_an_invalid_pod_completes_the_framework() -> None:
    harness = new_harness()
    reject_creations(harness, Code.POD_CREATION_PERMANENT_ERROR)

    harness.sync()

    assert (harness.final_code, harness.created_pods) == (-200, [])


def test_f12_rejections_for_unknown_reasons_use_up_the_retries() -> None:
    harness = new_harness(a_role("w", retry=(True, 1)))
    reject_creations(harness, Code.POD_CREATION_UNKNOWN_ERROR, Code.POD_CREATION_UNKNOWN_ERROR)

    harness.sync()

    assert (harness.final_code, harness.task_counters("w0"), harness.created_pods) == (-310, (1, 1), [])


def test_f13_a_pod_that_cannot_be_created_yet_waits_and_keeps_its_attempt() -> None:
    harness = new_harness()
    harness.creation_errors[harness.pod_name("w0")] = ["exceeded quota", "the server has an error"]

    harness.sync()
    first = (harness.task("w0").state, harness.task("w0").message)
    harness.advance(10)
    second = harness.task("w0").message
    harness.advance(10)

    assert (first, second) == ((State.CREATION_PENDING, "exceeded quota"), "the server has an error")
    assert (harness.task("w0").state, harness.task_counters("w0")) == (State.PREPARING, (0, 0))


def test_f14_a_pod_is_not_created_again_while_it_is_missing_in_the_cache() -> None:
    harness = new_harness()
    planner = Planner(harness.framework, harness.options)

    first = planner.plan(harness.now)
    later = [planner.plan(harness.now + second).actions for second in range(1, 4)]

    assert first.actions == (CreatePod(RoleName("w"), 0, 0, 0),)
    assert later == [(), (), ()]


def test_f17_a_framework_in_deletion_creates_no_pods() -> None:
    harness = running_harness(a_role("w"), retry=(True, 0))

    harness.delete_framework()
    harness.sync()
    harness.advance(10_000)

    assert (harness.state, harness.attempt_code, harness.task_code("w0")) == (
        State.ATTEMPT_COMPLETED,
        -100,
        -101,
    )
    assert State.DELETING in harness.states()
    assert (harness.status.attempt.id, len(harness.created_pods)) == (0, 1)


def test_f18_tasks_wait_for_the_deletion_of_the_pods_of_an_earlier_framework_of_the_same_name() -> None:
    """There is no old ConfigMap; each task waits for the deletion of the old pod with its name."""
    harness = new_harness(a_role("w", 2))
    harness.taken_names.add(harness.pod_name("w1"))

    harness.sync()
    before = harness.existing_pods()
    harness.taken_names.clear()
    harness.advance(1)

    assert (before, harness.existing_pods()) == ({"w0"}, {"w0", "w1"})
    assert len(harness.created_pods) == 2


def test_f19_a_restart_does_not_change_when_a_retry_is_due() -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 900))
    harness = running_harness(a_role("w"), retry=(True, 0), options=options)
    harness.fail("w0", 201)

    harness.now += 30
    harness.jitter = 0.99
    harness.restart()
    harness.sync()
    delay, due = harness.status.retry.delay, harness.plan().requeue_at
    harness.advance(29)
    before = harness.status.attempt.id
    harness.advance(1)

    assert (delay, due) == (60, int(harness.now))
    assert (before, harness.status.attempt.id) == (0, 1)


def test_f21_the_exit_code_of_a_pod_in_deletion_is_ignored() -> None:
    harness = running_harness()
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.request_deletion("w0")

    harness.report_status("w0", a_terminated_status(0))
    harness.sync()
    harness.confirm_deletion("w0")

    assert (harness.final_code, harness.task_code("w0")) == (-101, -101)
