"""
A whole world in memory for tests of the core: one Framework, its pods, a cluster that does as it is told, a clock.

Status goes through its JSON after every plan, as it does in a store, and each plan is made twice: from nothing by
``plan``, and by a ``Planner`` that was kept and told only what changed. Both must say the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.core.completion_codes import Completion
from launcher.core.failures.classifier import FailureClassifier
from launcher.core.framework import Framework
from launcher.core.names import PodIdentityKey, pod_name
from launcher.core.planning.actions import (
    Action,
    CreatePod,
    DeleteFramework,
    DeletePod,
    ListPodsLive,
    ObjectEvent,
    StateTransition,
)
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Plan, Planner, PlanResult, plan
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.pods.pod_template import PodTemplate, compile_templates
from launcher.core.serialization.status_json import status_from_json, status_to_json
from launcher.core.spec import (
    CompletionPolicy,
    ExecutionType,
    FrameworkName,
    FrameworkSpec,
    PodName,
    RetryPolicy,
    RoleName,
    TaskRole,
)
from launcher.core.status import FrameworkStatus, State, TaskStatus
from launcher.core.timestamps import format_rfc3339

START = 1_767_225_600  # 2026-01-01T00:00:00Z

UID = "11111111-2222-3333-4444-555555555555"
#: Where a pod carries its marks.
PARTS = ("labels", "annotations")

#: The reference's scenarios say "no podFailureSpec unless said".
NO_FAILURE_SPEC = PlannerOptions(failures=FailureClassifier.of([]))


def a_role(
    name: str,
    tasks: int = 1,
    *,
    ends: tuple[int, int] = (1, -1),
    retry: tuple[bool, int] = (False, 0),
    **more: Any,
) -> TaskRole:
    """A role; *ends* is (minFailedTaskCount, minSucceededTaskCount), *retry* is (fancy, maxRetryCount)."""
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    policy = CompletionPolicy(*ends, succeeded_indexes=more.pop("succeeded_indexes", frozenset()))
    return TaskRole(RoleName(name), tasks, pod, policy, RetryPolicy(*retry), **more)


def a_spec(*roles: TaskRole, retry: tuple[bool, int] = (False, 0), **more: Any) -> FrameworkSpec:
    """A spec of these roles; one worker if none is named."""
    return FrameworkSpec(roles or (a_role("w"),), retry=RetryPolicy(*retry), **more)


def an_ended_status(code: int, **container: Any) -> dict[str, Any]:
    """``pod.status`` after its one container has ended."""
    terminated = {"exitCode": code, **container}
    return {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "c", "state": {"terminated": terminated}}],
    }


@dataclass
class World:
    """One Framework called ``f`` and everything around it."""

    framework: Framework
    rules: PlannerOptions = NO_FAILURE_SPEC
    now: float = START
    chance: float = 0.0
    pods: dict[PodName, dict[str, Any]] = field(default_factory=dict)
    #: Every pod ever created, by uid.
    made: list[dict[str, Any]] = field(default_factory=list)
    #: Which incarnation each task uid in a pod stands for.
    incarnations: dict[str, int] = field(default_factory=dict)
    steps: list[StateTransition] = field(default_factory=list)
    notices: list[ObjectEvent] = field(default_factory=list)
    #: What to answer to the creation of a pod instead of creating it, once each: words mean "not now".
    refusals: dict[PodName, list[Completion | str]] = field(default_factory=dict)
    #: Names that pods of somebody else hold.
    taken: set[PodName] = field(default_factory=set)
    #: Pods whose nodes do not answer: their deletion hangs.
    stuck: set[PodName] = field(default_factory=set)
    #: Every status as it was saved.
    saved: list[FrameworkStatus] = field(default_factory=list)
    forced: list[PodName] = field(default_factory=list)
    gone: bool = False
    #: What the launcher was told about creations and has not thought through yet.
    _refused: dict[PodName, Completion] = field(default_factory=dict)
    _notes: dict[PodName, str] = field(default_factory=dict)
    #: Creations to try again when time has passed.
    _later: set[PodName] = field(default_factory=set)
    _planner: Planner | None = None
    _version: int = 0

    # What users and the cluster do.

    def edit(self, **spec: Any) -> None:
        """The user changes members of the spec."""
        self._update(spec=replace(self.framework.spec, **spec), generation=self.framework.generation + 1)

    def edit_role(self, name: str, **members: Any) -> None:
        """The user changes members of one role; ``ends`` as for ``a_role``."""
        if "ends" in members:
            members["completion"] = CompletionPolicy(*members.pop("ends"))
        roles = tuple(replace(r, **members) if r.name == name else r for r in self.framework.spec.roles)
        self.edit(roles=roles)

    def stop(self) -> None:
        self.edit(execution=ExecutionType.STOP)

    def delete_framework(self) -> None:
        """Foreground deletion: the Framework is marked, the garbage collector takes its pods."""
        self._update(deleting=True)
        for name in list(self.pods):
            self._ask_deletion(name, self.pods[name]["metadata"]["uid"])

    def status_of(self, task: str, status: Mapping[str, Any], *, node: str = "n1") -> None:
        """The kubelet reports ``pod.status`` of one pod, by its short name such as ``w0``."""
        name = self.pod(task)
        old = self.pods[name]
        self._put_pod({**old, "spec": {**old["spec"], "nodeName": node}, "status": dict(status)})

    def run(self, *tasks: str) -> None:
        """The pods of these tasks (of all, if none is named) reach Running."""
        for task in tasks or [self._short(name) for name in self.pods]:
            self.status_of(task, self.a_running_status(task))
        self.sync()

    def ready(self, *tasks: str) -> None:
        """The pods of these tasks run and answer their readiness probes."""
        for task in tasks:
            condition = {"type": "Ready", "status": "True"}
            self.status_of(task, {**self.a_running_status(task), "conditions": [condition]})
        self.sync()

    def a_running_status(self, task: str) -> dict[str, Any]:
        """``pod.status`` of a pod that runs, with addresses of its own."""
        number = self.pods[self.pod(task)]["metadata"]["uid"].removeprefix("pod-")
        return {"phase": "Running", "podIP": f"10.0.0.{number}", "hostIP": "192.0.2.1", "conditions": []}

    def ok(self, *tasks: str) -> None:
        """The pods of these tasks succeed."""
        self.end(dict.fromkeys(tasks, 0))

    def fail(self, task: str, code: int = 1, **container: Any) -> None:
        """The pod of this task fails."""
        self.status_of(task, an_ended_status(code, **container))
        self.sync()

    def end(self, codes: Mapping[str, int]) -> None:
        """The pods of these tasks end with these exit codes, all before the launcher looks again."""
        for task, code in codes.items():
            self.status_of(task, an_ended_status(code))
        self.sync()

    def delete_pod(self, task: str) -> None:
        """Somebody else deletes the pod of this task."""
        self.ask_deletion(task)
        self.sync()

    def ask_deletion(self, task: str) -> None:
        """The same, before the launcher has looked again."""
        name = self.pod(task)
        self._ask_deletion(name, self.pods[name]["metadata"]["uid"])

    def confirm(self, *tasks: str) -> None:
        """The nodes of these tasks' pods answer at last: the pods are gone."""
        for task in tasks:
            name = self.pod(task)
            self.stuck.discard(name)
            self._remove(name)
        self.sync()

    def after(self, seconds: float) -> None:
        """Time passes, and what was not possible before is tried again."""
        self.now += seconds
        if self._planner is not None:
            for name in self._later:
                self._planner.attempt_state.enqueue(name)
        self._later.clear()
        self.sync()

    def restart(self) -> None:
        """The launcher dies and starts again: only what was saved is known."""
        self._planner = None
        for told in (self._refused, self._notes, self._later):
            told.clear()

    def put(self, task: str, **marks: str) -> None:
        """A pod of this task's name appears, made by somebody who wrote *marks* over its labels and annotations."""
        role, index = self._place(task)
        pod = self._template(RoleName(role)).pod(index, 0, 0)
        meta = pod["metadata"]
        labels, notes = (
            {**meta[part], **{k: v for k, v in marks.items() if k in meta[part]}} for part in PARTS
        )
        made = {**meta, "labels": labels, "annotations": notes}
        self._put_pod({**pod, "metadata": made}, uid=f"other-{self._version}")

    # What tests ask.

    @property
    def status(self) -> FrameworkStatus:
        assert self.framework.status is not None
        return self.framework.status

    @property
    def state(self) -> State:
        return self.status.state

    @property
    def code(self) -> int | None:
        end = self.status.attempt.completion
        return None if end is None else end.code

    @property
    def done(self) -> int | None:
        """The code with which the Framework is Completed; None while it is not."""
        return self.code if self.state is State.COMPLETED else None

    @property
    def trigger(self) -> str | None:
        """The short name of the task that ended the attempt."""
        trigger = self.status.attempt.trigger
        return None if trigger is None else f"{trigger.role}{trigger.index}"

    @property
    def counters(self) -> tuple[int, int]:
        """The Framework's totalRetriedCount and accountableRetriedCount."""
        return self.status.retry.total, self.status.retry.accountable

    def task(self, short: str) -> TaskStatus:
        name, index = self._place(short)
        role = self.status.role(name)
        assert role is not None
        return role.tasks[index]

    def task_code(self, short: str) -> int | None:
        end = self.task(short).attempt.completion
        return None if end is None else end.code

    def task_counters(self, short: str) -> tuple[int, int]:
        retry = self.task(short).retry
        return retry.total, retry.accountable

    def tasks(self) -> dict[str, TaskStatus]:
        """Every task in the status, by short name."""
        return {f"{role.name}{task.index}": task for role in self.status.roles for task in role.tasks}

    def states(self, short: str = "") -> list[State]:
        """Every state that the task (the Framework, if none is named) has been in, in order."""
        if not short:
            return [step.after for step in self.steps if step.role is None]
        steps = [step.after for step in self.steps if (step.role, step.index) == self._place(short)]
        return [State.CREATION_PENDING, *steps]

    def pod(self, short: str) -> PodName:
        role, index = self._place(short)
        return pod_name(self.framework.name, RoleName(role), index)

    def uid(self, short: str) -> str:
        """The uid of the pod of this task that is there now."""
        return str(self.pods[self.pod(short)]["metadata"]["uid"])

    def live(self) -> set[str]:
        """Short names of the pods that are there."""
        return {self._short(name) for name in self.pods}

    # The launcher.

    def sync(self, *, until: Callable[[], bool] | None = None) -> None:
        """Plan, save, act, as often as there is something to do, and confirm what nodes confirm at once."""
        for _ in range(100):
            if self.gone or (until is not None and until()):
                return
            if not self.sync_once() and not self._kubelets():
                self._assert_rest()
                return
        raise AssertionError("the launcher does not come to rest")

    def _assert_rest(self) -> None:
        """A plan made from nothing finds nothing left to do, but for creations that are not possible yet."""
        again = self.plan()
        assert again.status == self.framework.status
        left = [action for action in again.actions if self._name_of(action) not in self._later]
        assert not left, left

    def sync_once(self) -> bool:
        """One look: plan, save, act. True when anything was saved or done."""
        look, changed = self._look()
        for action in look.actions:
            self._take(action)
        return changed or bool(look.actions)

    def crash(self, done: int = 0) -> None:
        """The launcher looks, saves, does the first *done* of its actions, and dies."""
        look, _ = self._look()
        for action in look.actions[:done]:
            self._take(action)
        self.restart()

    def _look(self) -> tuple[PlanResult, bool]:
        again = self.plan()
        planner = self._told()
        look = planner.plan(self.now, chance=self.chance, fresh=True)
        self._refused.clear()
        self._notes.clear()
        assert _storable(planner.status(), self.framework) == _storable(again.status, self.framework)
        changed = again.status != self.framework.status
        assert planner.changed == changed, "a planner knows whether there is something to save"
        self.steps.extend(look.steps)
        self.notices.extend(look.notices)
        if changed:
            self._save(planner.status())
            planner.mark_saved()
        assert set(look.actions) <= set(again.actions), (
            "a planner does nothing that a plan from nothing would not"
        )
        if again.requeue_at is not None:
            assert look.requeue_at is not None, "a planner wakes when a plan from nothing would"
            assert look.requeue_at <= again.requeue_at, "a planner never oversleeps"
        return look, changed

    def plan(self, *, fresh: bool = True) -> Plan:
        """What a launcher that knows only what is stored would do now; *fresh* as for ``plan``."""
        pods = [pod_from_json(pod) for pod in self.pods.values()]
        if not (self._refused or self._notes):
            rules, chance = self.rules, self.chance
            return plan(self.framework, pods, self.now, rules=rules, chance=chance, fresh=fresh)
        planner = Planner(self.framework, self.rules)
        for pod in pods:
            planner.attempt_state.observe_pod(pod)
        self._tell(planner)
        look = planner.plan(self.now, chance=self.chance, fresh=fresh)
        return Plan(planner.status(), look.actions, look.requeue_at)

    def _tell(self, planner: Planner) -> None:
        """How creations went."""
        for name, completion in self._refused.items():
            planner.attempt_state.reject_creation(name, completion)
        for name, message in self._notes.items():
            planner.attempt_state.set_creation_message(name, message)

    def _told(self) -> Planner:
        """The kept planner, told of every difference; or a new one after a restart."""
        if self._planner is None:
            self._planner = Planner(self.framework, self.rules)
        board = self._planner.attempt_state
        self._planner.update(self.framework)
        pods = {name: pod_from_json(pod) for name, pod in self.pods.items()}
        for name, pod in pods.items():
            if board.pods.get(name) != pod:
                board.observe_pod(pod)
        for name in board.pods.keys() - pods.keys():
            board.pod_deleted(name)
        self._tell(self._planner)
        return self._planner

    def _save(self, status: FrameworkStatus) -> None:
        stored = status_to_json(status, self.framework.name, self.framework.uid)
        read = status_from_json(stored)
        assert read == status, "a status says the same after it was stored"
        assert read is not None
        self.saved.append(read)
        self._update(status=read)

    def _take(self, action: Action) -> None:
        match action:
            case CreatePod():
                self._create(action)
            case DeletePod(name, uid, force):
                if force:
                    self.forced.append(name)
                    self._remove(name, uid)
                else:
                    self._ask_deletion(name, uid)
            case ListPodsLive():
                pass  # in this world every look is a fresh one
            case DeleteFramework():
                self.gone = True

    def _create(self, action: CreatePod) -> None:
        name = pod_name(self.framework.name, action.role, action.index)
        refusal = self._refusal(name)
        match refusal:
            case Completion():
                self._refused[name] = refusal
            case str():
                self._notes[name] = refusal
                self._later.add(name)
            case None:
                pod = self._template(action.role).pod(action.index, action.incarnation, action.attempt)
                assert name not in self.pods, "a pod is created only when its name is free"
                self._put_pod(pod, uid=f"pod-{len(self.made)}")
                self.made.append(self.pods[name])
                self.incarnations[pod["metadata"]["annotations"][PodIdentityKey.TASK_UID]] = (
                    action.incarnation
                )

    def _refusal(self, name: PodName) -> Completion | str | None:
        if name in self.taken:
            return f'pods "{name}" already exists'
        return self.refusals[name].pop(0) if self.refusals.get(name) else None

    def _template(self, name: RoleName) -> PodTemplate:
        framework = self.framework
        return compile_templates(framework, 0 if framework.status is None else framework.status.attempt.id)[
            name
        ]

    def _put_pod(self, pod: dict[str, Any], uid: str | None = None) -> None:
        self._version += 1
        meta = {**pod["metadata"], "resourceVersion": str(self._version)}
        if uid is not None:
            meta |= {"uid": uid, "creationTimestamp": format_rfc3339(int(self.now))}
        self.pods[PodName(meta["name"])] = {**pod, "metadata": meta}

    def _ask_deletion(self, name: PodName, uid: str) -> None:
        """As kube-apiserver: a pod that is on no node, or has ended, goes at once; others when their node confirms."""
        pod = self.pods.get(name)
        if pod is None or pod["metadata"]["uid"] != uid or "deletionTimestamp" in pod["metadata"]:
            return
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if (ended or "nodeName" not in pod["spec"]) and name not in self.stuck:
            self._remove(name)
            return
        grace = {"deletionTimestamp": format_rfc3339(int(self.now) + 30), "deletionGracePeriodSeconds": 30}
        self._put_pod({**pod, "metadata": {**pod["metadata"], **grace}})

    def _kubelets(self) -> bool:
        """Nodes confirm the end of the pods that they were asked to stop."""
        ends = [
            n
            for n, pod in self.pods.items()
            if "deletionTimestamp" in pod["metadata"] and n not in self.stuck
        ]
        for name in ends:
            self._remove(name)
        return bool(ends)

    def _remove(self, name: PodName, uid: str | None = None) -> None:
        if uid is None or (name in self.pods and self.pods[name]["metadata"]["uid"] == uid):
            del self.pods[name]

    def _short(self, name: PodName) -> str:
        _, role, index = name.split("-")
        return f"{role}{index}"

    def _place(self, short: str) -> tuple[str, int]:
        """``w0`` is task 0 of role w."""
        role = short.rstrip("0123456789")
        return role, int(short.removeprefix(role))

    def _name_of(self, action: Action) -> PodName | None:
        if isinstance(action, CreatePod):
            return pod_name(self.framework.name, action.role, action.index)
        return None

    def _update(self, **members: Any) -> None:
        self.framework = replace(self.framework, **members)


def _storable(status: FrameworkStatus, framework: Framework) -> dict[str, Any]:
    return status_to_json(status, framework.name, framework.uid)


def a_world(*roles: TaskRole, rules: PlannerOptions = NO_FAILURE_SPEC, **spec: Any) -> World:
    """A Framework ``f`` of these roles that was just created, and nothing else."""
    framework = Framework(FrameworkName("f"), "default", UID, 1, a_spec(*roles, **spec))
    return World(framework, rules)


def running(*roles: TaskRole, rules: PlannerOptions = NO_FAILURE_SPEC, **spec: Any) -> World:
    """The same, with every pod Running."""
    world = a_world(*roles, rules=rules, **spec)
    world.sync()
    world.run()
    return world
