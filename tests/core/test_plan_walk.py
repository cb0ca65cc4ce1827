"""A random walk through everything that can happen to a Framework, and what holds after each step of it."""

from collections import Counter
from functools import partial
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from launcher.core.completion_codes import Code, completion_for
from launcher.core.names import PodIdentityKey
from launcher.core.planning.gang import GANG_PLACED, is_placed, is_unplaced
from launcher.core.spec import (
    CleanPodPolicy,
    CompletionPolicy,
    ExecutionType,
    Gang,
    RetryPolicy,
    RoleName,
    StartAfter,
    StartCondition,
    TaskRole,
)
from launcher.core.status import (
    FRAMEWORK_STEPS,
    TASK_STEPS,
    FrameworkStatus,
    State,
    TaskStatus,
)
from tests.core.world import World, a_role, a_world, an_ended_status

NAMES = ("a", "b", "c")
#: What may take the place of an end that would have been retried.
ENDS_BEFORE_A_RETRY = {int(Code.STOP_FRAMEWORK_REQUESTED), int(Code.ACTIVE_DEADLINE_EXCEEDED)}

thresholds = st.tuples(st.sampled_from([-1, -1, 1, 2]), st.sampled_from([-1, -1, 1, 2]))
retries = st.tuples(st.booleans(), st.sampled_from([-2, -1, 0, 1, 2]))
seconds = st.sampled_from([None, 5, 60])
gangs = st.sampled_from([None, None, Gang(), Gang(60), Gang(60, min_tasks=2)])
named = st.sampled_from([frozenset[int](), frozenset({0}), frozenset({0, 1})])


@st.composite
def roles(draw: st.DrawFn) -> tuple[TaskRole, ...]:
    """One to three roles; each may wait for those before it."""
    made: list[TaskRole] = []
    for name in NAMES[: draw(st.integers(1, 3))]:
        waits = st.builds(
            StartAfter,
            st.sampled_from([role.name for role in made] or [RoleName("a")]),
            st.sampled_from(StartCondition),
            st.none() | st.just(1),
        )
        made.append(
            a_role(
                name,
                draw(st.sampled_from([2, 3, 1, 0])),
                ends=draw(thresholds),
                retry=draw(retries),
                succeeded_indexes=draw(named),
                start_after=tuple(draw(st.lists(waits, max_size=1))) if made else (),
                background=draw(st.sampled_from([False, False, False, True])),
                graceful_deletion_seconds=draw(seconds),
                pending_deadline_seconds=draw(seconds),
            )
        )
    return tuple(made)


specs = st.fixed_dictionaries(
    {
        "retry": retries,
        "execution": st.sampled_from([ExecutionType.START, ExecutionType.START, ExecutionType.CREATE]),
        "clean_pods": st.sampled_from(CleanPodPolicy),
        "active_deadline_seconds": st.sampled_from([None, None, 200]),
        "ttl_seconds": st.sampled_from([None, 50]),
        "gang": gangs,
    }
)

Identity = tuple[int, str, int, int]


def identity(status: FrameworkStatus, role: str, task: TaskStatus) -> Identity:
    """What makes a task the same one as before."""
    return status.attempt.id, role, task.index, task.incarnation


def tasks_of(status: FrameworkStatus) -> dict[Identity, TaskStatus]:
    return {identity(status, role.name, task): task for role in status.roles for task in role.tasks}


def is_through(world: World) -> bool:
    """Nothing is expected of the Framework any more."""
    status = world.framework.status
    return world.gone or world.framework.deleting or (status is not None and status.state is State.COMPLETED)


class Walk(RuleBasedStateMachine):
    """One Framework in a world where anything may happen, in any order."""

    world: World

    @initialize(shape=roles(), spec=specs, sequence=st.booleans(), chance=st.sampled_from([0.0, 0.5]))
    def begin(self, shape: tuple[TaskRole, ...], spec: dict[str, Any], sequence: bool, chance: float) -> None:
        order = tuple(role.name for role in reversed(shape)) if sequence else ()
        # A role that waits for one that must not be created before it would wait for ever.
        waits = any(role.start_after for role in shape)
        self.new = partial(a_world, *shape, **spec, role_sequence=() if waits else order)
        self.chance = chance
        self.slow = False
        self.again()

    @precondition(lambda self: is_through(self.world))
    @rule()
    def again(self) -> None:
        """The same Framework once more, after the last one is through."""
        self.world = self.new()
        self.world.chance = self.chance
        self.checked = self.steps = self.crashes = 0
        self._then()

    # What the launcher does.

    @rule(slow=st.sampled_from([False, False, True]))
    def launcher_gets(self, slow: bool) -> None:
        """A slow launcher looks only when time passes, and so sees several things at once."""
        self.slow = slow
        self._then()

    def _then(self) -> None:
        if not self.slow:
            self.world.sync()

    @rule(done=st.integers(0, 3))
    def crash(self, done: int) -> None:
        self.crashes += 1
        if not self.world.gone:
            self.world.crash(done)
        self._then()

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self._then()

    # What the cluster does.

    @precondition(lambda self: self.world.pods)
    @rule(
        data=st.data(),
        what=st.sampled_from(["run", "ready", "pend", "unknown", 0, 0, 0, 1, 1, 200, 201, 210]),
    )
    def report(self, data: st.DataObject, what: str | int) -> None:
        task = self._some_pod(data)
        if self._has_ended(task):
            return
        alive = self.world.a_running_status(task)
        match what:
            case int():
                self.world.status_of(task, an_ended_status(what))
            case "run":
                self.world.status_of(task, alive)
            case "ready":
                ready = {"type": "Ready", "status": "True"}
                self.world.status_of(task, {**alive, "conditions": [ready]})
            case "pend":
                self.world.status_of(task, {"phase": "Pending"})
            case _:
                self.world.status_of(task, {**alive, "phase": "Unknown"})
        self._then()

    @precondition(lambda self: self.world.pods)
    @rule(code=st.sampled_from([0, 0, 1, 201]))
    def all_end(self, code: int) -> None:
        for task in sorted(self.world.live()):
            if not self._has_ended(task):
                self.world.status_of(task, an_ended_status(code))
        self._then()

    def _has_ended(self, task: str) -> bool:
        pod = self.world.pods[self.world.pod(task)]
        return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data(), stuck=st.booleans())
    def delete_pod(self, data: st.DataObject, stuck: bool) -> None:
        task = self._some_pod(data)
        if stuck:
            self.world.stuck.add(self.world.pod(task))
        self.world.ask_deletion(task)
        self._then()

    @rule()
    def nodes_answer(self) -> None:
        self.world.stuck.clear()
        self._then()

    @precondition(lambda self: self.world.pods)
    @rule(data=st.data())
    def node_hangs(self, data: st.DataObject) -> None:
        self.world.stuck.add(self.world.pod(self._some_pod(data)))
        self._then()

    @rule(
        task=st.sampled_from(["a0", "a1", "b0", "c0"]),
        answer=st.sampled_from([Code.POD_CREATION_PERMANENT_ERROR, Code.POD_CREATION_UNKNOWN_ERROR, None]),
    )
    def refuse(self, task: str, answer: Code | None) -> None:
        refusal = "exceeded quota" if answer is None else completion_for(answer, f"no {task}")
        self.world.refusals.setdefault(self.world.pod(task), []).append(refusal)
        self._then()

    @rule(by=st.sampled_from([0.5, 1, 10, 30, 61, 700, -3]))
    def time_passes(self, by: float) -> None:
        if not self.world.gone:
            self.world.after(by)

    # What the user does.

    @rule(data=st.data(), tasks=st.integers(0, 4))
    def rescale(self, data: st.DataObject, tasks: int) -> None:
        if self.world.framework.spec.roles:
            role = data.draw(st.sampled_from(self.world.framework.spec.roles))
            self.world.edit_role(role.name, tasks=tasks)
        self._then()

    @rule(data=st.data(), ends=thresholds, retry=retries, graceful=seconds)
    def edit_role(
        self, data: st.DataObject, ends: tuple[int, int], retry: tuple[bool, int], graceful: int | None
    ) -> None:
        if self.world.framework.spec.roles:
            role = data.draw(st.sampled_from(self.world.framework.spec.roles))
            self.world.edit_role(
                role.name,
                completion=CompletionPolicy(*ends),
                retry=RetryPolicy(*retry),
                graceful_deletion_seconds=graceful,
            )
        self._then()

    @rule(data=st.data(), add=st.booleans())
    def roles_come_and_go(self, data: st.DataObject, add: bool) -> None:
        known = self.world.framework.spec.roles
        missing = [name for name in NAMES if name not in {role.name for role in known}]
        if add and missing:
            self.world.edit(roles=(*known, a_role(missing[0], 2, ends=(-1, -1))))
        elif not add and known:
            gone = data.draw(st.sampled_from(known))
            kept = [role for role in known if role.name != gone.name]
            if not any(after.role == gone.name for role in kept for after in role.start_after):
                sequence = tuple(n for n in self.world.framework.spec.role_sequence if n != gone.name)
                self.world.edit(roles=tuple(kept), role_sequence=sequence)
        self._then()

    @rule(retry=retries, clean=st.sampled_from(CleanPodPolicy), gang=gangs)
    def edit(self, retry: tuple[bool, int], clean: CleanPodPolicy, gang: Gang | None) -> None:
        self.world.edit(retry=RetryPolicy(*retry), clean_pods=clean, gang=gang)
        self._then()

    @precondition(lambda self: self.world.framework.spec.execution is ExecutionType.CREATE)
    @rule()
    def start(self) -> None:
        self.world.edit(execution=ExecutionType.START)
        self._then()

    @precondition(lambda self: self._is_old())
    @rule(execution=st.sampled_from([ExecutionType.STOP, ExecutionType.CREATE]))
    def stop_or_hold(self, execution: ExecutionType) -> None:
        if self.world.framework.spec.execution is not ExecutionType.STOP:
            self.world.edit(execution=execution)
        self._then()

    @precondition(lambda self: self._is_old())
    @rule()
    def delete(self) -> None:
        self.world.delete_framework()
        self._then()

    def _is_old(self) -> bool:
        """What ends everything comes seldom, and late."""
        return len(self.world.saved) > 15

    # What holds.

    @invariant()
    def everything_holds(self) -> None:
        world = self.world
        while self.steps < len(world.steps):
            step = world.steps[self.steps]
            table = FRAMEWORK_STEPS if step.role is None else TASK_STEPS
            assert step.before is None or step.after in table[step.before]
            self.steps += 1
        while self.checked + 1 < len(world.saved):
            self._assert_follows(world.saved[self.checked], world.saved[self.checked + 1])
            self.checked += 1
        attempts = {
            pod["metadata"]["labels"][PodIdentityKey.FRAMEWORK_ATTEMPT_ID] for pod in world.pods.values()
        }
        assert len(attempts) <= 1, "pods of two attempts at once"

    @invariant()
    def counters_are_the_attempts_made(self) -> None:
        if self.world.framework.status is None:
            return
        status = self.world.status
        assert status.retry.total == status.attempt.id
        assert 0 <= status.retry.accountable <= status.retry.total
        made = Counter(self._served(pod) for pod in self.world.made)
        for (attempt, role, index, incarnation), task in tasks_of(status).items():
            assert 0 <= task.retry.accountable <= task.retry.total
            served = {
                place: n for place, n in made.items() if place[:4] == (attempt, role, index, incarnation)
            }
            assert sum(served.values()) <= task.retry.total + 1 + self.crashes
            tries = {place[4] for place in served}
            assert max(tries, default=0) <= task.retry.total

    @precondition(lambda self: self.world.framework.status is not None)
    @rule()
    def nothing_waits_for_nothing(self) -> None:
        """After the launcher has come to rest, all that is unfinished has something to come."""
        self.world.sync()
        held = self.world.framework.spec.execution is ExecutionType.CREATE
        if is_through(self.world) or (held and self.world.state is State.CREATION_PENDING):
            return
        _assert_tasks_have_something_to_come(self.world)
        _assert_pods_have_tasks(self.world)
        _assert_framework_has_something_to_come(self.world)
        _assert_a_gang_waits_no_longer_than_it_may(self.world)

    def _assert_follows(self, before: FrameworkStatus, after: FrameworkStatus) -> None:
        assert before.state is not State.COMPLETED, "what is Completed never changes"
        assert after.attempt.id - before.attempt.id in (0, 1)
        assert after.start_time == before.start_time
        if after.attempt.id == before.attempt.id:
            self._assert_one_end(before, after)
            assert not (is_placed(before) and is_unplaced(after)), "what is placed stays so"
        earlier = tasks_of(before)
        for known, task in tasks_of(after).items():
            if known in earlier:
                _assert_task_follows(earlier[known], task)

    def _assert_one_end(self, before: FrameworkStatus, after: FrameworkStatus) -> None:
        end, now = before.attempt.completion, after.attempt.completion
        if end is None or now == end:
            return
        assert now is not None
        assert now.code in ENDS_BEFORE_A_RETRY
        assert after.state is State.COMPLETED

    def _served(self, pod: dict[str, Any]) -> tuple[int, str, int, int, int]:
        labels = pod["metadata"]["labels"]
        uid = pod["metadata"]["annotations"][PodIdentityKey.TASK_UID]
        return (
            int(labels[PodIdentityKey.FRAMEWORK_ATTEMPT_ID]),
            labels[PodIdentityKey.TASKROLE_NAME],
            int(labels[PodIdentityKey.TASK_INDEX]),
            self.world.incarnations[uid],
            int(labels[PodIdentityKey.TASK_ATTEMPT_ID]),
        )

    def _some_pod(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.world.live())))


def _assert_task_follows(before: TaskStatus, after: TaskStatus) -> None:
    assert not (before.deletion_pending and not after.deletion_pending), "a removed task never comes back"
    assert after.retry.total >= before.retry.total
    if before.state is State.COMPLETED:
        assert (after.state, after.retry) == (before.state, before.retry)
    if after.retry.total != before.retry.total:
        return
    if before.attempt.completion is not None:
        assert after.attempt.completion == before.attempt.completion, "an end is written once"
    if before.attempt.pod_uid is not None:
        assert after.attempt.pod_uid == before.attempt.pod_uid, "an attempt has one pod"


def _assert_tasks_have_something_to_come(world: World) -> None:
    for short, task in world.tasks().items():
        match task.state:
            case State.COMPLETED:
                pass
            case State.CREATION_PENDING:
                assert task.message, "what is held back says why"
            case State.ATTEMPT_COMPLETED:
                assert task.retry.delay
                assert world.plan().requeue_at is not None
            case _:
                assert short in world.live()


def _assert_pods_have_tasks(world: World) -> None:
    names = {world.pod(short) for short in world.tasks()}
    for name, pod in world.pods.items():
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            assert name in names, "a task stays until its pod is gone"


def _assert_a_gang_waits_no_longer_than_it_may(world: World) -> None:
    gang, told = world.framework.spec.gang, world.status.condition(GANG_PLACED)
    if world.state in (State.PREPARING, State.RUNNING) and gang is not None and gang.timeout_seconds:
        assert told is not None
        assert told.status or world.now < told.since + gang.timeout_seconds


def _assert_framework_has_something_to_come(world: World) -> None:
    counted = [
        f"{role.name}{index}"
        for role in world.framework.spec.roles
        for index in range(role.tasks)
        if not role.background
    ]
    if world.state in (State.PREPARING, State.RUNNING) and counted:
        assert any(world.task(short).state is not State.COMPLETED for short in counted)
    if world.state is State.ATTEMPT_COMPLETED:
        assert world.plan().requeue_at is not None or world.pods


TestWalk = Walk.TestCase
# The same walks every time: whoever changes something else is not to stumble over what these would not have found.
TestWalk.settings = settings(max_examples=120, stateful_step_count=50, derandomize=True)
