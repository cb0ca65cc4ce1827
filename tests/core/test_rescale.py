"""Rescale: tasks and roles that the spec adds or no longer wants."""

from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.core.names import PodIdentityKey
from launcher.core.planning.rescale import adopt, compact, new_crews, rescale
from launcher.core.spec import FrameworkSpec, RoleName
from launcher.core.status import State
from tests.core.world import START, World, a_role, a_spec, a_world, running

W = RoleName("w")


def test_a_fresh_attempt_has_the_tasks_of_the_spec() -> None:
    crews = new_crews(a_spec(a_role("w", 2, graceful_deletion_seconds=7), a_role("ps", 1)), START)

    assert {name: len(crew.tasks) for name, crew in crews.items()} == {"w": 2, "ps": 1}
    assert crews[W].graceful_deletion_seconds == 7
    assert (crews[W].waiting, crews[W].unfinished) == (2, 2)


def test_a_scale_down_marks_the_highest_indexes() -> None:
    crews = new_crews(a_spec(a_role("w", 3)), START)

    added = rescale(crews, a_spec(a_role("w", 1)), START + 5, 1)

    assert added is False
    assert [task.deletion_pending for task in crews[W].tasks] == [False, True, True]
    assert [task.message for task in crews[W].tasks][1:] == ["removed by a scale-down"] * 2


def test_a_scale_up_adds_tasks_of_another_incarnation() -> None:
    crews = new_crews(a_spec(a_role("w", 1)), START)

    added = rescale(crews, a_spec(a_role("w", 2), a_role("ps")), START + 5, 3)

    assert added is True
    assert [(task.incarnation, task.start_time) for task in crews[W].tasks] == [(0, START), (3, START + 5)]
    assert crews[RoleName("ps")].tasks[0].incarnation == 3


def test_marking_twice_changes_nothing_more() -> None:
    crews = new_crews(a_spec(a_role("w", 2)), START)
    smaller = a_spec(a_role("w", 1))
    rescale(crews, smaller, START, 1)
    once = crews[W].to_status()

    rescale(crews, smaller, START + 9, 2)

    assert crews[W].to_status() == once


def test_nothing_is_dropped_before_it_is_through() -> None:
    crews = new_crews(a_spec(a_role("w", 2)), START)
    rescale(crews, a_spec(a_role("w", 1)), START, 1)

    assert compact(crews[W], START, 2) is None
    assert len(crews[W].tasks) == 2


def test_a_role_that_is_gone_keeps_its_deletion_timeout() -> None:
    crews = new_crews(a_spec(a_role("w", graceful_deletion_seconds=7)), START)

    adopt(crews, FrameworkSpec(()))

    assert (crews[W].role, crews[W].graceful_deletion_seconds) == (None, 7)


def test_a_changed_deletion_timeout_holds_even_while_the_attempt_ends() -> None:
    """Who waits for a stuck pod may lose patience."""
    world = running(a_role("w"))
    world.stuck.add(world.pod("w0"))
    world.stop()
    world.sync()

    world.edit_role("w", graceful_deletion_seconds=5)
    world.after(4)
    before = list(world.forced)
    world.after(1)

    assert (before, world.forced, world.done) == ([], [world.pod("w0")], -210)


def test_a_removed_task_never_makes_the_framework_run() -> None:
    world = a_world(a_role("w", 2))
    world.sync()
    world.stuck.add(world.pod("w1"))

    world.edit_role("w", tasks=1)
    world.status_of("w1", world.a_running_status("w1"))
    world.sync()

    assert world.task("w1").deletion_pending
    assert world.state is State.PREPARING


def uids(world: World) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["metadata"]["annotations"][PodIdentityKey.TASK_UID]
        for pod in world.pods.values()
    }


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_after_any_rescales_the_tasks_are_those_of_the_spec(
    steps: list[tuple[int, bool, bool]],
) -> None:
    """The tasks that the spec wanted all along keep their pods; the others get a task uid that none had before."""
    world = running(a_role("w", 2), a_role("x", ends=(-1, -1)))
    seen: set[str] = set(uids(world).values())
    lasting = 2

    for tasks, patient, stuck in steps:
        before = uids(world)
        if stuck:
            world.stuck |= set(world.pods)
        lasting = min(lasting, tasks)
        world.edit_role("w", tasks=tasks)
        world.sync()
        if patient:
            world.stuck.clear()
            world.sync()
        fresh = {uid for name, uid in uids(world).items() if before.get(name) != uid}
        assert not fresh & seen
        seen |= fresh
    world.stuck.clear()
    world.sync()
    world.run()

    wanted = world.framework.spec.roles[0].tasks
    assert sorted(world.tasks()) == [*(f"w{index}" for index in range(wanted)), "x0"]
    assert all(task.state is State.RUNNING and not task.deletion_pending for task in world.tasks().values())
    assert world.live() == set(world.tasks())
    assert [world.uid(f"w{index}") for index in range(lasting)] == [
        f"pod-{index}" for index in range(lasting)
    ]
