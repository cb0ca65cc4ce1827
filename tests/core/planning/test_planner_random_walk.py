"""Random sequences of events of a Framework, with invariants that hold after each of them."""

from collections import Counter
from functools import partial
from typing import Any

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
from tests.core.builders import a_role, a_terminated_status
from tests.core.planning.harness import PlannerHarness, new_harness
from tests.hypothesis_examples import examples

NAMES = ("a", "b", "c")
#: Codes that may replace the completion of an attempt during its retry delay.
CODES_DURING_A_RETRY_DELAY = {int(Code.STOP_FRAMEWORK_REQUESTED), int(Code.ACTIVE_DEADLINE_EXCEEDED)}

thresholds = st.tuples(st.sampled_from([-1, -1, 1, 2]), st.sampled_from([-1, -1, 1, 2]))
retries = st.tuples(st.booleans(), st.sampled_from([-2, -1, 0, 1, 2]))
timeouts = st.sampled_from([None, 5, 60])
gang_specs = st.sampled_from([None, None, Gang(), Gang(60), Gang(60, min_tasks=2)])
index_sets = st.sampled_from([frozenset[int](), frozenset({0}), frozenset({0, 1})])


@st.composite
def roles(draw: st.DrawFn) -> tuple[TaskRole, ...]:
    """One to three roles; each may start after one of those before it."""
    drawn: list[TaskRole] = []
    for name in NAMES[: draw(st.integers(1, 3))]:
        waits = st.builds(
            StartAfter,
            st.sampled_from([role.name for role in drawn] or [RoleName("a")]),
            st.sampled_from(StartCondition),
            st.none() | st.just(1),
        )
        drawn.append(
            a_role(
                name,
                draw(st.sampled_from([2, 3, 1, 0])),
                min_counts=draw(thresholds),
                retry=draw(retries),
                succeeded_indexes=draw(index_sets),
                start_after=tuple(draw(st.lists(waits, max_size=1))) if drawn else (),
                background=draw(st.sampled_from([False, False, False, True])),
                graceful_deletion_seconds=draw(timeouts),
                pending_deadline_seconds=draw(timeouts),
                progress_deadline_seconds=draw(st.sampled_from([5, 60, None])),
            )
        )
    return tuple(drawn)


specs = st.fixed_dictionaries(
    {
        "retry": retries,
        "execution": st.sampled_from([ExecutionType.START, ExecutionType.START, ExecutionType.CREATE]),
        "clean_pods": st.sampled_from(CleanPodPolicy),
        "active_deadline_seconds": st.sampled_from([None, None, 200]),
        "ttl_seconds": st.sampled_from([None, 50]),
        "gang": gang_specs,
    }
)

Identity = tuple[int, str, int, int]


def identity(status: FrameworkStatus, role: str, task: TaskStatus) -> Identity:
    """Attempt, role, index and incarnation, which identify a task across statuses."""
    return status.attempt.id, role, task.index, task.incarnation


def tasks_of(status: FrameworkStatus) -> dict[Identity, TaskStatus]:
    return {identity(status, role.name, task): task for role in status.roles for task in role.tasks}


def is_finished(harness: PlannerHarness) -> bool:
    """Whether the Framework is completed or deleted."""
    status = harness.framework.status
    return (
        harness.is_deleted
        or harness.framework.deleting
        or (status is not None and status.state is State.COMPLETED)
    )


class PlannerStateMachine(RuleBasedStateMachine):
    """One Framework and random events in any order."""

    harness: PlannerHarness

    @initialize(shape=roles(), spec=specs, sequence=st.booleans(), jitter=st.sampled_from([0.0, 0.5]))
    def create_first(
        self, shape: tuple[TaskRole, ...], spec: dict[str, Any], sequence: bool, jitter: float
    ) -> None:
        role_sequence = tuple(role.name for role in reversed(shape)) if sequence else ()
        # A role that starts after one that is created later would wait forever.
        has_start_after = any(role.start_after for role in shape)
        self.new = partial(
            new_harness, *shape, **spec, role_sequence=() if has_start_after else role_sequence
        )
        self.jitter = jitter
        self.slow = False
        self.create_again()

    @precondition(lambda self: is_finished(self.harness))
    @rule()
    def create_again(self) -> None:
        """Creates the same Framework again."""
        self.harness = self.new()
        self.harness.jitter = self.jitter
        self.checked = self.steps = self.crashes = 0
        self._sync_unless_slow()

    # Events of the launcher.

    @rule(slow=st.sampled_from([False, False, True]))
    def set_launcher_speed(self, slow: bool) -> None:
        """A slow launcher reconciles only when time passes, and so observes several changes at once."""
        self.slow = slow
        self._sync_unless_slow()

    def _sync_unless_slow(self) -> None:
        if not self.slow:
            self.harness.sync()

    @rule(executed=st.integers(0, 3))
    def crash(self, executed: int) -> None:
        self.crashes += 1
        if not self.harness.is_deleted:
            self.harness.crash(executed)
        self._sync_unless_slow()

    @rule()
    def restart(self) -> None:
        self.harness.restart()
        self._sync_unless_slow()

    # Events of the cluster.

    @precondition(lambda self: self.harness.pods)
    @rule(
        data=st.data(),
        change=st.sampled_from(["run", "ready", "pend", "unknown", 0, 0, 0, 1, 1, 200, 201, 210]),
    )
    def report_status(self, data: st.DataObject, change: str | int) -> None:
        task = self._some_pod(data)
        if self._is_terminated(task):
            return
        running = self.harness.running_status(task)
        match change:
            case int():
                self.harness.report_status(task, a_terminated_status(change))
            case "run":
                self.harness.report_status(task, running)
            case "ready":
                ready = {"type": "Ready", "status": "True"}
                self.harness.report_status(task, {**running, "conditions": [ready]})
            case "pend":
                self.harness.report_status(task, {"phase": "Pending"})
            case _:
                self.harness.report_status(task, {**running, "phase": "Unknown"})
        self._sync_unless_slow()

    @precondition(lambda self: self.harness.pods)
    @rule(data=st.data())
    def write_output(self, data: st.DataObject) -> None:
        task = self._some_pod(data)
        written = self.harness.outputs.get(task, ())
        self.harness.outputs[task] = (*written[-2:], f"line {len(written)} at {self.harness.now}")

    @precondition(lambda self: self.harness.pods)
    @rule()
    def run_all_pods(self) -> None:
        for task in self._unterminated_pods():
            self.harness.report_status(task, self.harness.running_status(task))
        self._sync_unless_slow()

    @precondition(lambda self: self.harness.pods)
    @rule(code=st.sampled_from([0, 0, 1, 201]))
    def exit_all_pods(self, code: int) -> None:
        for task in self._unterminated_pods():
            self.harness.report_status(task, a_terminated_status(code))
        self._sync_unless_slow()

    def _unterminated_pods(self) -> list[str]:
        return [task for task in sorted(self.harness.existing_pods()) if not self._is_terminated(task)]

    def _is_terminated(self, task: str) -> bool:
        pod = self.harness.pods[self.harness.pod_name(task)]
        return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")

    @precondition(lambda self: self.harness.pods)
    @rule(data=st.data(), stuck=st.booleans())
    def delete_pod(self, data: st.DataObject, stuck: bool) -> None:
        task = self._some_pod(data)
        if stuck:
            self.harness.stuck_pods.add(self.harness.pod_name(task))
        self.harness.request_deletion(task)
        self._sync_unless_slow()

    @rule()
    def recover_nodes(self) -> None:
        self.harness.stuck_pods.clear()
        self._sync_unless_slow()

    @precondition(lambda self: self.harness.pods)
    @rule(data=st.data())
    def lose_node(self, data: st.DataObject) -> None:
        self.harness.stuck_pods.add(self.harness.pod_name(self._some_pod(data)))
        self._sync_unless_slow()

    @rule(
        task=st.sampled_from(["a0", "a1", "b0", "c0"]),
        code=st.sampled_from([Code.POD_CREATION_PERMANENT_ERROR, Code.POD_CREATION_UNKNOWN_ERROR, None]),
    )
    def fail_creation(self, task: str, code: Code | None) -> None:
        error = "exceeded quota" if code is None else completion_for(code, f"no {task}")
        self.harness.creation_errors.setdefault(self.harness.pod_name(task), []).append(error)
        self._sync_unless_slow()

    @rule(seconds=st.sampled_from([0.5, 1, 10, 30, 61, 700, -3]))
    def advance(self, seconds: float) -> None:
        if not self.harness.is_deleted:
            self.harness.advance(seconds)

    # Actions of the user.

    @rule(data=st.data(), tasks=st.integers(0, 4))
    def rescale(self, data: st.DataObject, tasks: int) -> None:
        if self.harness.framework.spec.roles:
            role = data.draw(st.sampled_from(self.harness.framework.spec.roles))
            self.harness.edit_role(role.name, tasks=tasks)
        self._sync_unless_slow()

    @rule(data=st.data(), min_counts=thresholds, retry=retries, graceful=timeouts)
    def edit_role(
        self, data: st.DataObject, min_counts: tuple[int, int], retry: tuple[bool, int], graceful: int | None
    ) -> None:
        if self.harness.framework.spec.roles:
            role = data.draw(st.sampled_from(self.harness.framework.spec.roles))
            self.harness.edit_role(
                role.name,
                completion=CompletionPolicy(*min_counts),
                retry=RetryPolicy(*retry),
                graceful_deletion_seconds=graceful,
            )
        self._sync_unless_slow()

    @rule(data=st.data(), add=st.booleans())
    def add_or_remove_role(self, data: st.DataObject, add: bool) -> None:
        known = self.harness.framework.spec.roles
        missing = [name for name in NAMES if name not in {role.name for role in known}]
        if add and missing:
            self.harness.edit_spec(roles=(*known, a_role(missing[0], 2, min_counts=(-1, -1))))
        elif not add and known:
            removed = data.draw(st.sampled_from(known))
            kept = [role for role in known if role.name != removed.name]
            if not any(after.role == removed.name for role in kept for after in role.start_after):
                sequence = tuple(n for n in self.harness.framework.spec.role_sequence if n != removed.name)
                self.harness.edit_spec(roles=tuple(kept), role_sequence=sequence)
        self._sync_unless_slow()

    @rule(retry=retries, clean=st.sampled_from(CleanPodPolicy), gang=gang_specs)
    def edit_spec(self, retry: tuple[bool, int], clean: CleanPodPolicy, gang: Gang | None) -> None:
        self.harness.edit_spec(retry=RetryPolicy(*retry), clean_pods=clean, gang=gang)
        self._sync_unless_slow()

    @precondition(lambda self: self.harness.framework.spec.execution is ExecutionType.CREATE)
    @rule()
    def start(self) -> None:
        self.harness.edit_spec(execution=ExecutionType.START)
        self._sync_unless_slow()

    @precondition(lambda self: self._is_old())
    @rule(execution=st.sampled_from([ExecutionType.STOP, ExecutionType.CREATE]))
    def stop_or_suspend(self, execution: ExecutionType) -> None:
        if self.harness.framework.spec.execution is not ExecutionType.STOP:
            self.harness.edit_spec(execution=execution)
        self._sync_unless_slow()

    @precondition(lambda self: self._is_old())
    @rule()
    def delete(self) -> None:
        self.harness.delete_framework()
        self._sync_unless_slow()

    def _is_old(self) -> bool:
        """Whether the Framework has lived for a while; actions that end it are rare."""
        return len(self.harness.saved_statuses) > 15

    # Invariants.

    @invariant()
    def transitions_and_statuses_are_valid(self) -> None:
        harness = self.harness
        while self.steps < len(harness.transitions):
            transition = harness.transitions[self.steps]
            table = FRAMEWORK_STEPS if transition.role is None else TASK_STEPS
            assert transition.before is None or transition.after in table[transition.before]
            self.steps += 1
        while self.checked + 1 < len(harness.saved_statuses):
            self._assert_valid_change(
                harness.saved_statuses[self.checked], harness.saved_statuses[self.checked + 1]
            )
            self.checked += 1
        attempts = {
            pod["metadata"]["labels"][PodIdentityKey.FRAMEWORK_ATTEMPT_ID] for pod in harness.pods.values()
        }
        assert len(attempts) <= 1, "pods of two attempts at once"

    @invariant()
    def counters_match_the_created_pods(self) -> None:
        if self.harness.framework.status is None:
            return
        status = self.harness.status
        assert status.retry.total == status.attempt.id
        assert 0 <= status.retry.accountable <= status.retry.total
        created = Counter(self._attempt_of_pod(pod) for pod in self.harness.created_pods)
        for (attempt, role, index, incarnation), task in tasks_of(status).items():
            assert 0 <= task.retry.accountable <= task.retry.total
            pods_of_task = {
                attempt_key: n
                for attempt_key, n in created.items()
                if attempt_key[:4] == (attempt, role, index, incarnation)
            }
            assert sum(pods_of_task.values()) <= task.retry.total + 1 + self.crashes
            attempt_ids = {attempt_key[4] for attempt_key in pods_of_task}
            assert max(attempt_ids, default=0) <= task.retry.total

    @precondition(lambda self: self.harness.framework.status is not None)
    @rule()
    def every_unfinished_task_has_a_next_event(self) -> None:
        """When nothing is left to reconcile, every unfinished task has a pod, a timer or a reason to wait."""
        self.harness.sync()
        suspended = self.harness.framework.spec.execution is ExecutionType.CREATE
        if is_finished(self.harness) or (suspended and self.harness.state is State.CREATION_PENDING):
            return
        _assert_every_task_has_a_next_event(self.harness)
        _assert_pods_have_tasks(self.harness)
        _assert_framework_has_a_next_event(self.harness)
        _assert_gang_timeout(self.harness)

    def _assert_valid_change(self, before: FrameworkStatus, after: FrameworkStatus) -> None:
        assert before.state is not State.COMPLETED, "a Completed Framework never changes"
        assert after.attempt.id - before.attempt.id in (0, 1)
        assert after.start_time == before.start_time
        if after.attempt.id == before.attempt.id:
            self._assert_one_completion(before, after)
            assert not (is_placed(before) and is_unplaced(after)), "a placed gang stays placed"
        earlier = tasks_of(before)
        for known, task in tasks_of(after).items():
            if known in earlier:
                _assert_valid_task_change(earlier[known], task)

    def _assert_one_completion(self, before: FrameworkStatus, after: FrameworkStatus) -> None:
        completion, now = before.attempt.completion, after.attempt.completion
        if completion is None or now == completion:
            return
        assert now is not None
        assert now.code in CODES_DURING_A_RETRY_DELAY
        assert after.state is State.COMPLETED

    def _attempt_of_pod(self, pod: dict[str, Any]) -> tuple[int, str, int, int, int]:
        labels = pod["metadata"]["labels"]
        uid = pod["metadata"]["annotations"][PodIdentityKey.TASK_UID]
        return (
            int(labels[PodIdentityKey.FRAMEWORK_ATTEMPT_ID]),
            labels[PodIdentityKey.TASKROLE_NAME],
            int(labels[PodIdentityKey.TASK_INDEX]),
            self.harness.incarnations[uid],
            int(labels[PodIdentityKey.TASK_ATTEMPT_ID]),
        )

    def _some_pod(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.harness.existing_pods())))


def _assert_valid_task_change(before: TaskStatus, after: TaskStatus) -> None:
    assert not (before.deletion_pending and not after.deletion_pending), "a removed task is never restored"
    assert after.retry.total >= before.retry.total
    if before.state is State.COMPLETED:
        assert (after.state, after.retry) == (before.state, before.retry)
    if after.retry.total != before.retry.total:
        return
    if before.attempt.completion is not None:
        assert after.attempt.completion == before.attempt.completion, "a completion is recorded once"
    if before.attempt.pod_uid is not None:
        assert after.attempt.pod_uid == before.attempt.pod_uid, "an attempt has one pod"


def _assert_every_task_has_a_next_event(harness: PlannerHarness) -> None:
    for short, task in harness.tasks().items():
        match task.state:
            case State.COMPLETED:
                pass
            case State.CREATION_PENDING:
                assert task.message, "a task without a pod has a message"
            case State.ATTEMPT_COMPLETED:
                assert task.retry.delay
                assert harness.plan().requeue_at is not None
            case state:
                assert short in harness.existing_pods()
                if state is State.RUNNING and _has_progress_deadline(harness, short):
                    assert harness.plan().requeue_at is not None


def _has_progress_deadline(harness: PlannerHarness, task: str) -> bool:
    """Whether the task has one and its output can be read; that of a pod in phase Unknown cannot."""
    roles = {role.name: role for role in harness.framework.spec.roles}
    role = roles.get(RoleName(task[:1]))
    phase = harness.pods[harness.pod_name(task)]["status"]["phase"]
    return role is not None and role.progress_deadline_seconds is not None and phase == "Running"


def _assert_pods_have_tasks(harness: PlannerHarness) -> None:
    names = {harness.pod_name(short) for short in harness.tasks()}
    for name, pod in harness.pods.items():
        if pod.get("status", {}).get("phase") not in ("Succeeded", "Failed"):
            assert name in names, "a task is kept until its pod is deleted"


def _assert_gang_timeout(harness: PlannerHarness) -> None:
    gang, condition = harness.framework.spec.gang, harness.status.condition(GANG_PLACED)
    if harness.state in (State.PREPARING, State.RUNNING) and gang is not None and gang.timeout_seconds:
        assert condition is not None
        assert condition.status or harness.now < condition.since + gang.timeout_seconds


def _assert_framework_has_a_next_event(harness: PlannerHarness) -> None:
    counted = [
        f"{role.name}{index}"
        for role in harness.framework.spec.roles
        for index in range(role.tasks)
        if not role.background
    ]
    if harness.state in (State.PREPARING, State.RUNNING) and counted:
        assert any(harness.task(short).state is not State.COMPLETED for short in counted)
    if harness.state is State.ATTEMPT_COMPLETED:
        assert harness.plan().requeue_at is not None or harness.pods


TestPlanner = PlannerStateMachine.TestCase
# The same sequences every time, so that a failure always has its cause in the change under test.
TestPlanner.settings = examples(120, stateful_step_count=50, derandomize=True)
