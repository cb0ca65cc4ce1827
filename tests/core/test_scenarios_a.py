"""Scenario rows A: the life of a Framework from its creation to its end."""

import pytest

from launcher.core.names import attempt_uid, instance_uid
from launcher.core.planning.actions import CreatePod, DeleteFramework
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import plan
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import CleanPodPolicy, RoleName
from launcher.core.status import State
from tests.core.world import NO_FAILURE_SPEC, UID, a_role, a_world, running

S = State


def test_a1_one_task_that_succeeds_walks_through_every_state_to_the_end() -> None:
    """No object stands for the attempt, so it is never requested; a pod that ended counts before it is deleted."""
    world = running(a_role("w"), clean_pods=CleanPodPolicy.ALL)

    world.ok("w0")

    assert world.states() == [
        S.CREATION_PENDING, S.PREPARING, S.RUNNING, S.DELETION_PENDING, S.ATTEMPT_COMPLETED, S.COMPLETED,
    ]  # fmt: skip
    assert world.states("w0") == [
        S.CREATION_PENDING, S.CREATION_REQUESTED, S.PREPARING, S.RUNNING, S.ATTEMPT_COMPLETED, S.COMPLETED,
    ]  # fmt: skip
    assert (world.done, world.trigger, world.counters) == (0, "w0", (0, 0))
    assert world.live() == set()


def test_a2_a_pod_that_was_never_seen_running_leaves_every_run_time_open() -> None:
    world = a_world()
    world.sync()

    world.status_of("w0", {"phase": "Pending"})
    world.sync()
    world.ok("w0")

    assert world.done == 0
    assert S.RUNNING not in world.states()
    assert world.status.run_time is None
    assert world.status.attempt.run_time is None
    assert world.task("w0").run_time is None
    assert world.task("w0").attempt.run_time is None


def test_a3_the_first_failure_ends_the_attempt_and_stops_the_others() -> None:
    world = running(a_role("w", 2))

    world.fail("w0", 1)

    assert (world.done, world.trigger) == (1, "w0")
    end = world.status.attempt.completion
    assert end is not None
    assert end.phrase == "ContainerUnrecognizedFailed"
    assert (world.task_code("w0"), world.task_code("w1")) == (1, -220)


def test_a5_the_attempt_has_a_uid_of_its_own_and_a_pod_is_created_once() -> None:
    """There is no ConfigMap to create: its uid is derived, and known before anything is created."""
    world = a_world()

    world.sync_once()
    first = status_to_json(world.status, world.framework.name, UID)["attemptStatus"]
    world.sync()
    world.sync()

    assert first["configMapUID"] == attempt_uid(UID, 0)
    assert first["instanceUID"] == instance_uid(0, attempt_uid(UID, 0))
    assert len(world.made) == 1


def test_a6_the_deletion_timeout_is_saved_before_any_pod_exists() -> None:
    world = a_world(a_role("w", graceful_deletion_seconds=600))

    todo = world.plan()

    role = todo.status.role("w")
    assert role is not None
    assert role.graceful_deletion_seconds == 600
    assert todo.actions == (CreatePod(RoleName("w"), 0, 0, 0),)
    assert world.pods == {}


def test_a7_a_finished_framework_is_deleted_when_its_time_is_over() -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, default_ttl_seconds=10)
    world = running(a_role("w"), rules=rules)
    world.ok("w0")

    world.after(9)
    early = world.gone
    todo = plan(world.framework, [], world.now + 1, rules=rules)
    world.after(1)

    assert (early, world.gone) == (False, True)
    assert todo.actions == (DeleteFramework("it finished 10 s ago"),)


def test_a8_a_framework_without_tasks_waits_for_ever() -> None:
    world = a_world(a_role("w", 0))
    world.sync()

    world.after(1_000_000)

    assert world.state is S.PREPARING
    assert world.plan().requeue_at is None


def test_a9_a_role_without_tasks_does_not_keep_the_others_from_ending() -> None:
    world = running(a_role("a", 0), a_role("b"))

    world.ok("b0")

    assert (world.done, world.trigger) == (0, "b0")


def test_a10_a_finished_framework_takes_no_rescale() -> None:
    world = running()
    world.ok("w0")
    before = world.status

    world.edit_role("w", tasks=3)
    world.sync()

    assert world.status is before
    assert len(world.made) == 1


@pytest.mark.parametrize("seconds", [1, 100_000])
def test_a11_a_pod_of_unknown_phase_is_not_a_failed_one(seconds: int) -> None:
    world = running()

    world.status_of("w0", {**world.a_running_status("w0"), "phase": "Unknown"})
    world.after(seconds)

    assert world.task("w0").state is S.RUNNING
    assert world.state is S.RUNNING
