"""Rescale: tasks and roles that are added to or removed from the spec."""

from hypothesis import given
from hypothesis import strategies as st

from launcher.core.names import PodIdentityKey
from launcher.core.planning.rescale import compact, new_roles, rescale, update_specs
from launcher.core.spec import FrameworkSpec, RoleName
from launcher.core.status import State
from tests.core.builders import START, a_role, a_spec
from tests.core.planning.harness import PlannerHarness, new_harness, running_harness
from tests.hypothesis_examples import examples

W = RoleName("w")


def test_a_fresh_attempt_has_the_tasks_of_the_spec() -> None:
    roles = new_roles(a_spec(a_role("w", 2, graceful_deletion_seconds=7), a_role("ps", 1)), START)

    assert {name: len(role.tasks) for name, role in roles.items()} == {"w": 2, "ps": 1}
    assert roles[W].graceful_deletion_seconds == 7
    assert (roles[W].waiting, roles[W].unfinished) == (2, 2)


def test_a_scale_down_marks_the_highest_indexes() -> None:
    roles = new_roles(a_spec(a_role("w", 3)), START)

    added = rescale(roles, a_spec(a_role("w", 1)), START + 5, 1)

    assert added is False
    assert [task.deletion_pending for task in roles[W].tasks] == [False, True, True]
    assert [task.message for task in roles[W].tasks][1:] == ["Removed by a scale-down."] * 2


def test_a_scale_up_adds_tasks_of_another_incarnation() -> None:
    roles = new_roles(a_spec(a_role("w", 1)), START)

    added = rescale(roles, a_spec(a_role("w", 2), a_role("ps")), START + 5, 3)

    assert added is True
    assert [(task.incarnation, task.start_time) for task in roles[W].tasks] == [(0, START), (3, START + 5)]
    assert roles[RoleName("ps")].tasks[0].incarnation == 3


def test_marking_tasks_as_removed_twice_changes_nothing() -> None:
    roles = new_roles(a_spec(a_role("w", 2)), START)
    smaller = a_spec(a_role("w", 1))
    rescale(roles, smaller, START, 1)
    once = roles[W].to_status()

    rescale(roles, smaller, START + 9, 2)

    assert roles[W].to_status() == once


def test_a_removed_task_is_kept_until_it_completes() -> None:
    roles = new_roles(a_spec(a_role("w", 2)), START)
    rescale(roles, a_spec(a_role("w", 1)), START, 1)

    assert compact(roles[W], START, 2) is None
    assert len(roles[W].tasks) == 2


def test_a_removed_role_keeps_its_deletion_timeout() -> None:
    roles = new_roles(a_spec(a_role("w", graceful_deletion_seconds=7)), START)

    update_specs(roles, FrameworkSpec(()))

    assert (roles[W].role, roles[W].graceful_deletion_seconds) == (None, 7)


def test_a_changed_deletion_timeout_applies_while_the_attempt_is_deleted() -> None:
    """A user may shorten the wait for a stuck pod."""
    harness = running_harness(a_role("w"))
    harness.stuck_pods.add(harness.pod_name("w0"))
    harness.stop()
    harness.sync()

    harness.edit_role("w", graceful_deletion_seconds=5)
    harness.advance(4)
    before = list(harness.force_deleted)
    harness.advance(1)

    assert (before, harness.force_deleted, harness.final_code) == ([], [harness.pod_name("w0")], -210)


def test_a_removed_task_that_runs_does_not_make_the_framework_running() -> None:
    harness = new_harness(a_role("w", 2))
    harness.sync()
    harness.stuck_pods.add(harness.pod_name("w1"))

    harness.edit_role("w", tasks=1)
    harness.report_status("w1", harness.running_status("w1"))
    harness.sync()

    assert harness.task("w1").deletion_pending
    assert harness.state is State.PREPARING


def task_uids(harness: PlannerHarness) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["metadata"]["annotations"][PodIdentityKey.TASK_UID]
        for pod in harness.pods.values()
    }


@examples(100)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_after_any_rescales_the_tasks_are_those_of_the_spec(
    steps: list[tuple[int, bool, bool]],
) -> None:
    """Tasks that the spec never removed keep their pods; new tasks get a task uid that no task had before."""
    harness = running_harness(a_role("w", 2), a_role("x", min_counts=(-1, -1)))
    seen: set[str] = set(task_uids(harness).values())
    never_removed = 2

    for tasks, confirmed, stuck in steps:
        before = task_uids(harness)
        if stuck:
            harness.stuck_pods |= set(harness.pods)
        never_removed = min(never_removed, tasks)
        harness.edit_role("w", tasks=tasks)
        harness.sync()
        if confirmed:
            harness.stuck_pods.clear()
            harness.sync()
        new = {uid for name, uid in task_uids(harness).items() if before.get(name) != uid}
        assert not new & seen
        seen |= new
    harness.stuck_pods.clear()
    harness.sync()
    harness.run_pods()

    expected = harness.framework.spec.roles[0].tasks
    assert sorted(harness.tasks()) == [*(f"w{index}" for index in range(expected)), "x0"]
    assert all(task.state is State.RUNNING and not task.deletion_pending for task in harness.tasks().values())
    assert harness.existing_pods() == set(harness.tasks())
    assert [harness.pod_uid(f"w{index}") for index in range(never_removed)] == [
        f"pod-{index}" for index in range(never_removed)
    ]
