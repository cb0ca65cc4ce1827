"""The order in which roles start."""

from typing import Any

import pytest

from launcher.core.planning.start_order import OPEN, start_gate
from launcher.core.spec import FrameworkSpec, RoleName, StartAfter, StartCondition, TaskRole
from launcher.core.status import State
from tests.core.builders import a_role
from tests.core.planning.harness import PlannerHarness, new_harness, running_harness

PS, W = RoleName("ps"), RoleName("w")


def start_after(
    condition: StartCondition = StartCondition.RUNNING, at_least: int | None = None, role: RoleName = PS
) -> tuple[StartAfter, ...]:
    return (StartAfter(role, condition, at_least),)


def synced_harness(*roles: TaskRole, **spec: Any) -> PlannerHarness:
    """A harness after the first reconcile: the first pods exist and do not run yet."""
    harness = new_harness(*roles, **spec)
    harness.sync()
    return harness


# roleSequence: order of creation.


def test_without_a_role_sequence_all_pods_are_created_at_once() -> None:
    harness = new_harness(a_role("ps"), a_role("w", 2))

    harness.sync_once()

    assert harness.existing_pods() == {"ps0", "w0", "w1"}


def test_the_pods_of_a_role_are_created_after_all_pods_of_the_roles_before_it() -> None:
    harness = new_harness(a_role("ps"), a_role("w", 2), role_sequence=(W, PS))

    harness.sync_once()
    first = harness.existing_pods()
    harness.sync()

    assert (first, harness.existing_pods()) == ({"w0", "w1"}, {"w0", "w1", "ps0"})
    assert [pod["metadata"]["name"] for pod in harness.created_pods] == ["f-w-0", "f-w-1", "f-ps-0"]


def test_later_roles_wait_for_a_pod_that_cannot_be_created_yet() -> None:
    harness = new_harness(a_role("ps"), a_role("w", 2), role_sequence=(W, PS))
    harness.creation_errors[harness.pod_name("w1")] = ["exceeded quota"]

    harness.sync()
    before = (harness.existing_pods(), harness.task("ps0").message)
    harness.advance(1)

    assert before == ({"w0"}, "Waiting for all pods of role w to be created (roleSequence).")
    assert harness.existing_pods() == {"w0", "w1", "ps0"}


def test_the_role_sequence_applies_to_the_next_attempt() -> None:
    harness = running_harness(a_role("ps"), a_role("w"), role_sequence=(W, PS), retry=(False, 1))

    harness.fail("w0", 1)

    assert [pod["metadata"]["name"] for pod in harness.created_pods[2:]] == ["f-w-0", "f-ps-0"]


def test_the_role_sequence_applies_to_added_tasks() -> None:
    harness = running_harness(a_role("ps"), a_role("w"), role_sequence=(W, PS))
    harness.creation_errors[harness.pod_name("w1")] = ["exceeded quota"]

    roles = (a_role("ps", 2), a_role("w", 2))
    harness.edit_spec(roles=roles)
    harness.sync()
    before = harness.existing_pods()
    harness.advance(1)

    assert (before, harness.existing_pods()) == ({"ps0", "w0"}, {"ps0", "ps1", "w0", "w1"})


# startAfter.


def test_a_role_waits_until_all_tasks_of_another_role_run() -> None:
    harness = synced_harness(a_role("ps", 2), a_role("w", start_after=start_after()))

    first = (harness.existing_pods(), harness.task("w0").message)
    harness.run_pods("ps0")
    second = harness.existing_pods()
    harness.run_pods("ps1")

    assert first == ({"ps0", "ps1"}, "Waiting for role ps to be Running (startAfter).")
    assert (second, harness.existing_pods()) == ({"ps0", "ps1"}, {"ps0", "ps1", "w0"})


def test_start_after_ready_waits_until_a_running_pod_is_ready() -> None:
    harness = synced_harness(a_role("ps"), a_role("w", start_after=start_after(StartCondition.READY)))

    harness.run_pods("ps0")
    running = harness.existing_pods()
    harness.make_ready("ps0")

    assert (running, harness.existing_pods()) == ({"ps0"}, {"ps0", "w0"})


def test_the_readiness_of_a_pod_is_not_saved() -> None:
    harness = running_harness(a_role("ps"), a_role("w"))
    saved_before = len(harness.saved_statuses)

    harness.make_ready("ps0")

    assert len(harness.saved_statuses) == saved_before


def test_a_role_waits_for_the_success_of_another_role() -> None:
    harness = synced_harness(a_role("ps"), a_role("w", start_after=start_after(StartCondition.SUCCEEDED)))

    harness.run_pods("ps0")
    running = harness.existing_pods()
    harness.succeed("ps0")
    harness.run_pods("w0")

    assert (running, harness.existing_pods()) == ({"ps0"}, {"ps0", "w0"})
    assert harness.state is State.RUNNING


@pytest.mark.parametrize("condition", [StartCondition.RUNNING, StartCondition.READY])
def test_a_succeeded_task_counts_as_running_and_ready(condition: StartCondition) -> None:
    harness = synced_harness(a_role("ps"), a_role("w", start_after=start_after(condition)))

    harness.succeed("ps0")

    assert harness.existing_pods() == {"ps0", "w0"}


def test_a_role_starts_when_at_least_the_given_number_of_tasks_run() -> None:
    harness = synced_harness(a_role("ps", 3), a_role("w", start_after=start_after(at_least=2)))

    harness.run_pods("ps2")
    with_one = harness.existing_pods()
    harness.run_pods("ps0")

    assert "w0" not in with_one
    assert "w0" in harness.existing_pods()


def test_a_role_waits_for_all_of_its_conditions() -> None:
    after = (*start_after(), *start_after(StartCondition.SUCCEEDED, role=RoleName("data")))
    harness = synced_harness(a_role("ps"), a_role("data", min_counts=(1, -1)), a_role("w", start_after=after))

    harness.run_pods("ps0", "data0")
    message = harness.task("w0").message
    harness.succeed("data0")

    assert message == "Waiting for role data to be Succeeded (startAfter)."
    assert "w0" in harness.existing_pods()


def test_a_failed_task_that_is_retried_can_still_meet_a_condition() -> None:
    roles = (a_role("ps", retry=(False, 1)), a_role("w", start_after=start_after(StartCondition.SUCCEEDED)))
    harness = synced_harness(*roles)
    harness.run_pods("ps0")

    harness.fail("ps0", 1)
    message = harness.task("w0").message
    harness.run_pods("ps0")
    harness.succeed("ps0")

    assert message == "Waiting for role ps to be Succeeded (startAfter)."
    assert "w0" in harness.existing_pods()


def test_a_condition_that_can_no_longer_be_met_completes_the_waiting_tasks() -> None:
    roles = (
        a_role("ps", min_counts=(-1, -1)),
        a_role("w", start_after=start_after(StartCondition.SUCCEEDED)),
    )
    harness = synced_harness(*roles)
    harness.run_pods("ps0")

    harness.fail("ps0", 1)

    assert (harness.final_code, harness.task_code("w0"), harness.trigger) == (-240, -240, "w0")
    completion = harness.task("w0").attempt.completion
    assert completion is not None
    assert completion.diagnostics == "startAfter can no longer be met: role ps cannot become Succeeded"
    assert len(harness.created_pods) == 1


def test_a_condition_is_met_by_enough_tasks_though_others_failed() -> None:
    roles = (
        a_role("ps", 3, min_counts=(-1, -1)),
        a_role("w", start_after=start_after(StartCondition.SUCCEEDED, 2)),
    )
    harness = synced_harness(*roles)
    harness.run_pods("ps0", "ps1", "ps2")

    harness.fail("ps0", 1)
    harness.succeed("ps1")
    before = harness.task("w0").state
    harness.succeed("ps2")

    assert before is State.CREATION_PENDING
    assert "w0" in harness.existing_pods()


def test_of_tasks_that_complete_in_one_reconcile_the_last_in_order_completes_the_attempt() -> None:
    """A running and a restarted launcher must agree, though the running one reconciles twice."""
    harness = synced_harness(
        a_role("ps", min_counts=(-1, -1)),
        a_role("w", min_counts=(-1, -1), start_after=start_after(StartCondition.SUCCEEDED)),
        a_role("x", min_counts=(-1, -1)),
    )

    harness.exit_pods({"ps0": 1, "x0": 1})

    assert (harness.final_code, harness.task_code("w0"), harness.trigger) == (0, -240, "x0")


@pytest.mark.parametrize("retry", [(False, -2), (False, -1), (False, 3), (True, -2)])
def test_a_task_that_can_never_start_is_not_retried(retry: tuple[bool, int]) -> None:
    """A retry without a pod would only increase the counter."""
    roles = (
        a_role("ps", min_counts=(-1, -1)),
        a_role("w", retry=retry, start_after=start_after(StartCondition.SUCCEEDED)),
    )
    harness = synced_harness(*roles)
    harness.run_pods("ps0")

    harness.fail("ps0", 1)

    assert (harness.final_code, harness.task_counters("w0")) == (-240, (0, 0))


def test_a_framework_is_retried_after_a_condition_that_could_not_be_met() -> None:
    roles = (
        a_role("ps", min_counts=(-1, -1)),
        a_role("w", start_after=start_after(StartCondition.SUCCEEDED)),
    )
    harness = synced_harness(*roles, retry=(False, 1))
    harness.run_pods("ps0")

    harness.fail("ps0", 1)
    harness.run_pods("ps0")
    harness.succeed("ps0")

    assert (harness.status.attempt.id, "w0" in harness.existing_pods()) == (1, True)


def test_start_after_applies_to_the_next_attempt() -> None:
    harness = synced_harness(a_role("ps"), a_role("w", start_after=start_after()), retry=(False, 1))
    harness.run_pods("ps0")
    harness.run_pods("w0")

    harness.fail("w0", 1)
    next_attempt = harness.existing_pods()
    harness.run_pods("ps0")

    assert (next_attempt, harness.existing_pods()) == ({"ps0"}, {"ps0", "w0"})


def test_a_scale_down_can_meet_a_condition() -> None:
    harness = synced_harness(a_role("ps", 2), a_role("w", start_after=start_after()))
    harness.run_pods("ps0")

    harness.edit_role("ps", tasks=1)
    harness.sync()

    assert harness.existing_pods() == {"ps0", "w0"}


def test_start_after_applies_to_added_tasks() -> None:
    harness = running_harness(a_role("ps"), a_role("w", start_after=start_after()))
    harness.run_pods("w0")

    harness.edit_spec(roles=(a_role("ps", 2), a_role("w", 2, start_after=start_after())))
    harness.sync()
    before = harness.existing_pods()
    harness.run_pods("ps1")

    assert (before, harness.existing_pods()) == ({"ps0", "ps1", "w0"}, {"ps0", "ps1", "w0", "w1"})


def test_a_role_does_not_wait_for_a_role_without_tasks() -> None:
    harness = synced_harness(a_role("ps", 0), a_role("w", start_after=start_after()))

    assert harness.existing_pods() == {"w0"}


def test_a_condition_on_more_tasks_than_exist_can_never_be_met() -> None:
    role = a_role("w", start_after=start_after(at_least=1))

    gate = start_gate(role, FrameworkSpec((role,)), {})

    assert gate.unreachable_reason
    assert start_gate(a_role("w"), FrameworkSpec((role,)), {}) is OPEN
