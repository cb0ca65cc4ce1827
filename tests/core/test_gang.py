"""All or nothing, as the plan sees it: how long a gang waits, what is told meanwhile, and what ends it."""

from dataclasses import replace
from typing import Any

import pytest

from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning.actions import ListPodsLive
from launcher.core.planning.gang import GANG_PLACED, is_placed, is_unplaced, members, min_members
from launcher.core.planning.planner import Planner
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.spec import CleanPodPolicy, ExecutionType, Gang, RoleName, TaskRole
from launcher.core.status import Condition, State
from tests.core.world import START, World, a_role, a_spec, a_world

NO_ROOM = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes fit."}
    ],
}


def waiting(*roles: TaskRole, timeout: int | None = 60, least: int | None = None, **spec: Any) -> World:
    """A gang of these roles (of three workers, if none is named) whose pods are there and have no nodes."""
    gang = Gang(timeout_seconds=timeout, min_tasks=least)
    world = a_world(*(roles or (a_role("w", 3),)), gang=gang, **spec)
    world.sync()
    return world


def condition(world: World) -> Condition:
    found = world.status.condition(GANG_PLACED)
    assert found is not None
    return found


def no_room(world: World, task: str) -> None:
    """The scheduler tells the pod of that task why it has no node."""
    pod = world.pods[world.pod(task)]
    world._put_pod({**pod, "status": NO_ROOM})
    world.sync()


# Who belongs to it.


@pytest.mark.parametrize(
    ("gang", "count"),
    [
        pytest.param(Gang(), 5, id="all of them"),
        pytest.param(Gang(min_tasks=3), 3, id="as many as are asked for"),
        pytest.param(Gang(min_tasks=9), 5, id="never more than there are"),
        pytest.param(None, 0, id="no gang"),
    ],
)
def test_how_many_are_needed(gang: Gang | None, count: int) -> None:
    spec = a_spec(a_role("w", 4), a_role("ps", 1), a_role("board", 2, background=True), gang=gang)

    assert (members(spec), min_members(spec)) == (5, count)


# While it waits.


def test_the_pods_of_a_gang_are_created_at_once() -> None:
    world = a_world(a_role("ps"), a_role("w", 2), gang=Gang())

    world.sync_once()

    assert world.live() == {"ps0", "w0", "w1"}


def test_a_gang_that_waits_says_how_many_are_placed_and_why_the_others_are_not() -> None:
    world = waiting()

    no_room(world, "w1")

    words = "the gang waits: 0 of 3 tasks placed; w[1]: Unschedulable: 0/1 nodes fit."
    assert condition(world) == Condition(GANG_PLACED, False, START, "WaitingForRoom", words)
    assert (world.state, world.status.message) == (State.PREPARING, words)
    assert is_unplaced(world.status)
    assert not is_placed(world.status)


def test_before_anybody_says_why_nothing_is_made_up() -> None:
    assert condition(waiting()).message == "the gang waits: 0 of 3 tasks placed; the others have no node yet"


def test_a_gang_is_placed_when_all_of_it_is() -> None:
    world = waiting()
    world.now += 5
    world.run("w0", "w1")
    before = condition(world)

    world.run("w2")

    assert before.message == "the gang waits: 2 of 3 tasks placed; the others have no node yet"
    words = "all 3 tasks of the gang are placed"
    assert condition(world) == Condition(GANG_PLACED, True, START + 5, "Placed", words)
    assert [notice.message for notice in world.notices if notice.reason == GANG_PLACED] == [words]
    assert is_placed(world.status)


def test_having_a_node_is_enough() -> None:
    world = waiting()

    for task in ("w0", "w1", "w2"):
        world.status_of(task, {"phase": "Pending"})
    world.sync()

    assert (condition(world).status, world.state) == (True, State.PREPARING)
    assert condition(world).message == "all 3 tasks of the gang are placed"
    assert world.status.message == "waiting for containers to start"


def test_who_was_placed_and_has_ended_counts() -> None:
    world = waiting(a_role("w", 2, ends=(-1, -1)))

    world.ok("w0")
    assert not condition(world).status
    world.run("w1")

    assert condition(world).status


def test_some_may_be_enough() -> None:
    world = waiting(least=2)
    assert condition(world).message == (
        "the gang waits: 0 of 3 tasks placed, at least 2 are wanted; the others have no node yet"
    )

    world.run("w0", "w2")

    assert condition(world).message == "2 of 3 tasks of the gang are placed"


def test_background_roles_are_not_waited_for() -> None:
    world = waiting(a_role("w", 2), a_role("board", background=True))

    world.run("w0", "w1")

    assert condition(world).status


def test_a_gang_of_nobody_does_not_wait() -> None:
    world = waiting(a_role("w", 0), a_role("board", background=True))

    assert condition(world).status


def test_no_gang_tells_nothing_of_gangs() -> None:
    world = a_world()
    world.sync()

    assert world.status.condition(GANG_PLACED) is None
    assert not is_unplaced(world.status)
    assert not is_placed(world.status)


def test_a_gang_is_asked_for_in_its_order() -> None:
    world = a_world(a_role("ps"), a_role("w", 2), gang=Gang(), role_sequence=(RoleName("w"), RoleName("ps")))

    world.sync()

    assert [pod["metadata"]["name"] for pod in world.made] == ["f-w-0", "f-w-1", "f-ps-0"]


# When its time is over.


def test_a_gang_that_is_not_placed_in_time_fails_and_everything_is_taken_back() -> None:
    world = waiting()
    world.run("w0")
    no_room(world, "w2")

    world.after(59)
    before = (world.state, world.live())
    world.after(1)

    because = (
        "the gang has waited 60 s for room (gang.timeoutSeconds): "
        "1 of 3 tasks placed; w[2]: Unschedulable: 0/1 nodes fit."
    )
    assert before == (State.RUNNING, {"w0", "w1", "w2"})
    assert (world.done, world.live()) == (-113, set())
    assert world.status.attempt.completion == completion_for(Code.GANG_TIMEOUT, because)
    assert world.status.message == f"GangTimeout (-113); {because}; not tried again: maxRetryCount is 0"
    assert {world.task_code(task) for task in world.tasks()} == {-220}


def test_the_launcher_looks_again_when_the_time_is_over() -> None:
    world = waiting(timeout=60)

    assert world.plan().requeue_at == START + 60


def test_without_a_timeout_a_gang_waits_for_ever() -> None:
    world = waiting(timeout=None)

    world.after(10**6)

    assert world.state is State.PREPARING
    assert world.plan().requeue_at is None


def test_the_wait_is_counted_from_the_first_pod_that_was_asked_for() -> None:
    world = waiting(execution=ExecutionType.CREATE)
    world.after(100)
    held = world.status.condition(GANG_PLACED)

    world.edit(execution=ExecutionType.START)
    world.after(50)
    world.after(59)
    before = world.state
    world.after(1)

    assert (held, before, world.done) == (None, State.PREPARING, -113)


def test_a_pod_that_cannot_be_created_does_not_make_the_wait_longer() -> None:
    world = a_world(a_role("w", 2), gang=Gang(timeout_seconds=60))
    world.refusals[world.pod("w1")] = ["exceeded quota"] * 9
    world.sync()

    world.after(60)

    assert world.done == -113
    assert "1 of 2" not in world.status.message
    assert "w[1]: exceeded quota" in world.status.message


@pytest.mark.parametrize("policy", CleanPodPolicy)
def test_what_is_left_of_a_gang_is_taken_back_whatever_the_policy(policy: CleanPodPolicy) -> None:
    world = waiting(clean_pods=policy)
    world.run("w0")

    world.after(60)

    assert (world.done, world.live()) == (-113, set())


def test_a_gang_is_tried_again_under_the_policy_and_waits_anew() -> None:
    world = waiting(retry=(False, 1))
    world.run("w0")

    world.after(60)
    again = (world.state, world.counters, condition(world).since, world.live())
    world.after(59)
    before = world.state
    world.after(1)

    assert again == (State.PREPARING, (1, 1), START + 60, {"w0", "w1", "w2"})
    assert (before, world.done) == (State.PREPARING, -113)


def test_a_fancy_policy_stays_away_for_a_while_and_does_not_count_it() -> None:
    world = waiting(retry=(True, 0))

    world.after(60)
    between = (world.state, world.live())
    world.after(60)

    assert between == (State.ATTEMPT_COMPLETED, set())
    assert (world.state, world.counters) == (State.PREPARING, (1, 0))


def test_the_next_attempt_has_to_be_placed_again() -> None:
    world = waiting(retry=(False, 1))
    world.run()

    world.fail("w0")

    assert (world.counters, condition(world).status, condition(world).since) == ((1, 1), False, START)


# What happens to it meanwhile, and later.


def test_a_task_that_is_retried_into_a_placed_gang_has_all_the_time_it_needs() -> None:
    world = waiting(a_role("w", 3, retry=(False, 1)))
    world.run()
    world.fail("w1")

    world.after(1000)

    assert (world.state, world.task("w1").state) == (State.RUNNING, State.PREPARING)
    assert condition(world).status


def test_a_task_that_is_retried_before_the_gang_is_placed_has_to_be_placed_anew() -> None:
    world = waiting(a_role("w", 2, retry=(True, 0)))
    world.run("w0")
    world.delete_pod("w0")

    world.run("w1")
    before = condition(world).status
    world.run("w0")

    assert (before, condition(world).status) == (False, True)


def test_tasks_that_are_added_to_a_placed_gang_are_not_waited_for() -> None:
    world = waiting()
    world.run()

    world.edit_role("w", tasks=5)
    world.sync()
    world.after(1000)

    assert (world.state, condition(world).status) == (State.RUNNING, True)


def test_tasks_that_are_added_to_a_gang_that_waits_are_part_of_it() -> None:
    world = waiting()
    world.edit_role("w", tasks=4)
    world.sync()

    world.run("w0", "w1", "w2")
    with_three = condition(world).status
    world.run("w3")

    assert (with_three, condition(world).status, condition(world).since) == (False, True, START)


def test_tasks_that_are_taken_away_are_not_waited_for_any_more() -> None:
    world = waiting()
    world.run("w0", "w1")

    world.edit_role("w", tasks=2)
    world.sync()

    assert condition(world).message == "all 2 tasks of the gang are placed"


def test_a_gang_that_is_asked_for_later_is_placed_if_all_its_tasks_are() -> None:
    world = a_world(a_role("w", 2))
    world.sync()
    world.run()

    world.edit(gang=Gang(timeout_seconds=5))
    world.sync()

    assert condition(world).status


def test_a_gang_that_is_no_longer_asked_for_has_no_time_that_could_be_over() -> None:
    world = waiting()

    world.edit(gang=None)
    world.sync()
    world.after(1000)

    assert world.state is State.PREPARING
    assert (condition(world).status, condition(world).reason) == (True, "NoGang")


def test_a_member_that_ends_before_it_is_placed_ends_the_attempt_when_too_few_are_left() -> None:
    world = a_world(a_role("w", 3, ends=(-1, -1)), gang=Gang())
    world.refusals[world.pod("w1")] = [completion_for(Code.POD_CREATION_PERMANENT_ERROR, "no such thing")]

    world.sync()

    assert (world.done, world.trigger, world.live()) == (-200, "w1", set())
    assert "w[1] ended before the gang was placed, and 3 tasks are wanted" in world.status.message


def test_a_gang_that_can_do_without_goes_on() -> None:
    world = a_world(a_role("w", 3, ends=(-1, -1)), gang=Gang(min_tasks=2))
    world.refusals[world.pod("w1")] = [completion_for(Code.POD_CREATION_PERMANENT_ERROR, "no such thing")]
    world.sync()

    world.run("w0", "w2")

    assert condition(world).status


def test_after_a_restart_a_gang_has_waited_as_long_as_before() -> None:
    world = waiting()
    world.after(30)
    world.restart()

    world.after(30)

    assert world.done == -113


def test_a_gang_does_not_fail_because_a_cache_is_behind() -> None:
    world = waiting()
    world.run()
    stored = replace(world.framework, status=world.saved[0])
    planner = Planner(stored, world.rules)

    # As after a restart: nothing is known yet of the nodes that its pods were given meanwhile.
    look = planner.plan(START + 60)
    before = planner.summary.attempt.completion is not None
    for pod in world.pods.values():
        planner.attempt_state.observe_pod(pod_from_json(pod))
    planner.plan(START + 60, fresh=True)

    assert (ListPodsLive() in look.actions, before) == (True, False)
    assert is_placed(planner.summary)
