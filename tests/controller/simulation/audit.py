"""The invariants of the controller. Every write to the store is checked at the moment it takes effect."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.core.completion_codes import Code
from launcher.core.names import TaskIdentity
from launcher.core.owner_references import controller_uid
from launcher.core.planning.gang import GANG_PLACED, is_placed, is_unplaced
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import plan
from launcher.core.pods.observed_pod import TERMINAL_PHASES, ObservedPod, pod_from_json
from launcher.core.serialization.framework_json import framework_from_json
from launcher.core.spec import CleanPodPolicy, FrameworkSpec
from launcher.core.status import FRAMEWORK_STEPS, TASK_STEPS, FrameworkStatus, State, TaskStatus
from launcher.store.interface import FRAMEWORK_ATTEMPTS, FRAMEWORKS, PODS, Object

Uid = str

_COMPLETED_STATES = (State.ATTEMPT_COMPLETED, State.COMPLETED)


class InvariantViolation(AssertionError):
    """A write violates an invariant of the controller."""


@dataclass
class PodRecord:
    """One pod, existing or deleted."""

    owner: Uid
    task: TaskIdentity
    live: bool = True
    #: It is being deleted, or was.
    deletion_requested: bool = False
    #: It was created by a delayed call, after its attempt had completed. It may exist, but must be deleted.
    created_late: bool = False


@dataclass
class Auditor:
    """Checks every write. Raises InvariantViolation."""

    #: By the uid of the Framework.
    statuses: dict[Uid, FrameworkStatus] = field(default_factory=dict)
    specs: dict[Uid, FrameworkSpec] = field(default_factory=dict)
    pods: dict[Uid, PodRecord] = field(default_factory=dict)
    pods_by_framework: dict[Uid, list[Uid]] = field(default_factory=lambda: defaultdict(list))
    #: By the uid of the Framework, the ids of all attempts that were recorded, and of those whose records exist.
    recorded: dict[Uid, set[int]] = field(default_factory=lambda: defaultdict(set))
    records: dict[Uid, set[int]] = field(default_factory=lambda: defaultdict(set))
    edited: set[Uid] = field(default_factory=set)
    deleted: set[Uid] = field(default_factory=set)

    def __call__(self, resource: str, deleted: bool, obj: Object) -> None:
        if resource == PODS.resource:
            self._check_pod(deleted, obj)
        elif resource == FRAMEWORKS.resource:
            self._check_framework(deleted, obj)
        elif resource == FRAMEWORK_ATTEMPTS.resource:
            self._check_record(deleted, obj)

    def _check_record(self, deleted: bool, obj: Object) -> None:
        """Raises unless the record is that of an attempt whose completion is saved and that was not recorded yet."""
        uid, attempt, name = controller_uid(obj), obj["attemptStatus"], obj["metadata"]["name"]
        if deleted:
            self.records[uid].discard(attempt["id"])
            return
        status = self.statuses.get(uid)
        if status is None or attempt["id"] in self.recorded[uid]:
            raise InvariantViolation(f"{name} was recorded before its Framework had a status, or twice")
        completion = status.attempt.completion
        if status.attempt.id != attempt["id"] or status.state is not State.ATTEMPT_COMPLETED:
            raise InvariantViolation(f"{name} was recorded in attempt {status.attempt.id}, {status.state}")
        if completion is None or completion.code != attempt["completionStatus"]["code"]:
            raise InvariantViolation(f"{name} has another completion than the saved status: {completion}")
        self.recorded[uid].add(attempt["id"])
        self.records[uid].add(attempt["id"])

    def _check_pod(self, deleted: bool, obj: Object) -> None:
        pod = pod_from_json(obj)
        if not pod.owner:
            return
        record = self.pods.get(pod.uid)
        if record is None:
            self._check_created_pod(pod)
        else:
            record.live = not deleted and pod.phase not in TERMINAL_PHASES
            record.deletion_requested |= deleted or pod.deleting

    def _check_created_pod(self, pod: ObservedPod) -> None:
        if pod.task is None:
            raise InvariantViolation(f"pod {pod.name} was created without the labels of its task")
        status = self.statuses.get(pod.owner)
        created_late = status is None or self._is_created_late(pod.uid, pod.task, status)
        if status is not None and status.attempt.id < pod.task.framework_attempt:
            raise InvariantViolation(f"pod {pod.name} was created before its attempt was saved")
        if not created_late and status is not None:
            task = _task(status, pod.task)
            if task is not None and task.retry.total < pod.task.task_attempt:
                raise InvariantViolation(f"pod {pod.name} was created before its task attempt was saved")
            for other in map(self.pods.__getitem__, self.pods_by_framework[pod.owner]):
                if (
                    other.live
                    and not other.created_late
                    and other.task.framework_attempt < pod.task.framework_attempt
                ):
                    raise InvariantViolation(f"pod {pod.name} was created while {other.task} runs")
        self.pods[pod.uid] = PodRecord(pod.owner, pod.task, created_late=created_late)
        self.pods_by_framework[pod.owner].append(pod.uid)

    def _is_created_late(self, uid: Uid, identity: TaskIdentity, status: FrameworkStatus) -> bool:
        """Whether the attempt of the pod had completed, or had another pod."""
        if status.attempt.id != identity.framework_attempt or status.state in _COMPLETED_STATES:
            return True
        task = _task(status, identity)
        return task is not None and (
            task.retry.total > identity.task_attempt
            or (task.retry.total == identity.task_attempt and task.state in _COMPLETED_STATES)
            or (task.retry.total == identity.task_attempt and task.attempt.pod_uid not in (None, uid))
        )

    def _check_framework(self, deleted: bool, obj: Object) -> None:
        framework = framework_from_json(obj)
        uid = framework.uid
        if deleted:
            self.deleted.add(uid)
            return
        if uid in self.specs and self.specs[uid] != framework.spec:
            self.edited.add(uid)
        self.specs[uid] = framework.spec
        before, after = self.statuses.get(uid), framework.status
        if after is None:
            if before is not None:
                raise InvariantViolation(f"the status of {framework.name} was lost")
            return
        self._check_pod_uids(framework.name, after)
        if before is not None and before != after:
            self._check_transition(framework.name, before, after)
            if before.attempt.id < after.attempt.id and before.attempt.id not in self.recorded[uid]:
                raise InvariantViolation(f"{framework.name} was retried before its attempt was recorded")
        if after.state in _COMPLETED_STATES and (before is None or before.state != after.state):
            self._check_no_pod_runs(framework.name, uid, after)
        self.statuses[uid] = after

    def _check_pod_uids(self, name: str, status: FrameworkStatus) -> None:
        for role in status.roles:
            for task in role.tasks:
                self._check_deleted_pods(f"{name} {role.name}-{task.index}", task)
                uid = task.attempt.pod_uid
                if uid is None:
                    continue
                pod = self.pods.get(uid)
                if pod is None or (pod.task.role, pod.task.index) != (role.name, task.index):
                    raise InvariantViolation(
                        f"status of {name} has a pod of {role.name}-{task.index} that never existed: {uid}"
                    )
                if (pod.task.framework_attempt, pod.task.task_attempt) != (
                    status.attempt.id,
                    task.retry.total,
                ):
                    raise InvariantViolation(
                        f"status of {name} in attempt {status.attempt.id} has in {task} a pod of {pod.task}"
                    )

    def _check_deleted_pods(self, name: str, task: TaskStatus) -> None:
        """Raises if an attempt of the task ended because its pod was deleted, and it was not."""
        ended = [(row.pod_uid, row.code) for row in task.history]
        if task.attempt.completion is not None:
            ended.append((task.attempt.pod_uid, task.attempt.completion.code))
        for uid, code in ended:
            pod = self.pods.get(uid or "")
            if code == Code.POD_EXTERNAL_DELETED and pod is not None and not pod.deletion_requested:
                raise InvariantViolation(f"{name} has PodExternalDeleted, but its pod {uid} was not deleted")

    def _check_transition(self, name: str, before: FrameworkStatus, after: FrameworkStatus) -> None:
        """Raises unless *after* may follow *before*."""
        if before.state is State.COMPLETED:
            raise InvariantViolation(
                f"{name} was Completed and changed: {before.message!r} -> {after.message!r}"
            )
        if after.attempt.id not in (before.attempt.id, before.attempt.id + 1):
            raise InvariantViolation(f"{name} went from attempt {before.attempt.id} to {after.attempt.id}")
        if after.retry.total != after.attempt.id:
            raise InvariantViolation(
                f"{name} counts {after.retry.total} retries in attempt {after.attempt.id}"
            )
        if after.attempt.id == before.attempt.id:
            if not _reaches(FRAMEWORK_STEPS, before.state, after.state):
                raise InvariantViolation(f"{name} went from {before.state} to {after.state}")
            if is_placed(before) and is_unplaced(after):
                raise InvariantViolation(f"the gang of {name} was placed and is unplaced again")
            was, now = before.attempt.completion, after.attempt.completion
            if was is not None and was != now and now is not None and now.code not in (-210, -211):
                raise InvariantViolation(f"the completion of {name}'s attempt changed: {was} -> {now}")
            self._check_task_transitions(name, before, after)
        elif before.state is not State.ATTEMPT_COMPLETED and before.attempt.completion is None:
            # Only saved statuses are checked here; the status with the completion may not have been saved.
            raise InvariantViolation(
                f"{name} started attempt {after.attempt.id} before the previous one completed"
            )

    def _check_task_transitions(self, name: str, before: FrameworkStatus, after: FrameworkStatus) -> None:
        for role in after.roles:
            old = before.role(role.name)
            for task, was in zip(role.tasks, old.tasks if old is not None else (), strict=False):
                if task.incarnation != was.incarnation:
                    continue
                if task.retry.total < was.retry.total or task.retry.accountable < was.retry.accountable:
                    raise InvariantViolation(f"{name} {role.name}-{task.index} has a lower retry count")
                if was.deletion_pending and not task.deletion_pending:
                    raise InvariantViolation(f"{name} {role.name}-{task.index} is no longer pending deletion")
                same_attempt = task.retry.total == was.retry.total
                if same_attempt and not _reaches(
                    TASK_STEPS, was.state, task.state, without=State.CREATION_PENDING
                ):
                    raise InvariantViolation(
                        f"{name} {role.name}-{task.index} went from {was.state} to {task.state}"
                    )
                if (
                    same_attempt
                    and was.attempt.completion is not None
                    and was.attempt.completion != task.attempt.completion
                ):
                    raise InvariantViolation(f"the completion of {name} {role.name}-{task.index} changed")

    def _check_no_pod_runs(self, name: str, uid: Uid, status: FrameworkStatus) -> None:
        if self.specs[uid].clean_pods is CleanPodPolicy.NONE:
            return
        for pod in map(self.pods.__getitem__, self.pods_by_framework[uid]):
            if pod.live and not pod.created_late:
                raise InvariantViolation(f"{name} is {status.state} while {pod.task} runs")

    # At the end of a run.

    def check_end(
        self, frameworks: list[Object], pods: list[Object], now: float, options: PlannerOptions
    ) -> None:
        """Checks the final state."""
        self._check_records()
        by_uid = {obj["metadata"]["uid"]: obj for obj in frameworks}
        missing = set(self.specs) - set(by_uid) - self.deleted
        if missing:
            raise InvariantViolation(f"Frameworks disappeared without a deletion: {missing}")
        observed = [pod_from_json(pod) for pod in pods]
        for uid, obj in by_uid.items():
            framework = framework_from_json(obj)
            name, status = framework.name, framework.status
            if status is None or status.state is not State.COMPLETED:
                raise InvariantViolation(
                    f"{name} is stuck in {status and status.state}: {status and status.message}"
                )
            own = [pod for pod in observed if pod.owner == uid]
            for pod in own:
                if not pod.terminated and framework.spec.clean_pods is not CleanPodPolicy.NONE:
                    raise InvariantViolation(f"{name} is Completed and its pod {pod.name} still runs")
            result = plan(framework, own, now, options=options)
            if result.actions or result.status != status:
                raise InvariantViolation(f"a second plan for {name} has more actions: {result.actions}")
            if uid not in self.edited:
                self._check_completion(name, framework.spec, status)
                self._check_gang_timeout(name, framework.spec, status)
                self._check_retry_counts(name, uid, framework.spec, status)
        for pod in observed:
            if pod.owner and pod.owner not in by_uid:
                raise InvariantViolation(f"pod {pod.name} has no owner")

    def _check_records(self) -> None:
        """Raises unless the records of the latest attempts of each Framework exist, and no others."""
        for uid, recorded in self.recorded.items():
            expected = set(sorted(recorded)[-self.specs[uid].attempt_history_limit :])
            if uid not in self.deleted and self.records[uid] != expected:
                raise InvariantViolation(f"records of attempts {self.records[uid]}, expected {expected}")

    def _check_completion(self, name: str, spec: FrameworkSpec, status: FrameworkStatus) -> None:
        """Computes the completion of the attempt from its tasks, independently of the planner."""
        end = status.attempt.completion
        if end is None:
            raise InvariantViolation(f"{name} is Completed without a completion")
        if end.code in (-210, -211, Code.GANG_TIMEOUT):
            return
        triggered: set[int] = set()
        foreground = [role for role in spec.roles if not role.background]
        for role in foreground:
            tasks = next(candidate.tasks for candidate in status.roles if candidate.name == role.name)
            ends = [task.attempt.completion for task in tasks if task.state is State.COMPLETED]
            codes = [e.code for e in ends if e is not None and e.code != -220]
            failed, succeeded = [c for c in codes if c], [c for c in codes if not c]
            if 1 <= role.completion.min_failed <= len(failed):
                triggered.update(failed)
            if 1 <= role.completion.min_succeeded <= len(succeeded):
                triggered.add(0)
            if len(codes) == len(tasks):
                continue
            if not triggered and not any(r.completion.min_failed >= 1 for r in foreground):
                raise InvariantViolation(
                    f"{name} completed with {end.code} before role {role.name} completed"
                )
        if triggered and end.code not in triggered:
            raise InvariantViolation(f"{name} completed with {end.code}, expected one of {triggered}")
        if not triggered and end.code != 0:
            raise InvariantViolation(f"{name} completed with {end.code} although no policy was met")

    def _check_gang_timeout(self, name: str, spec: FrameworkSpec, status: FrameworkStatus) -> None:
        end = status.attempt.completion
        if end is None or end.code != Code.GANG_TIMEOUT:
            return
        condition = status.condition(GANG_PLACED)
        if spec.gang is None or spec.gang.timeout_seconds is None or condition is None or condition.status:
            raise InvariantViolation(f"{name} completed with a gang timeout without an unplaced gang")
        if status.attempt.completion_time is not None:
            waited = status.attempt.completion_time - condition.since
            if waited < spec.gang.timeout_seconds:
                raise InvariantViolation(f"the gang of {name} timed out after {waited}s")

    def _check_retry_counts(self, name: str, uid: Uid, spec: FrameworkSpec, status: FrameworkStatus) -> None:
        pods = [self.pods[pod] for pod in self.pods_by_framework[uid]]
        attempts = {pod.task.framework_attempt for pod in pods}
        end = status.attempt.completion
        # It may have completed before any of its pods was created.
        stopped = end is not None and end.code in (-210, -211, Code.GANG_TIMEOUT)
        if attempts and max(attempts) != status.retry.total and not stopped:
            raise InvariantViolation(
                f"{name} counts {status.retry.total} retries, its pods have attempts {sorted(attempts)}"
            )
        if 0 <= spec.retry.max_retries < status.retry.accountable:
            raise InvariantViolation(
                f"{name} was retried {status.retry.accountable} times, {spec.retry.max_retries} were allowed"
            )
        for role in spec.roles:
            role_status = status.role(role.name)
            for task in role_status.tasks if role_status is not None else ():
                if 0 <= role.retry.max_retries < task.retry.accountable:
                    raise InvariantViolation(f"{name} {role.name}-{task.index} was retried too often")
                task_attempts = {
                    pod.task.task_attempt
                    for pod in pods
                    if (pod.task.framework_attempt, pod.task.role, pod.task.index)
                    == (status.attempt.id, role.name, task.index)
                }
                if task_attempts and max(task_attempts) > task.retry.total:
                    raise InvariantViolation(
                        f"{name} {role.name}-{task.index} had more attempts than its retry count"
                    )


def _task(status: FrameworkStatus, identity: TaskIdentity) -> TaskStatus | None:
    role = status.role(identity.role)
    return role.tasks[identity.index] if role is not None and identity.index < len(role.tasks) else None


def _reaches(
    steps: Mapping[State, frozenset[State]], before: State, after: State, without: State | None = None
) -> bool:
    """Whether *after* is reachable from *before*: several transitions may lie between two saved statuses."""
    reached, queue = {before}, [before]
    while queue:
        for state in steps[queue.pop()]:
            if state not in reached and state is not without:
                reached.add(state)
                queue.append(state)
    return after in reached
