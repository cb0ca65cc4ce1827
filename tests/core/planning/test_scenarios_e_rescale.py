"""Scenario rows E: tasks and roles that are added and removed while the Framework runs."""

from collections.abc import Callable

import pytest

from launcher.core.names import task_uid
from launcher.core.spec import RoleName
from launcher.core.status import State
from tests.core.builders import UID, a_role
from tests.core.planning.harness import PlannerHarness, new_harness, running_harness


def uid_of(harness: PlannerHarness, short: str) -> str:
    """The task's instanceUID."""
    task = harness.task(short)
    role = RoleName(short.rstrip("0123456789"))
    return task_uid(UID, harness.status.attempt.id, role, task.index, task.incarnation)


def rescale(harness: PlannerHarness, tasks: int, min_failed: int) -> None:
    harness.edit_role("a", tasks=tasks, min_counts=(min_failed, 1))
    harness.sync()


def step_1(harness: PlannerHarness) -> None:
    harness.sync()
    harness.run_pods()

    assert [task.state for task in harness.tasks().values()] == [State.RUNNING] * 4


def step_2(harness: PlannerHarness) -> None:
    harness.delete_pod("a2")
    harness.delete_pod("a3")

    assert [(harness.task(a).state, harness.task_code(a)) for a in ("a2", "a3")] == [
        (State.COMPLETED, -101)
    ] * 2


def step_3(harness: PlannerHarness) -> None:
    rescale(harness, 2, 2)

    assert sorted(harness.tasks()) == ["a0", "a1"]


def step_4(harness: PlannerHarness) -> None:
    old = [task_uid(UID, 0, RoleName("a"), index, 0) for index in (2, 3)]

    rescale(harness, 4, 4)
    harness.run_pods("a2", "a3")

    assert [task.state for task in harness.tasks().values()] == [State.RUNNING] * 4
    assert not {uid_of(harness, "a2"), uid_of(harness, "a3")} & set(old)


def step_5(harness: PlannerHarness) -> None:
    harness.delete_pod("a2")

    assert (harness.task("a2").state, harness.task_code("a2")) == (State.COMPLETED, -101)


def step_6(harness: PlannerHarness) -> None:
    harness.stuck_pods.add(harness.pod_name("a3"))

    rescale(harness, 2, 2)

    removed = [
        (t.state, t.deletion_pending, harness.task_code(a)) for a, t in list(harness.tasks().items())[2:]
    ]
    assert removed == [(State.COMPLETED, True, -101), (State.DELETING, True, -230)]


def step_7(harness: PlannerHarness) -> None:
    old = uid_of(harness, "a2")

    rescale(harness, 3, 3)
    before = (harness.task("a2").deletion_pending, uid_of(harness, "a2") != old, harness.task("a3").state)
    harness.confirm_deletion("a3")

    assert before == (False, True, State.DELETING)
    assert sorted(harness.tasks()) == ["a0", "a1", "a2"]


def step_8(harness: PlannerHarness) -> None:
    rescale(harness, 4, 4)
    harness.run_pods("a2", "a3")

    assert [task.state for task in harness.tasks().values()] == [State.RUNNING] * 4


def step_9(harness: PlannerHarness) -> None:
    old = [uid_of(harness, "a2"), uid_of(harness, "a3")]
    harness.delete_pod("a2")
    harness.stuck_pods.add(harness.pod_name("a3"))

    rescale(harness, 2, 2)
    rescale(harness, 5, 5)
    before = (uid_of(harness, "a2") != old[0], uid_of(harness, "a3") == old[1], "a4" in harness.tasks())
    harness.confirm_deletion("a3")

    assert before == (True, True, True)
    assert uid_of(harness, "a3") != old[1]
    assert not harness.task("a3").deletion_pending


STEPS: list[Callable[[PlannerHarness], None]] = [
    step_1, step_2, step_3, step_4, step_5, step_6, step_7, step_8, step_9,
]  # fmt: skip


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(1, id="E1 four tasks run"),
        pytest.param(2, id="E2 two pods are deleted"),
        pytest.param(3, id="E3 the two failed tasks are removed"),
        pytest.param(4, id="E4 two tasks are added"),
        pytest.param(5, id="E5 one of them loses its pod"),
        pytest.param(6, id="E6 scaled down while the other still terminates"),
        pytest.param(7, id="E7 scaled up again, the first is replaced at once"),
        pytest.param(8, id="E8 four run again"),
        pytest.param(9, id="E9 down and up before the last pod is deleted"),
    ],
)
def test_the_framework_keeps_running_through_every_step_of_a_long_rescale(number: int) -> None:
    harness = new_harness(a_role("a", 4, min_counts=(4, 1), graceful_deletion_seconds=600))

    for step in STEPS[:number]:
        step(harness)

    assert harness.state is State.RUNNING


def test_e10_tasks_of_a_new_role_are_saved_before_their_pods_are_created() -> None:
    harness = running_harness(a_role("a"))
    uid = harness.pod_uid("a0")

    harness.edit_spec(roles=(*harness.framework.spec.roles, a_role("b", 2)))
    result = harness.plan()
    before = harness.existing_pods()
    harness.sync()

    role = result.status.role("b")
    assert role is not None
    assert [task.state for task in role.tasks] == [State.CREATION_PENDING] * 2
    assert (before, harness.existing_pods()) == ({"a0"}, {"a0", "b0", "b1"})
    assert harness.pod_uid("a0") == uid


def test_e11_the_removal_of_a_role_does_not_affect_others() -> None:
    harness = running_harness(a_role("a"), a_role("b"), a_role("c"))
    others = (harness.pod_uid("b0"), harness.pod_uid("c0"))
    harness.stuck_pods.add(harness.pod_name("a0"))

    harness.edit_spec(roles=harness.framework.spec.roles[1:])
    harness.sync()
    during_deletion = (harness.task("a0").deletion_pending, harness.task_code("a0"), harness.task("a0").state)
    harness.confirm_deletion("a0")

    assert during_deletion == (True, -230, State.DELETING)
    assert sorted(harness.tasks()) == ["b0", "c0"]
    assert (harness.pod_uid("b0"), harness.pod_uid("c0")) == others
    assert harness.state is State.RUNNING


def test_e12_a_role_removed_and_added_again_gets_new_tasks_after_the_old_ones_are_deleted() -> None:
    harness = running_harness(a_role("a"), a_role("b", 2))
    a, b = harness.framework.spec.roles
    harness.stuck_pods |= {harness.pod_name("b0"), harness.pod_name("b1")}
    old = [uid_of(harness, "b0"), uid_of(harness, "b1")]

    harness.edit_spec(roles=(a,))
    harness.sync()
    harness.edit_spec(roles=(a, b))
    harness.sync()
    during_deletion = [(harness.task(each).deletion_pending, uid_of(harness, each)) for each in ("b0", "b1")]
    harness.confirm_deletion("b0", "b1")

    assert during_deletion == [(True, old[0]), (True, old[1])]
    assert not {uid_of(harness, "b0"), uid_of(harness, "b1")} & set(old)
    assert harness.existing_pods() == {"a0", "b0", "b1"}


def test_e13_a_task_whose_pod_is_stuck_keeps_tasks_with_lower_indexes_in_the_status() -> None:
    harness = running_harness(a_role("a", 4, min_counts=(-1, -1)))
    harness.stuck_pods.add(harness.pod_name("a3"))

    harness.edit_role("a", tasks=1)
    harness.sync()
    during_deletion = [(task.state, task.deletion_pending) for task in list(harness.tasks().values())[1:]]
    harness.confirm_deletion("a3")

    assert during_deletion == [(State.COMPLETED, True), (State.COMPLETED, True), (State.DELETING, True)]
    assert sorted(harness.tasks()) == ["a0"]


def test_e14_a_framework_scaled_to_zero_tasks_keeps_running() -> None:
    harness = running_harness(a_role("a", 2))

    harness.edit_role("a", tasks=0)
    harness.sync()

    assert (harness.state, harness.existing_pods(), harness.tasks()) == (State.RUNNING, set(), {})


def test_e15_removing_the_last_running_task_completes_the_attempt() -> None:
    harness = running_harness(a_role("w", 2))
    harness.succeed("w0")

    harness.edit_role("w", tasks=1)
    harness.sync()

    assert (harness.final_code, harness.trigger) == (0, "w0")
    removed = harness.task("w1")
    assert (removed.state, removed.deletion_pending, harness.task_code("w1")) == (State.COMPLETED, True, -230)


def test_e16_a_rescale_after_the_attempt_completed_has_no_effect() -> None:
    harness = running_harness(a_role("w", 2))
    harness.stuck_pods.add(harness.pod_name("w1"))
    harness.fail("w0", 1)

    harness.edit_role("w", tasks=5)
    harness.sync()
    during = (harness.state, sorted(harness.tasks()))
    harness.confirm_deletion("w1")

    assert during == (State.DELETING, ["w0", "w1"])
    assert (harness.final_code, sorted(harness.tasks()), len(harness.created_pods)) == (1, ["w0", "w1"], 2)


def test_e17_a_task_that_succeeds_while_it_is_removed_does_not_count() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(1, 1)))

    harness.edit_role("w", tasks=1)
    harness.succeed("w1")

    removed = [
        task
        for status in harness.saved_statuses
        for task in status.roles[0].tasks[1:]
        if task.deletion_pending
    ]
    assert {task.attempt.completion.code for task in removed if task.attempt.completion} == {-230}
    assert (harness.state, sorted(harness.tasks())) == (State.RUNNING, ["w0"])


def test_e19_tasks_removed_before_their_pods_exist_get_no_pods() -> None:
    harness = running_harness(a_role("a"))

    harness.edit_role("a", tasks=3)
    harness.crash(executed=0)
    saved = sorted(harness.tasks())
    harness.edit_role("a", tasks=1)
    harness.sync()

    assert saved == ["a0", "a1", "a2"]
    assert (sorted(harness.tasks()), len(harness.created_pods)) == (["a0"], 1)
    assert harness.states("a1") == [State.CREATION_PENDING, State.ATTEMPT_COMPLETED, State.COMPLETED]


def test_e20_a_removed_task_is_not_retried_with_retry_always() -> None:
    harness = running_harness(a_role("w", 2, retry=(False, -2)))

    harness.edit_role("w", tasks=1)
    harness.sync()

    assert (sorted(harness.tasks()), harness.existing_pods(), len(harness.created_pods)) == (
        ["w0"],
        {"w0"},
        2,
    )


def test_e21_the_deletion_timeout_of_a_removed_role_applies() -> None:
    harness = running_harness(a_role("a"), a_role("b", graceful_deletion_seconds=600))
    harness.stuck_pods.add(harness.pod_name("b0"))

    harness.edit_spec(roles=harness.framework.spec.roles[:1])
    harness.sync()
    harness.advance(599)
    before = (list(harness.force_deleted), harness.task("b0").state)
    harness.advance(1)

    assert before == ([], State.DELETING)
    assert (harness.force_deleted, sorted(harness.tasks())) == ([harness.pod_name("b0")], ["a0"])


def test_e22_a_failed_task_that_is_removed_before_its_retry_keeps_its_code() -> None:
    harness = running_harness(a_role("w", 2, retry=(False, 2)))
    harness.stuck_pods.add(harness.pod_name("w1"))
    harness.fail("w1", 1)
    failed = harness.task("w1").state

    harness.edit_role("w", tasks=1)
    harness.sync()
    during_deletion = (
        harness.task_code("w1"),
        harness.task_counters("w1"),
        harness.task("w1").deletion_pending,
    )
    harness.confirm_deletion("w1")

    assert failed is State.DELETING
    assert during_deletion == (1, (0, 0), True)
    assert (sorted(harness.tasks()), len(harness.created_pods)) == (["w0"], 2)


def test_a_pod_kept_for_its_logs_is_deleted_with_its_task() -> None:
    harness = running_harness(a_role("w", 2, min_counts=(-1, -1)))
    harness.succeed("w1")
    kept = harness.existing_pods()

    harness.edit_role("w", tasks=1)
    harness.sync()

    assert kept == {"w0", "w1"}
    assert (harness.existing_pods(), sorted(harness.tasks())) == ({"w0"}, ["w0"])
