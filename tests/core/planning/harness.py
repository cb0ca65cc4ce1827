"""
A Framework, its pods, a simulated cluster and a clock in memory, for tests of the planner.

The status is converted to JSON and back after every plan, as in a store. Each plan is computed twice: by ``plan``, from
the stored objects alone, and by a ``Planner`` that is kept and is notified of changes only. Both must be equal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.core.completion_codes import Completion
from launcher.core.events import ObjectEvent
from launcher.core.failures.classifier import FailureClassifier
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey, pod_name
from launcher.core.planning.actions import (
    Action,
    CreatePod,
    DeleteFramework,
    DeletePod,
    ListPodsLive,
    ReadOutput,
    RecordAttempt,
    StateTransition,
)
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Plan, Planner, PlanResult, plan
from launcher.core.planning.progress import PodOutput
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.pods.pod_template import PodTemplate, compile_templates
from launcher.core.serialization.status_json import status_from_json, status_to_json
from launcher.core.spec import (
    CompletionPolicy,
    ExecutionType,
    FrameworkName,
    PodName,
    RoleName,
    TaskRole,
)
from launcher.core.status import FrameworkStatus, State, TaskStatus
from launcher.core.timestamps import format_rfc3339
from tests.core.builders import START, UID, a_spec, a_terminated_status

#: Without a podFailureSpec, as in the scenarios of the reference.
NO_FAILURE_SPEC = PlannerOptions(failures=FailureClassifier.from_json([]))


@dataclass
class PlannerHarness:
    """
    One Framework ``f`` with its pods, a simulated cluster and a clock.

    A task is named by role and index, such as ``w0``.
    """

    framework: Framework
    options: PlannerOptions = NO_FAILURE_SPEC
    now: float = START
    jitter: float = 0.0
    pods: dict[PodName, dict[str, Any]] = field(default_factory=dict)
    #: All pods that the planner created, also deleted ones.
    created_pods: list[dict[str, Any]] = field(default_factory=list)
    #: The incarnation of the task, by the task uid in the pod.
    incarnations: dict[str, int] = field(default_factory=dict)
    transitions: list[StateTransition] = field(default_factory=list)
    events: list[ObjectEvent] = field(default_factory=list)
    #: Errors of the next creations of a pod, one each: a Completion is final, a message leads to a retry.
    creation_errors: dict[PodName, list[Completion | str]] = field(default_factory=dict)
    #: Names of pods of other owners.
    taken_names: set[PodName] = field(default_factory=set)
    #: Pods on unreachable nodes: their deletion is not confirmed.
    stuck_pods: set[PodName] = field(default_factory=set)
    saved_statuses: list[FrameworkStatus] = field(default_factory=list)
    force_deleted: list[PodName] = field(default_factory=list)
    #: Whether the Framework was deleted by the planner.
    is_deleted: bool = False
    #: Results of creations that are not yet reported to the planner.
    #: The recorded attempts of the Framework since the last restart, by id.
    records: dict[int, RecordAttempt] = field(default_factory=dict)
    recorded_attempt: int | None = None
    #: The last lines of output of tasks, if they have any; and all reads since the last restart.
    outputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _read_outputs: list[tuple[PodName, PodOutput, float]] = field(default_factory=list)
    _rejected: dict[PodName, Completion] = field(default_factory=dict)
    _delayed: dict[PodName, str] = field(default_factory=dict)
    #: Creations that are retried when time has passed.
    _to_retry: set[PodName] = field(default_factory=set)
    _planner: Planner | None = None
    _version: int = 0

    # Actions of users and of the cluster.

    def edit_spec(self, **spec: Any) -> None:
        """Changes fields of the spec."""
        self._update(spec=replace(self.framework.spec, **spec), generation=self.framework.generation + 1)

    def edit_role(self, name: str, **fields: Any) -> None:
        """Changes fields of one role; ``min_counts`` as for ``a_role``."""
        if "min_counts" in fields:
            fields["completion"] = CompletionPolicy(*fields.pop("min_counts"))
        roles = tuple(replace(r, **fields) if r.name == name else r for r in self.framework.spec.roles)
        self.edit_spec(roles=roles)

    def stop(self) -> None:
        self.edit_spec(execution=ExecutionType.STOP)

    def delete_framework(self) -> None:
        """Foreground deletion: the Framework gets a deletionTimestamp, the garbage collector deletes its pods."""
        self._update(deleting=True)
        for name in list(self.pods):
            self._delete_pod(name, self.pods[name]["metadata"]["uid"])

    def report_status(self, task: str, status: Mapping[str, Any], *, node: str = "n1") -> None:
        """Sets ``pod.status`` and the node of the task's pod, as a kubelet and a scheduler do."""
        name = self.pod_name(task)
        old = self.pods[name]
        self.store_pod({**old, "spec": {**old["spec"], "nodeName": node}, "status": dict(status)})

    def run_pods(self, *tasks: str) -> None:
        """Sets the pods of these tasks, by default all pods, to Running."""
        for task in tasks or [self._short(name) for name in self.pods]:
            self.report_status(task, self.running_status(task))
        self.sync()

    def make_ready(self, *tasks: str) -> None:
        """Sets the pods of these tasks to Running and Ready."""
        for task in tasks:
            condition = {"type": "Ready", "status": "True"}
            self.report_status(task, {**self.running_status(task), "conditions": [condition]})
        self.sync()

    def running_status(self, task: str) -> dict[str, Any]:
        """``pod.status`` of a running pod, with an IP address of its own."""
        number = self.pods[self.pod_name(task)]["metadata"]["uid"].removeprefix("pod-")
        return {"phase": "Running", "podIP": f"10.0.0.{number}", "hostIP": "192.0.2.1", "conditions": []}

    def succeed(self, *tasks: str) -> None:
        self.exit_pods(dict.fromkeys(tasks, 0))

    def fail(self, task: str, code: int = 1, **terminated: Any) -> None:
        self.report_status(task, a_terminated_status(code, **terminated))
        self.sync()

    def exit_pods(self, codes: Mapping[str, int]) -> None:
        """The pods of these tasks exit with these codes, all before the next reconcile."""
        for task, code in codes.items():
            self.report_status(task, a_terminated_status(code))
        self.sync()

    def delete_pod(self, task: str) -> None:
        """Deletes the pod of this task, as a user does, and reconciles."""
        self.request_deletion(task)
        self.sync()

    def request_deletion(self, task: str) -> None:
        """Deletes the pod of this task without a reconcile."""
        name = self.pod_name(task)
        self._delete_pod(name, self.pods[name]["metadata"]["uid"])

    def confirm_deletion(self, *tasks: str) -> None:
        """Removes the stuck pods of these tasks, as nodes do that are reachable again."""
        for task in tasks:
            name = self.pod_name(task)
            self.stuck_pods.discard(name)
            self._remove(name)
        self.sync()

    def advance(self, seconds: float) -> None:
        """Advances the clock and retries delayed creations."""
        self.now += seconds
        if self._planner is not None:
            for name in self._to_retry:
                self._planner.enqueue(name)
        self._to_retry.clear()
        self.sync()

    def restart(self) -> None:
        """Restarts the launcher: only stored objects are known."""
        self._planner = None
        self._rejected.clear()
        self._delayed.clear()
        self._to_retry.clear()
        self.records.clear()
        self.recorded_attempt = None
        self._read_outputs.clear()

    def add_pod(self, task: str, **metadata: str) -> None:
        """Stores a pod with the name of the task's pod, with these labels and annotations replaced."""
        role, index = self._role_and_index(task)
        pod = self._template(RoleName(role)).pod(index, 0, 0)
        meta = pod["metadata"]
        for part in ("labels", "annotations"):
            meta = {**meta, part: {key: metadata.get(key, value) for key, value in meta[part].items()}}
        self.store_pod({**pod, "metadata": meta}, uid=f"other-{self._version}")

    # The state of the Framework and its tasks.

    @property
    def status(self) -> FrameworkStatus:
        assert self.framework.status is not None
        return self.framework.status

    @property
    def state(self) -> State:
        return self.status.state

    @property
    def attempt_code(self) -> int | None:
        """The completion code of the current attempt, or None."""
        completion = self.status.attempt.completion
        return None if completion is None else completion.code

    @property
    def final_code(self) -> int | None:
        """The completion code of the Framework, or None while it is not Completed."""
        return self.attempt_code if self.state is State.COMPLETED else None

    @property
    def trigger(self) -> str | None:
        """The task that completed the attempt."""
        trigger = self.status.attempt.trigger
        return None if trigger is None else f"{trigger.role}{trigger.index}"

    @property
    def counters(self) -> tuple[int, int]:
        """The Framework's totalRetriedCount and accountableRetriedCount."""
        return self.status.retry.total, self.status.retry.accountable

    def task(self, short: str) -> TaskStatus:
        name, index = self._role_and_index(short)
        role = self.status.role(name)
        assert role is not None
        return role.tasks[index]

    def task_code(self, short: str) -> int | None:
        completion = self.task(short).attempt.completion
        return None if completion is None else completion.code

    def task_counters(self, short: str) -> tuple[int, int]:
        retry = self.task(short).retry
        return retry.total, retry.accountable

    def tasks(self) -> dict[str, TaskStatus]:
        """Every task in the status."""
        return {f"{role.name}{task.index}": task for role in self.status.roles for task in role.tasks}

    def states(self, short: str = "") -> list[State]:
        """All states of the task, by default of the Framework, in order."""
        if not short:
            return [each.after for each in self.transitions if each.role is None]
        task = self._role_and_index(short)
        return [
            State.CREATION_PENDING,
            *(each.after for each in self.transitions if (each.role, each.index) == task),
        ]

    def pod_name(self, short: str) -> PodName:
        role, index = self._role_and_index(short)
        return pod_name(self.framework.name, RoleName(role), index)

    def pod_uid(self, short: str) -> str:
        """The uid of the task's current pod."""
        return str(self.pods[self.pod_name(short)]["metadata"]["uid"])

    def existing_pods(self) -> set[str]:
        """The tasks that have a pod."""
        return {self._short(name) for name in self.pods}

    # The controller.

    def sync(self, *, until: Callable[[], bool] | None = None) -> None:
        """Reconciles, and confirms deletions of pods, until nothing changes or *until* returns True."""
        for _ in range(100):
            if self.is_deleted or (until is not None and until()):
                return
            if not self.sync_once() and not self._confirm_deletions():
                self._assert_nothing_to_do()
                return
        raise AssertionError("the controller does not stop reconciling")

    def _assert_nothing_to_do(self) -> None:
        """Asserts that a plan from the stored objects has no actions, except creations that are delayed."""
        plan = self.plan()
        assert plan.status == self.framework.status
        left = [action for action in plan.actions if self._pod_to_create(action) not in self._to_retry]
        assert not left, left

    def sync_once(self) -> bool:
        """One reconcile: plan, save, execute. Returns whether anything was saved or executed."""
        result, changed = self._plan_and_save()
        for action in result.actions:
            self._execute(action)
        return changed or bool(result.actions)

    def crash(self, executed: int = 0) -> None:
        """Plans, saves, executes the first *executed* actions, and restarts the launcher."""
        result, _ = self._plan_and_save()
        for action in result.actions[:executed]:
            self._execute(action)
        self.restart()

    def _plan_and_save(self) -> tuple[PlanResult, bool]:
        expected = self.plan()
        planner = self._notified_planner()
        result = planner.plan(
            self.now, jitter=self.jitter, pods_are_live=True, recorded_attempt=self.recorded_attempt
        )
        self._rejected.clear()
        self._delayed.clear()
        assert _storable(planner.status(), self.framework) == _storable(expected.status, self.framework)
        changed = expected.status != self.framework.status
        assert planner.changed == changed, "the planner reports whether the status changed"
        self.transitions.extend(result.transitions)
        self.events.extend(result.events)
        if changed:
            self._save(planner.status())
            planner.mark_saved()
        assert set(result.actions) <= set(expected.actions), "actions are those of a plan from stored objects"
        if expected.requeue_at is not None:
            assert result.requeue_at is not None, "the planner requeues like a plan from stored objects"
            assert result.requeue_at <= expected.requeue_at, "the planner does not requeue too late"
        return result, changed

    def plan(self, *, pods_are_live: bool = True) -> Plan:
        """Returns the plan that follows from the stored objects and the results of creations."""
        pods = [pod_from_json(pod) for pod in self.pods.values()]
        if not (self._rejected or self._delayed or self._read_outputs):
            options, jitter = self.options, self.jitter
            return plan(
                self.framework,
                pods,
                self.now,
                options=options,
                jitter=jitter,
                pods_are_live=pods_are_live,
                recorded_attempt=self.recorded_attempt,
            )
        planner = Planner(self.framework, self.options)
        for pod in pods:
            planner.observe_pod(pod)
        self._report_creations(planner)
        for read in self._read_outputs:
            planner.observe_output(*read)
        result = planner.plan(
            self.now,
            jitter=self.jitter,
            pods_are_live=pods_are_live,
            recorded_attempt=self.recorded_attempt,
        )
        return Plan(planner.status(), result.actions, result.requeue_at)

    def _report_creations(self, planner: Planner) -> None:
        for name, completion in self._rejected.items():
            planner.creation_rejected(name, completion)
        for name, message in self._delayed.items():
            planner.creation_delayed(name, message)

    def _notified_planner(self) -> Planner:
        """Returns the kept planner after it observed all changes, or a new one after a restart."""
        if self._planner is None:
            self._planner = Planner(self.framework, self.options)
        self._planner.update(self.framework)
        pods = {name: pod_from_json(pod) for name, pod in self.pods.items()}
        for name, pod in pods.items():
            if self._planner.pods.get(name) != pod:
                self._planner.observe_pod(pod)
        for name in self._planner.pods.keys() - pods.keys():
            self._planner.pod_deleted(name)
        self._report_creations(self._planner)
        return self._planner

    def _save(self, status: FrameworkStatus) -> None:
        stored = status_to_json(status, self.framework.name, self.framework.uid)
        read = status_from_json(stored)
        assert read == status, "a status is equal after it was stored"
        assert read is not None
        self.saved_statuses.append(read)
        self._update(status=read)

    def _execute(self, action: Action) -> None:
        match action:
            case CreatePod():
                self._create(action)
            case DeletePod(name, uid, force):
                if force:
                    self.force_deleted.append(name)
                    self._remove(name, uid)
                else:
                    self._delete_pod(name, uid)
            case ListPodsLive():
                pass  # here every plan uses the current pods
            case DeleteFramework():
                self.is_deleted = True
            case RecordAttempt():
                self._record_attempt(action)
            case ReadOutput(name, uid):
                assert self._planner is not None
                lines = self.outputs.get(self._short(name), ())
                self._read_outputs.append((name, PodOutput(uid, "".join(lines[-1:]), lines), self.now))
                self._planner.observe_output(*self._read_outputs[-1])

    def _record_attempt(self, action: RecordAttempt) -> None:
        assert self.framework.status is not None
        number = self.framework.status.attempt.id
        assert number not in self.records, "an attempt is recorded once unless the launcher restarts"
        self.records[number] = action
        self.recorded_attempt = number

    def _create(self, action: CreatePod) -> None:
        name = pod_name(self.framework.name, action.role, action.index)
        error = self._creation_error(name)
        match error:
            case Completion():
                self._rejected[name] = error
            case str():
                self._delayed[name] = error
                self._to_retry.add(name)
            case None:
                pod = self._template(action.role).pod(action.index, action.incarnation, action.attempt)
                assert name not in self.pods, "a pod is created only when its name is free"
                self.store_pod(pod, uid=f"pod-{len(self.created_pods)}")
                self.created_pods.append(self.pods[name])
                self.incarnations[pod["metadata"]["annotations"][PodIdentityKey.TASK_UID]] = (
                    action.incarnation
                )

    def _creation_error(self, name: PodName) -> Completion | str | None:
        if name in self.taken_names:
            return f'pods "{name}" already exists'
        return self.creation_errors[name].pop(0) if self.creation_errors.get(name) else None

    def _template(self, name: RoleName) -> PodTemplate:
        framework = self.framework
        return compile_templates(framework, 0 if framework.status is None else framework.status.attempt.id)[
            name
        ]

    def store_pod(self, pod: dict[str, Any], uid: str | None = None) -> None:
        self._version += 1
        meta = {**pod["metadata"], "resourceVersion": str(self._version)}
        if uid is not None:
            meta |= {"uid": uid, "creationTimestamp": format_rfc3339(int(self.now))}
        self.pods[PodName(meta["name"])] = {**pod, "metadata": meta}

    def _delete_pod(self, name: PodName, uid: str) -> None:
        """
        Deletes a pod as kube-apiserver does.

        A pod without a node or in a terminal phase is removed at once, others when their node confirms.
        """
        pod = self.pods.get(name)
        if pod is None or pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]:
            return
        is_terminal = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if (is_terminal or "nodeName" not in pod["spec"]) and name not in self.stuck_pods:
            self._remove(name)
            return
        grace = {"deletionTimestamp": format_rfc3339(int(self.now) + 30), "deletionGracePeriodSeconds": 30}
        self.store_pod({**pod, "metadata": {**pod["metadata"], **grace}})

    def _confirm_deletions(self) -> bool:
        """Removes deleted pods, as their nodes do. Returns whether there were any."""
        deleted = [
            name
            for name, pod in self.pods.items()
            if "deletionTimestamp" in pod["metadata"] and name not in self.stuck_pods
        ]
        for name in deleted:
            self._remove(name)
        return bool(deleted)

    def _remove(self, name: PodName, uid: str | None = None) -> None:
        if uid is None or (name in self.pods and self.pods[name]["metadata"]["uid"] == uid):
            del self.pods[name]

    def _short(self, name: PodName) -> str:
        _, role, index = name.split("-")
        return f"{role}{index}"

    def _role_and_index(self, short: str) -> tuple[str, int]:
        role = short.rstrip("0123456789")
        return role, int(short.removeprefix(role))

    def _pod_to_create(self, action: Action) -> PodName | None:
        if isinstance(action, CreatePod):
            return pod_name(self.framework.name, action.role, action.index)
        return None

    def _update(self, **fields: Any) -> None:
        self.framework = replace(self.framework, **fields)


def _storable(status: FrameworkStatus, framework: Framework) -> dict[str, Any]:
    return status_to_json(status, framework.name, framework.uid)


def new_harness(*roles: TaskRole, options: PlannerOptions = NO_FAILURE_SPEC, **spec: Any) -> PlannerHarness:
    """A harness with a new Framework of these roles, before its first reconcile."""
    framework = Framework(FrameworkName("f"), "default", UID, 1, a_spec(*roles, **spec))
    return PlannerHarness(framework, options)


def running_harness(
    *roles: TaskRole, options: PlannerOptions = NO_FAILURE_SPEC, **spec: Any
) -> PlannerHarness:
    """A harness with a Framework of these roles whose pods are Running."""
    harness = new_harness(*roles, options=options, **spec)
    harness.sync()
    harness.run_pods()
    return harness
