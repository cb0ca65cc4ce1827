"""Who starts when."""

from typing import Any

import pytest

from launcher.core.planning.start_order import OPEN, gate
from launcher.core.spec import FrameworkSpec, RoleName, StartAfter, StartCondition, TaskRole
from launcher.core.status import State
from tests.core.world import World, a_role, a_world, running

PS, W = RoleName("ps"), RoleName("w")


def waits(
    condition: StartCondition = StartCondition.RUNNING, at_least: int | None = None, role: RoleName = PS
) -> tuple[StartAfter, ...]:
    return (StartAfter(role, condition, at_least),)


def begun(*roles: TaskRole, **spec: Any) -> World:
    """A Framework whose first pods have been created and have not run yet."""
    world = a_world(*roles, **spec)
    world.sync()
    return world


# roleSequence: order of creation.


def test_without_an_order_all_pods_are_created_at_once() -> None:
    world = a_world(a_role("ps"), a_role("w", 2))

    world.sync_once()

    assert world.live() == {"ps0", "w0", "w1"}


def test_a_role_is_created_when_every_pod_of_those_before_it_is_accepted() -> None:
    world = a_world(a_role("ps"), a_role("w", 2), role_sequence=(W, PS))

    world.sync_once()
    first = world.live()
    world.sync()

    assert (first, world.live()) == ({"w0", "w1"}, {"w0", "w1", "ps0"})
    assert [pod["metadata"]["name"] for pod in world.made] == ["f-w-0", "f-w-1", "f-ps-0"]


def test_the_order_waits_for_a_pod_that_cannot_be_created_yet() -> None:
    world = a_world(a_role("ps"), a_role("w", 2), role_sequence=(W, PS))
    world.refusals[world.pod("w1")] = ["exceeded quota"]

    world.sync()
    meanwhile = (world.live(), world.task("ps0").message)
    world.after(1)

    assert meanwhile == ({"w0"}, "waits until every pod of role w has been accepted (roleSequence)")
    assert world.live() == {"w0", "w1", "ps0"}


def test_the_order_holds_again_for_the_next_attempt() -> None:
    world = running(a_role("ps"), a_role("w"), role_sequence=(W, PS), retry=(False, 1))

    world.fail("w0", 1)

    assert [pod["metadata"]["name"] for pod in world.made[2:]] == ["f-w-0", "f-ps-0"]


def test_the_order_holds_for_tasks_that_a_rescale_adds() -> None:
    world = running(a_role("ps"), a_role("w"), role_sequence=(W, PS))
    world.refusals[world.pod("w1")] = ["exceeded quota"]

    roles = (a_role("ps", 2), a_role("w", 2))
    world.edit(roles=roles)
    world.sync()
    meanwhile = world.live()
    world.after(1)

    assert (meanwhile, world.live()) == ({"ps0", "w0"}, {"ps0", "ps1", "w0", "w1"})


# startAfter: waiting for what others reach.


def test_a_role_waits_until_all_tasks_of_another_run() -> None:
    world = begun(a_role("ps", 2), a_role("w", start_after=waits()))

    first = (world.live(), world.task("w0").message)
    world.run("ps0")
    second = world.live()
    world.run("ps1")

    assert first == ({"ps0", "ps1"}, "waits for role ps to be Running (startAfter)")
    assert (second, world.live()) == ({"ps0", "ps1"}, {"ps0", "ps1", "w0"})


def test_running_is_not_ready() -> None:
    world = begun(a_role("ps"), a_role("w", start_after=waits(StartCondition.READY)))

    world.run("ps0")
    while_it_runs = world.live()
    world.ready("ps0")

    assert (while_it_runs, world.live()) == ({"ps0"}, {"ps0", "w0"})


def test_that_a_pod_turned_ready_is_nothing_to_save() -> None:
    world = running(a_role("ps"), a_role("w"))
    saved = len(world.saved)

    world.ready("ps0")

    assert len(world.saved) == saved


def test_a_role_waits_for_success() -> None:
    world = begun(a_role("ps"), a_role("w", start_after=waits(StartCondition.SUCCEEDED)))

    world.run("ps0")
    while_it_runs = world.live()
    world.ok("ps0")
    world.run("w0")

    assert (while_it_runs, world.live()) == ({"ps0"}, {"ps0", "w0"})
    assert world.state is State.RUNNING


@pytest.mark.parametrize("condition", [StartCondition.RUNNING, StartCondition.READY])
def test_who_has_succeeded_has_run_and_been_ready(condition: StartCondition) -> None:
    world = begun(a_role("ps"), a_role("w", start_after=waits(condition)))

    world.ok("ps0")

    assert world.live() == {"ps0", "w0"}


def test_some_may_be_enough() -> None:
    world = begun(a_role("ps", 3), a_role("w", start_after=waits(at_least=2)))

    world.run("ps2")
    with_one = world.live()
    world.run("ps0")

    assert "w0" not in with_one
    assert "w0" in world.live()


def test_a_role_waits_for_all_of_its_conditions() -> None:
    after = (*waits(), *waits(StartCondition.SUCCEEDED, role=RoleName("data")))
    world = begun(a_role("ps"), a_role("data", ends=(1, -1)), a_role("w", start_after=after))

    world.run("ps0", "data0")
    told = world.task("w0").message
    world.ok("data0")

    assert told == "waits for role data to be Succeeded (startAfter)"
    assert "w0" in world.live()


def test_a_task_that_will_be_retried_may_still_get_there() -> None:
    roles = (a_role("ps", retry=(False, 1)), a_role("w", start_after=waits(StartCondition.SUCCEEDED)))
    world = begun(*roles)
    world.run("ps0")

    world.fail("ps0", 1)
    told = world.task("w0").message
    world.run("ps0")
    world.ok("ps0")

    assert told == "waits for role ps to be Succeeded (startAfter)"
    assert "w0" in world.live()


def test_a_condition_that_can_no_longer_be_met_ends_those_who_wait_for_it() -> None:
    roles = (a_role("ps", ends=(-1, -1)), a_role("w", start_after=waits(StartCondition.SUCCEEDED)))
    world = begun(*roles)
    world.run("ps0")

    world.fail("ps0", 1)

    assert (world.done, world.task_code("w0"), world.trigger) == (-240, -240, "w0")
    end = world.task("w0").attempt.completion
    assert end is not None
    assert end.diagnostics == "waits for role ps to be Succeeded (startAfter), which can no longer be"
    assert len(world.made) == 1


def test_a_condition_is_met_though_some_failed_when_enough_are_left() -> None:
    roles = (a_role("ps", 3, ends=(-1, -1)), a_role("w", start_after=waits(StartCondition.SUCCEEDED, 2)))
    world = begun(*roles)
    world.run("ps0", "ps1", "ps2")

    world.fail("ps0", 1)
    world.ok("ps1")
    before = world.task("w0").state
    world.ok("ps2")

    assert before is State.CREATION_PENDING
    assert "w0" in world.live()


def test_of_those_that_end_in_one_look_the_last_in_order_ends_the_attempt_even_if_one_never_started() -> None:
    """A launcher that was kept and one that has just started must agree; the one that was kept looked twice."""
    world = begun(
        a_role("ps", ends=(-1, -1)),
        a_role("w", ends=(-1, -1), start_after=waits(StartCondition.SUCCEEDED)),
        a_role("x", ends=(-1, -1)),
    )

    world.end({"ps0": 1, "x0": 1})

    assert (world.done, world.task_code("w0"), world.trigger) == (0, -240, "x0")


@pytest.mark.parametrize("retry", [(False, -2), (False, -1), (False, 3), (True, -2)])
def test_what_can_never_start_is_not_tried_again(retry: tuple[bool, int]) -> None:
    """A retry without a pod would only count."""
    roles = (
        a_role("ps", ends=(-1, -1)),
        a_role("w", retry=retry, start_after=waits(StartCondition.SUCCEEDED)),
    )
    world = begun(*roles)
    world.run("ps0")

    world.fail("ps0", 1)

    assert (world.done, world.task_counters("w0")) == (-240, (0, 0))


def test_the_whole_framework_may_be_tried_again_after_a_condition_that_could_not_be_met() -> None:
    roles = (a_role("ps", ends=(-1, -1)), a_role("w", start_after=waits(StartCondition.SUCCEEDED)))
    world = begun(*roles, retry=(False, 1))
    world.run("ps0")

    world.fail("ps0", 1)
    world.run("ps0")
    world.ok("ps0")

    assert (world.status.attempt.id, "w0" in world.live()) == (1, True)


def test_waiting_begins_anew_with_the_next_attempt() -> None:
    world = begun(a_role("ps"), a_role("w", start_after=waits()), retry=(False, 1))
    world.run("ps0")
    world.run("w0")

    world.fail("w0", 1)
    next_attempt = world.live()
    world.run("ps0")

    assert (next_attempt, world.live()) == ({"ps0"}, {"ps0", "w0"})


def test_a_rescale_may_make_a_condition_harder_or_easier() -> None:
    world = begun(a_role("ps", 2), a_role("w", start_after=waits()))
    world.run("ps0")

    world.edit_role("ps", tasks=1)
    world.sync()

    assert world.live() == {"ps0", "w0"}


def test_tasks_that_a_rescale_adds_wait_too() -> None:
    world = running(a_role("ps"), a_role("w", start_after=waits()))
    world.run("w0")

    world.edit(roles=(a_role("ps", 2), a_role("w", 2, start_after=waits())))
    world.sync()
    meanwhile = world.live()
    world.run("ps1")

    assert (meanwhile, world.live()) == ({"ps0", "ps1", "w0"}, {"ps0", "ps1", "w0", "w1"})


def test_a_role_that_waits_for_a_role_without_tasks_waits_for_nothing() -> None:
    world = begun(a_role("ps", 0), a_role("w", start_after=waits()))

    assert world.live() == {"w0"}


def test_more_than_there_are_can_never_be_reached() -> None:
    role = a_role("w", start_after=waits(at_least=1))

    here = gate(role, FrameworkSpec((role,)), {})

    assert here.unreachable
    assert gate(a_role("w"), FrameworkSpec((role,)), {}) is OPEN
