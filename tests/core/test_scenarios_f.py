"""Scenario rows F: what goes wrong around a Framework, and that at most one pod serves a task whatever does."""

from dataclasses import replace

from launcher.core.completion_codes import Code, completion_for
from launcher.core.planning.actions import CreatePod
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner
from launcher.core.spec import RoleName
from launcher.core.status import State
from tests.core.world import NO_FAILURE_SPEC, World, a_role, a_world, an_ended_status, running


def test_f1_a_pod_that_does_not_go_is_removed_by_force_when_its_time_is_over() -> None:
    world = running(a_role("w", retry=(True, 0), graceful_deletion_seconds=600))
    world.stuck.add(world.pod("w0"))
    world.delete_pod("w0")

    world.after(599)
    patient = (world.task("w0").state, list(world.forced))
    world.after(1)

    assert patient == (State.DELETING, [])
    assert (world.forced, world.task_counters("w0")) == ([world.pod("w0")], (1, 0))
    assert len(world.made) == 2


def test_f2_without_a_timeout_a_pod_that_does_not_go_is_waited_for_for_ever() -> None:
    world = running(a_role("w", retry=(True, 0)))
    world.stuck.add(world.pod("w0"))
    world.delete_pod("w0")

    world.after(10_000_000)

    assert (world.task("w0").state, world.forced, len(world.made)) == (State.DELETING, [], 1)
    assert world.plan().requeue_at is None


def test_f4_pods_that_are_all_deleted_by_others_end_the_attempt_with_their_own_code() -> None:
    """There is no ConfigMap whose deletion could take the pods with it; losing every pod is the like of it."""
    world = running(a_role("w", 2))

    world.ask_deletion("w0")
    world.ask_deletion("w1")
    world.sync()

    assert (world.done, world.task_code("w0"), world.task_code("w1")) == (-101, -101, -101)


def test_f5_pods_that_are_all_deleted_by_others_are_all_replaced_where_tasks_are_retried() -> None:
    """Without a ConfigMap the attempt goes on."""
    world = running(a_role("w", 2, retry=(True, 0)))

    world.ask_deletion("w0")
    world.ask_deletion("w1")
    world.sync()
    world.run()

    assert (world.state, world.status.attempt.id) == (State.RUNNING, 0)
    assert (world.task_counters("w0"), world.task_counters("w1")) == ((1, 0), (1, 0))


def test_f6_a_lost_pod_is_a_transient_end_for_the_whole_framework() -> None:
    """There is no ConfigMap to lose; a pod deleted by others leads to the same retry."""
    world = running(a_role("w"), retry=(True, 0))

    world.delete_pod("w0")

    assert (world.status.attempt.id, world.counters) == (1, (1, 0))


def test_f7_an_attempt_has_no_object_that_could_fail_to_appear() -> None:
    """There is no ConfigMap: an attempt none of whose pods can be created yet waits, and no time limit ends it."""
    world = a_world(a_role("w"), retry=(True, 0))
    world.taken.add(world.pod("w0"))
    world.sync()

    world.after(100_000)

    assert (world.state, world.status.attempt.id, world.code) == (State.CREATION_PENDING, 0, None)


def test_f8_a_pod_that_was_requested_and_not_seen_for_300_s_is_given_up() -> None:
    """Our own creations are seen when they are answered; a status that tells of one that was not still counts."""
    world = a_world(a_role("w", retry=(True, 0)))
    world.crash(done=0)
    role = world.status.roles[0]
    asked = replace(role.tasks[0], state=State.CREATION_REQUESTED)
    status = replace(world.status, roles=(replace(role, tasks=(asked,)),), state=State.PREPARING)
    world.framework = replace(world.framework, status=status)

    world.after(299)
    waiting = (world.task("w0").state, len(world.made))
    world.after(1)

    assert waiting == (State.CREATION_REQUESTED, 0)
    assert (world.task_counters("w0"), len(world.made)) == ((1, 0), 1)
    assert "PodLocalCacheCreationTimeout (-111)" in " ".join(step.reason for step in world.steps)


def test_f9_a_pod_created_before_a_crash_is_adopted_because_it_serves_the_attempt() -> None:
    """A pod says itself which attempt it serves, so nothing has to be deleted and made again."""
    world = a_world()

    world.crash(done=1)
    unrecorded = world.task("w0").attempt.pod_uid
    world.sync()
    world.run()

    assert unrecorded is None
    assert (world.task("w0").attempt.pod_uid, len(world.made)) == ("pod-0", 1)
    assert (world.state, world.task_counters("w0")) == (State.RUNNING, (0, 0))


def test_f10_a_foreign_pod_of_the_same_name_is_waited_for_and_left_alone() -> None:
    world = a_world()
    world.taken.add(world.pod("w0"))

    world.sync()
    for _ in range(5):
        world.after(100)
    waiting = (world.task("w0").state, world.task("w0").message, len(world.made))
    world.taken.clear()
    world.after(100)

    assert waiting == (State.CREATION_PENDING, 'pods "f-w-0" already exists', 0)
    assert (world.live(), world.task_counters("w0")) == ({"w0"}, (0, 0))


def refuse(world: World, *answers: Code) -> None:
    refusals = [completion_for(answer, "turned down") for answer in answers]
    world.refusals[world.pod("w0")] = list(refusals)


def test_f11_a_pod_turned_down_as_invalid_ends_the_framework() -> None:
    world = a_world()
    refuse(world, Code.POD_CREATION_PERMANENT_ERROR)

    world.sync()

    assert (world.done, world.made) == (-200, [])


def test_f12_a_pod_turned_down_for_reasons_unknown_uses_up_the_budget() -> None:
    world = a_world(a_role("w", retry=(True, 1)))
    refuse(world, Code.POD_CREATION_UNKNOWN_ERROR, Code.POD_CREATION_UNKNOWN_ERROR)

    world.sync()

    assert (world.done, world.task_counters("w0"), world.made) == (-310, (1, 1), [])


def test_f13_a_pod_that_cannot_be_created_yet_waits_and_keeps_its_attempt() -> None:
    world = a_world()
    world.refusals[world.pod("w0")] = ["exceeded quota", "the server has an error"]

    world.sync()
    first = (world.task("w0").state, world.task("w0").message)
    world.after(10)
    second = world.task("w0").message
    world.after(10)

    assert (first, second) == ((State.CREATION_PENDING, "exceeded quota"), "the server has an error")
    assert (world.task("w0").state, world.task_counters("w0")) == (State.PREPARING, (0, 0))


def test_f14_a_pod_is_not_created_again_while_the_cache_does_not_show_it() -> None:
    world = a_world()
    planner = Planner(world.framework, world.rules)

    first = planner.plan(world.now)
    later = [planner.plan(world.now + second).actions for second in range(1, 4)]

    assert first.actions == (CreatePod(RoleName("w"), 0, 0, 0),)
    assert later == [(), (), ()]


def test_f17_a_framework_that_is_being_deleted_creates_nothing_any_more() -> None:
    world = running(a_role("w"), retry=(True, 0))

    world.delete_framework()
    world.sync()
    world.after(10_000)

    assert (world.state, world.code, world.task_code("w0")) == (State.ATTEMPT_COMPLETED, -100, -101)
    assert State.DELETING in world.states()
    assert (world.status.attempt.id, len(world.made)) == (0, 1)


def test_f18_pods_that_an_earlier_framework_of_the_name_left_are_waited_for() -> None:
    """There is no ConfigMap to be in the way; the old pods themselves are, and each task waits for its own."""
    world = a_world(a_role("w", 2))
    world.taken.add(world.pod("w1"))

    world.sync()
    meanwhile = world.live()
    world.taken.clear()
    world.after(1)

    assert (meanwhile, world.live()) == ({"w0"}, {"w0", "w1"})
    assert len(world.made) == 2


def test_f19_a_restart_does_not_change_when_a_retry_is_due() -> None:
    rules = PlannerOptions(failures=NO_FAILURE_SPEC.failures, conflict_delay=(60, 900))
    world = running(a_role("w"), retry=(True, 0), rules=rules)
    world.fail("w0", 201)

    world.now += 30
    world.chance = 0.99
    world.restart()
    world.sync()
    delay, due = world.status.retry.delay, world.plan().requeue_at
    world.after(29)
    early = world.status.attempt.id
    world.after(1)

    assert (delay, due) == (60, int(world.now))
    assert (early, world.status.attempt.id) == (0, 1)


def test_f21_how_a_pod_ends_after_its_deletion_was_asked_for_says_nothing() -> None:
    world = running()
    world.stuck.add(world.pod("w0"))
    world.ask_deletion("w0")

    world.status_of("w0", an_ended_status(0))
    world.sync()
    world.confirm("w0")

    assert (world.done, world.task_code("w0")) == (-101, -101)
