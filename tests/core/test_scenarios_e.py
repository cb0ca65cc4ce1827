"""Scenario rows E: tasks and roles that come and go while the Framework runs."""

from collections.abc import Callable

import pytest

from launcher.core.names import task_uid
from launcher.core.spec import RoleName
from launcher.core.status import State
from tests.core.world import UID, World, a_role, a_world, running


def uid_of(world: World, short: str) -> str:
    """The task's instanceUID."""
    task = world.task(short)
    role = RoleName(short.rstrip("0123456789"))
    return task_uid(UID, world.status.attempt.id, role, task.index, task.incarnation)


def resize(world: World, tasks: int, min_failed: int) -> None:
    world.edit_role("a", tasks=tasks, ends=(min_failed, 1))
    world.sync()


def step_1(world: World) -> None:
    world.sync()
    world.run()

    assert [task.state for task in world.tasks().values()] == [State.RUNNING] * 4


def step_2(world: World) -> None:
    world.delete_pod("a2")
    world.delete_pod("a3")

    assert [(world.task(a).state, world.task_code(a)) for a in ("a2", "a3")] == [(State.COMPLETED, -101)] * 2


def step_3(world: World) -> None:
    resize(world, 2, 2)

    assert sorted(world.tasks()) == ["a0", "a1"]


def step_4(world: World) -> None:
    old = [task_uid(UID, 0, RoleName("a"), index, 0) for index in (2, 3)]

    resize(world, 4, 4)
    world.run("a2", "a3")

    assert [task.state for task in world.tasks().values()] == [State.RUNNING] * 4
    assert not {uid_of(world, "a2"), uid_of(world, "a3")} & set(old)


def step_5(world: World) -> None:
    world.delete_pod("a2")

    assert (world.task("a2").state, world.task_code("a2")) == (State.COMPLETED, -101)


def step_6(world: World) -> None:
    world.stuck.add(world.pod("a3"))

    resize(world, 2, 2)

    seen = [(t.state, t.deletion_pending, world.task_code(a)) for a, t in list(world.tasks().items())[2:]]
    assert seen == [(State.COMPLETED, True, -101), (State.DELETING, True, -230)]


def step_7(world: World) -> None:
    old = uid_of(world, "a2")

    resize(world, 3, 3)
    at_once = (world.task("a2").deletion_pending, uid_of(world, "a2") != old, world.task("a3").state)
    world.confirm("a3")

    assert at_once == (False, True, State.DELETING)
    assert sorted(world.tasks()) == ["a0", "a1", "a2"]


def step_8(world: World) -> None:
    resize(world, 4, 4)
    world.run("a2", "a3")

    assert [task.state for task in world.tasks().values()] == [State.RUNNING] * 4


def step_9(world: World) -> None:
    old = [uid_of(world, "a2"), uid_of(world, "a3")]
    world.delete_pod("a2")
    world.stuck.add(world.pod("a3"))

    resize(world, 2, 2)
    resize(world, 5, 5)
    at_once = (uid_of(world, "a2") != old[0], uid_of(world, "a3") == old[1], "a4" in world.tasks())
    world.confirm("a3")

    assert at_once == (True, True, True)
    assert uid_of(world, "a3") != old[1]
    assert not world.task("a3").deletion_pending


STEPS: list[Callable[[World], None]] = [
    step_1, step_2, step_3, step_4, step_5, step_6, step_7, step_8, step_9,
]  # fmt: skip


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(1, id="E1 four tasks run"),
        pytest.param(2, id="E2 two pods are deleted"),
        pytest.param(3, id="E3 the two that failed are scaled away"),
        pytest.param(4, id="E4 two new ones come"),
        pytest.param(5, id="E5 one of them loses its pod"),
        pytest.param(6, id="E6 scaled down while the other still terminates"),
        pytest.param(7, id="E7 scaled up again, the first is replaced at once"),
        pytest.param(8, id="E8 four run again"),
        pytest.param(9, id="E9 down and up before the last pod is gone"),
    ],
)
def test_the_framework_runs_on_through_every_step_of_a_long_rescale(number: int) -> None:
    world = a_world(a_role("a", 4, ends=(4, 1), graceful_deletion_seconds=600))

    for step in STEPS[:number]:
        step(world)

    assert world.state is State.RUNNING


def test_e10_tasks_of_a_new_role_are_saved_before_their_pods_are_created() -> None:
    world = running(a_role("a"))
    uid = world.uid("a0")

    world.edit(roles=(*world.framework.spec.roles, a_role("b", 2)))
    todo = world.plan()
    before = world.live()
    world.sync()

    role = todo.status.role("b")
    assert role is not None
    assert [task.state for task in role.tasks] == [State.CREATION_PENDING] * 2
    assert (before, world.live()) == ({"a0"}, {"a0", "b0", "b1"})
    assert world.uid("a0") == uid


def test_e11_a_removed_role_leaves_and_the_others_do_not_notice() -> None:
    world = running(a_role("a"), a_role("b"), a_role("c"))
    others = (world.uid("b0"), world.uid("c0"))
    world.stuck.add(world.pod("a0"))

    world.edit(roles=world.framework.spec.roles[1:])
    world.sync()
    going = (world.task("a0").deletion_pending, world.task_code("a0"), world.task("a0").state)
    world.confirm("a0")

    assert going == (True, -230, State.DELETING)
    assert sorted(world.tasks()) == ["b0", "c0"]
    assert (world.uid("b0"), world.uid("c0")) == others
    assert world.state is State.RUNNING


def test_e12_a_role_removed_and_added_again_gets_new_tasks_once_the_old_ones_are_gone() -> None:
    world = running(a_role("a"), a_role("b", 2))
    a, b = world.framework.spec.roles
    world.stuck |= {world.pod("b0"), world.pod("b1")}
    old = [uid_of(world, "b0"), uid_of(world, "b1")]

    world.edit(roles=(a,))
    world.sync()
    world.edit(roles=(a, b))
    world.sync()
    meanwhile = [(world.task(each).deletion_pending, uid_of(world, each)) for each in ("b0", "b1")]
    world.confirm("b0", "b1")

    assert meanwhile == [(True, old[0]), (True, old[1])]
    assert not {uid_of(world, "b0"), uid_of(world, "b1")} & set(old)
    assert world.live() == {"a0", "b0", "b1"}


def test_e13_a_task_that_cannot_go_keeps_those_below_it_in_the_record() -> None:
    world = running(a_role("a", 4, ends=(-1, -1)))
    world.stuck.add(world.pod("a3"))

    world.edit_role("a", tasks=1)
    world.sync()
    kept = [(task.state, task.deletion_pending) for task in list(world.tasks().values())[1:]]
    world.confirm("a3")

    assert kept == [(State.COMPLETED, True), (State.COMPLETED, True), (State.DELETING, True)]
    assert sorted(world.tasks()) == ["a0"]


def test_e14_a_framework_scaled_down_to_nothing_is_not_over() -> None:
    world = running(a_role("a", 2))

    world.edit_role("a", tasks=0)
    world.sync()

    assert (world.state, world.live(), world.tasks()) == (State.RUNNING, set(), {})


def test_e15_scaling_away_the_last_task_that_runs_completes_the_attempt() -> None:
    world = running(a_role("w", 2))
    world.ok("w0")

    world.edit_role("w", tasks=1)
    world.sync()

    assert (world.done, world.trigger) == (0, "w0")
    removed = world.task("w1")
    assert (removed.state, removed.deletion_pending, world.task_code("w1")) == (State.COMPLETED, True, -230)


def test_e16_a_rescale_comes_too_late_once_the_attempt_is_over() -> None:
    world = running(a_role("w", 2))
    world.stuck.add(world.pod("w1"))
    world.fail("w0", 1)

    world.edit_role("w", tasks=5)
    world.sync()
    during = (world.state, sorted(world.tasks()))
    world.confirm("w1")

    assert during == (State.DELETING, ["w0", "w1"])
    assert (world.done, sorted(world.tasks()), len(world.made)) == (1, ["w0", "w1"], 2)


def test_e17_a_task_scaled_away_while_it_succeeds_does_not_count() -> None:
    world = running(a_role("w", 2, ends=(1, 1)))

    world.edit_role("w", tasks=1)
    world.ok("w1")

    removed = [task for status in world.saved for task in status.roles[0].tasks[1:] if task.deletion_pending]
    assert {task.attempt.completion.code for task in removed if task.attempt.completion} == {-230}
    assert (world.state, sorted(world.tasks())) == (State.RUNNING, ["w0"])


def test_e19_tasks_scaled_away_before_their_pods_exist_never_get_any() -> None:
    world = running(a_role("a"))

    world.edit_role("a", tasks=3)
    world.crash(done=0)
    saved = sorted(world.tasks())
    world.edit_role("a", tasks=1)
    world.sync()

    assert saved == ["a0", "a1", "a2"]
    assert (sorted(world.tasks()), len(world.made)) == (["a0"], 1)
    assert world.states("a1") == [State.CREATION_PENDING, State.ATTEMPT_COMPLETED, State.COMPLETED]


def test_e20_a_task_that_is_always_retried_is_not_when_it_is_scaled_away() -> None:
    world = running(a_role("w", 2, retry=(False, -2)))

    world.edit_role("w", tasks=1)
    world.sync()

    assert (sorted(world.tasks()), world.live(), len(world.made)) == (["w0"], {"w0"}, 2)


def test_e21_the_deletion_timeout_outlives_the_role() -> None:
    world = running(a_role("a"), a_role("b", graceful_deletion_seconds=600))
    world.stuck.add(world.pod("b0"))

    world.edit(roles=world.framework.spec.roles[:1])
    world.sync()
    world.after(599)
    patient = (list(world.forced), world.task("b0").state)
    world.after(1)

    assert patient == ([], State.DELETING)
    assert (world.forced, sorted(world.tasks())) == ([world.pod("b0")], ["a0"])


def test_e22_a_task_that_failed_and_is_scaled_away_before_its_retry_keeps_its_code() -> None:
    world = running(a_role("w", 2, retry=(False, 2)))
    world.stuck.add(world.pod("w1"))
    world.fail("w1", 1)
    failed = world.task("w1").state

    world.edit_role("w", tasks=1)
    world.sync()
    going = (world.task_code("w1"), world.task_counters("w1"), world.task("w1").deletion_pending)
    world.confirm("w1")

    assert failed is State.DELETING
    assert going == (1, (0, 0), True)
    assert (sorted(world.tasks()), len(world.made)) == (["w0"], 2)


def test_a_pod_kept_for_its_logs_goes_with_its_task() -> None:
    world = running(a_role("w", 2, ends=(-1, -1)))
    world.ok("w1")
    kept = world.live()

    world.edit_role("w", tasks=1)
    world.sync()

    assert kept == {"w0", "w1"}
    assert (world.live(), sorted(world.tasks())) == ({"w0"}, ["w0"])
