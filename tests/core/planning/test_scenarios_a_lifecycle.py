"""Scenario rows A: the lifecycle of a Framework."""

import pytest

from launcher.core.names import attempt_uid, instance_uid
from launcher.core.planning.actions import CreatePod, DeleteFramework
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import plan
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import CleanPodPolicy, RoleName
from launcher.core.status import State
from tests.core.builders import UID, a_role
from tests.core.planning.harness import NO_FAILURE_SPEC, new_harness, running_harness

S = State


def test_a1_a_task_that_succeeds_passes_through_every_state() -> None:
    """An attempt has no ConfigMap, so its creation is not requested; a terminated pod counts before its deletion."""
    harness = running_harness(a_role("w"), clean_pods=CleanPodPolicy.ALL)

    harness.succeed("w0")

    assert harness.states() == [
        S.CREATION_PENDING, S.PREPARING, S.RUNNING, S.DELETION_PENDING, S.ATTEMPT_COMPLETED, S.COMPLETED,
    ]  # fmt: skip
    assert harness.states("w0") == [
        S.CREATION_PENDING, S.CREATION_REQUESTED, S.PREPARING, S.RUNNING, S.ATTEMPT_COMPLETED, S.COMPLETED,
    ]  # fmt: skip
    assert (harness.final_code, harness.trigger, harness.counters) == (0, "w0", (0, 0))
    assert harness.existing_pods() == set()


def test_a2_a_pod_that_was_never_observed_running_leaves_every_run_time_unset() -> None:
    harness = new_harness()
    harness.sync()

    harness.report_status("w0", {"phase": "Pending"})
    harness.sync()
    harness.succeed("w0")

    assert harness.final_code == 0
    assert S.RUNNING not in harness.states()
    assert harness.status.run_time is None
    assert harness.status.attempt.run_time is None
    assert harness.task("w0").run_time is None
    assert harness.task("w0").attempt.run_time is None


def test_a3_the_first_failure_ends_the_attempt_and_stops_the_others() -> None:
    harness = running_harness(a_role("w", 2))

    harness.fail("w0", 1)

    assert (harness.final_code, harness.trigger) == (1, "w0")
    completion = harness.status.attempt.completion
    assert completion is not None
    assert completion.phrase == "ContainerUnrecognizedFailed"
    assert (harness.task_code("w0"), harness.task_code("w1")) == (1, -220)


def test_a5_the_attempt_has_a_uid_of_its_own_and_a_pod_is_created_once() -> None:
    """There is no ConfigMap to create: the uid is derived and known before any creation."""
    harness = new_harness()

    harness.sync_once()
    first = status_to_json(harness.status, harness.framework.name, UID)["attemptStatus"]
    harness.sync()
    harness.sync()

    assert first["configMapUID"] == attempt_uid(UID, 0)
    assert first["instanceUID"] == instance_uid(0, attempt_uid(UID, 0))
    assert len(harness.created_pods) == 1


def test_a6_the_deletion_timeout_is_saved_before_any_pod_exists() -> None:
    harness = new_harness(a_role("w", graceful_deletion_seconds=600))

    result = harness.plan()

    role = result.status.role("w")
    assert role is not None
    assert role.graceful_deletion_seconds == 600
    assert result.actions == (CreatePod(RoleName("w"), 0, 0, 0),)
    assert harness.pods == {}


def test_a7_a_completed_framework_is_deleted_after_its_ttl() -> None:
    options = PlannerOptions(failures=NO_FAILURE_SPEC.failures, default_ttl_seconds=10)
    harness = running_harness(a_role("w"), options=options)
    harness.succeed("w0")

    harness.advance(9)
    before = harness.is_deleted
    result = plan(harness.framework, [], harness.now + 1, options=options)
    harness.advance(1)

    assert (before, harness.is_deleted) == (False, True)
    assert result.actions == (DeleteFramework("ttlSecondsAfterFinished (10) expired"),)


def test_a8_a_framework_without_tasks_waits_forever() -> None:
    harness = new_harness(a_role("w", 0))
    harness.sync()

    harness.advance(1_000_000)

    assert harness.state is S.PREPARING
    assert harness.plan().requeue_at is None


def test_a9_an_attempt_completes_with_a_role_without_tasks() -> None:
    harness = running_harness(a_role("a", 0), a_role("b"))

    harness.succeed("b0")

    assert (harness.final_code, harness.trigger) == (0, "b0")


def test_a10_a_completed_framework_is_not_rescaled() -> None:
    harness = running_harness()
    harness.succeed("w0")
    before = harness.status

    harness.edit_role("w", tasks=3)
    harness.sync()

    assert harness.status is before
    assert len(harness.created_pods) == 1


@pytest.mark.parametrize("seconds", [1, 100_000])
def test_a11_a_pod_in_phase_unknown_has_not_failed(seconds: int) -> None:
    harness = running_harness()

    harness.report_status("w0", {**harness.running_status("w0"), "phase": "Unknown"})
    harness.advance(seconds)

    assert harness.task("w0").state is S.RUNNING
    assert harness.state is S.RUNNING
