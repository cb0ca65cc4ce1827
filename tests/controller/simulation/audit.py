"""What must hold whatever goes wrong. Every write to the store is judged at the moment it takes effect."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.controller.framework_state import framework_from_json
from launcher.core.completion_codes import Code
from launcher.core.names import TaskIdentity
from launcher.core.planning.gang import GANG_PLACED, is_placed, is_unplaced
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import plan
from launcher.core.pods.observed_pod import ENDED, ObservedPod, pod_from_json
from launcher.core.spec import CleanPodPolicy, FrameworkSpec
from launcher.core.status import FRAMEWORK_STEPS, TASK_STEPS, FrameworkStatus, State, TaskStatus
from launcher.store.interface import FRAMEWORKS, PODS, Object

Uid = str

_OVER = (State.ATTEMPT_COMPLETED, State.COMPLETED)


class Broken(AssertionError):
    """A promise was broken."""


@dataclass
class PodStory:
    """What is known of one pod that ever was."""

    owner: Uid
    of: TaskIdentity
    live: bool = True
    #: Somebody has asked for its deletion, or it is gone.
    unwanted: bool = False
    #: It was created after its attempt was over, by a call that came through late; it must go, but may have been.
    late: bool = False


@dataclass
class Auditor:
    """Sees every write, and says so when one breaks a promise."""

    #: Framework uid -> what is stored of it.
    statuses: dict[Uid, FrameworkStatus] = field(default_factory=dict)
    specs: dict[Uid, FrameworkSpec] = field(default_factory=dict)
    stories: dict[Uid, PodStory] = field(default_factory=dict)
    of_framework: dict[Uid, list[Uid]] = field(default_factory=lambda: defaultdict(list))
    edited: set[Uid] = field(default_factory=set)
    deleted: set[Uid] = field(default_factory=set)

    def __call__(self, resource: str, gone: bool, obj: Object) -> None:
        if resource == PODS.resource:
            self._pod(gone, obj)
        elif resource == FRAMEWORKS.resource:
            self._framework(gone, obj)

    def _pod(self, gone: bool, obj: Object) -> None:
        pod = pod_from_json(obj)
        if not pod.owner:
            return
        known = self.stories.get(pod.uid)
        if known is None:
            self._created(pod)
        else:
            known.live = not gone and pod.phase not in ENDED
            known.unwanted |= gone or pod.deleting

    def _created(self, pod: ObservedPod) -> None:
        if pod.task is None:
            raise Broken(f"pod {pod.name} was created without saying whose it is")
        status = self.statuses.get(pod.owner)
        late = status is None or self._comes_late(pod.uid, pod.task, status)
        if status is not None and status.attempt.id < pod.task.framework_attempt:
            raise Broken(f"pod {pod.name} was created before its attempt was saved")
        if not late and status is not None:
            task = _task(status, pod.task)
            if task is not None and task.retry.total < pod.task.task_attempt:
                raise Broken(f"pod {pod.name} was created before its try was saved")
            for other in map(self.stories.__getitem__, self.of_framework[pod.owner]):
                if other.live and not other.late and other.of.framework_attempt < pod.task.framework_attempt:
                    raise Broken(f"pod {pod.name} was created while {other.of} of an earlier attempt lives")
        self.stories[pod.uid] = PodStory(pod.owner, pod.task, late=late)
        self.of_framework[pod.owner].append(pod.uid)

    def _comes_late(self, uid: Uid, of: TaskIdentity, status: FrameworkStatus) -> bool:
        """Whether the try that the pod was created for was over, or had its pod already."""
        if status.attempt.id != of.framework_attempt or status.state in _OVER:
            return True
        task = _task(status, of)
        return task is not None and (
            task.retry.total > of.task_attempt
            or (task.retry.total == of.task_attempt and task.state in _OVER)
            or (task.retry.total == of.task_attempt and task.attempt.pod_uid not in (None, uid))
        )

    def _framework(self, gone: bool, obj: Object) -> None:
        framework = framework_from_json(obj)
        uid = framework.uid
        if gone:
            self.deleted.add(uid)
            return
        if uid in self.specs and self.specs[uid] != framework.spec:
            self.edited.add(uid)
        self.specs[uid] = framework.spec
        before, after = self.statuses.get(uid), framework.status
        if after is None:
            if before is not None:
                raise Broken(f"the status of {framework.name} was lost")
            return
        self._names_only_pods_that_were(framework.name, after)
        if before is not None and before != after:
            self._follows(framework.name, before, after)
        if after.state in _OVER and (before is None or before.state != after.state):
            self._nothing_runs(framework.name, uid, after)
        self.statuses[uid] = after

    def _names_only_pods_that_were(self, name: str, status: FrameworkStatus) -> None:
        for role in status.roles:
            for task in role.tasks:
                uid = task.attempt.pod_uid
                if uid is None:
                    continue
                story = self.stories.get(uid)
                if story is None or (story.of.role, story.of.index) != (role.name, task.index):
                    raise Broken(
                        f"status of {name} names a pod of {role.name}[{task.index}] that never was: {uid}"
                    )
                end = task.attempt.completion
                if end is not None and end.code == Code.POD_EXTERNAL_DELETED and not story.unwanted:
                    raise Broken(
                        f"{name} {role.name}[{task.index}] takes its pod for deleted, and nobody deleted it"
                    )
                if (story.of.framework_attempt, story.of.task_attempt) != (
                    status.attempt.id,
                    task.retry.total,
                ):
                    raise Broken(
                        f"status of {name} in attempt {status.attempt.id} names in {task} a pod of {story.of}"
                    )

    def _follows(self, name: str, before: FrameworkStatus, after: FrameworkStatus) -> None:
        """Whether a status may come after another."""
        if before.state is State.COMPLETED:
            raise Broken(f"{name} was Completed and changed: {before.message!r} -> {after.message!r}")
        if after.attempt.id not in (before.attempt.id, before.attempt.id + 1):
            raise Broken(f"{name} went from attempt {before.attempt.id} to {after.attempt.id}")
        if after.retry.total != after.attempt.id:
            raise Broken(f"{name} counts {after.retry.total} retries in attempt {after.attempt.id}")
        if after.attempt.id == before.attempt.id:
            if not _reaches(FRAMEWORK_STEPS, before.state, after.state):
                raise Broken(f"{name} went from {before.state} to {after.state}")
            if is_placed(before) and is_unplaced(after):
                raise Broken(f"the gang of {name} was placed, and waits again")
            was, now = before.attempt.completion, after.attempt.completion
            if was is not None and was != now and now is not None and now.code not in (-210, -211):
                raise Broken(f"the end of {name}'s attempt was written twice: {was} -> {now}")
            self._tasks_follow(name, before, after)
        elif before.state is not State.ATTEMPT_COMPLETED and before.attempt.completion is None:
            # Only what was saved can be seen here, so the end itself may have been passed over unseen.
            raise Broken(f"{name} began attempt {after.attempt.id} though the one before had no end")

    def _tasks_follow(self, name: str, before: FrameworkStatus, after: FrameworkStatus) -> None:
        for role in after.roles:
            old = before.role(role.name)
            for task, was in zip(role.tasks, old.tasks if old is not None else (), strict=False):
                if task.incarnation != was.incarnation:
                    continue
                if task.retry.total < was.retry.total or task.retry.accountable < was.retry.accountable:
                    raise Broken(f"{name} {role.name}[{task.index}] counts backwards")
                if was.deletion_pending and not task.deletion_pending:
                    raise Broken(f"{name} {role.name}[{task.index}] came back from deletion")
                same_try = task.retry.total == was.retry.total
                if same_try and not _reaches(
                    TASK_STEPS, was.state, task.state, without=State.CREATION_PENDING
                ):
                    raise Broken(f"{name} {role.name}[{task.index}] went from {was.state} to {task.state}")
                if (
                    same_try
                    and was.attempt.completion is not None
                    and was.attempt.completion != task.attempt.completion
                ):
                    raise Broken(f"the end of {name} {role.name}[{task.index}] was written twice")

    def _nothing_runs(self, name: str, uid: Uid, status: FrameworkStatus) -> None:
        if self.specs[uid].clean_pods is CleanPodPolicy.NONE:
            return
        for story in map(self.stories.__getitem__, self.of_framework[uid]):
            if story.live and not story.late:
                raise Broken(
                    f"{name} is {status.state} while a pod of {story.of.role}[{story.of.index}] lives"
                )

    # At the end of a run.

    def check_end(
        self, frameworks: list[Object], pods: list[Object], now: float, rules: PlannerOptions
    ) -> None:
        """What must hold once everything has come to rest."""
        by_uid = {obj["metadata"]["uid"]: obj for obj in frameworks}
        lost = set(self.specs) - set(by_uid) - self.deleted
        if lost:
            raise Broken(f"Frameworks are gone that nobody deleted: {lost}")
        seen = [pod_from_json(pod) for pod in pods]
        for uid, obj in by_uid.items():
            framework = framework_from_json(obj)
            name, status = framework.name, framework.status
            if status is None or status.state is not State.COMPLETED:
                raise Broken(f"{name} is stuck in {status and status.state}: {status and status.message}")
            own = [pod for pod in seen if pod.owner == uid]
            for pod in own:
                if not pod.ended and framework.spec.clean_pods is not CleanPodPolicy.NONE:
                    raise Broken(f"{name} is Completed and its pod {pod.name} still runs")
            again = plan(framework, own, now, rules=rules)
            if again.actions or again.status != status:
                raise Broken(f"a second plan for {name} finds more to do: {again.actions}")
            if uid not in self.edited:
                self._follows_from_its_tasks(name, framework.spec, status)
                self._waited_for_its_gang(name, framework.spec, status)
                self._counts_its_attempts(name, uid, framework.spec, status)
        for pod in seen:
            if pod.owner and pod.owner not in by_uid:
                raise Broken(f"pod {pod.name} has no owner any more")

    def _follows_from_its_tasks(self, name: str, spec: FrameworkSpec, status: FrameworkStatus) -> None:
        """A second opinion on the end of an attempt, from the ends of its tasks alone."""
        end = status.attempt.completion
        if end is None:
            raise Broken(f"{name} is Completed without an end")
        if end.code in (-210, -211, Code.GANG_TIMEOUT):
            return
        fired: set[int] = set()
        counted = [role for role in spec.roles if not role.background]
        for role in counted:
            tasks = next(known.tasks for known in status.roles if known.name == role.name)
            ends = [task.attempt.completion for task in tasks if task.state is State.COMPLETED]
            codes = [e.code for e in ends if e is not None and e.code != -220]
            failed, succeeded = [c for c in codes if c], [c for c in codes if not c]
            if 1 <= role.completion.min_failed <= len(failed):
                fired.update(failed)
            if 1 <= role.completion.min_succeeded <= len(succeeded):
                fired.add(0)
            if len(codes) == len(tasks):
                continue
            if not fired and not any(r.completion.min_failed >= 1 for r in counted):
                raise Broken(f"{name} ended with {end.code} though {role.name} had not ended")
        if fired and end.code not in fired:
            raise Broken(f"{name} ended with {end.code}, its tasks say {fired}")
        if not fired and end.code != 0:
            raise Broken(f"{name} ended with {end.code} though no rule was met")

    def _waited_for_its_gang(self, name: str, spec: FrameworkSpec, status: FrameworkStatus) -> None:
        end = status.attempt.completion
        if end is None or end.code != Code.GANG_TIMEOUT:
            return
        told = status.condition(GANG_PLACED)
        if spec.gang is None or spec.gang.timeout_seconds is None or told is None or told.status:
            raise Broken(f"{name} ended for a gang that did not wait")
        if status.attempt.completion_time is not None:
            waited = status.attempt.completion_time - told.since
            if waited < spec.gang.timeout_seconds:
                raise Broken(f"the gang of {name} had to be placed within {waited} s")

    def _counts_its_attempts(self, name: str, uid: Uid, spec: FrameworkSpec, status: FrameworkStatus) -> None:
        stories = [self.stories[pod] for pod in self.of_framework[uid]]
        attempts = {story.of.framework_attempt for story in stories}
        end = status.attempt.completion
        # It may have been over before a pod of it was accepted.
        stopped = end is not None and end.code in (-210, -211, Code.GANG_TIMEOUT)
        if attempts and max(attempts) != status.retry.total and not stopped:
            raise Broken(f"{name} counts {status.retry.total} retries, its pods tell of {sorted(attempts)}")
        if 0 <= spec.retry.max_retries < status.retry.accountable:
            raise Broken(
                f"{name} was retried {status.retry.accountable} times, {spec.retry.max_retries} were allowed"
            )
        for role in spec.roles:
            known = status.role(role.name)
            for task in known.tasks if known is not None else ():
                if 0 <= role.retry.max_retries < task.retry.accountable:
                    raise Broken(f"{name} {role.name}[{task.index}] was retried too often")
                tries = {
                    story.of.task_attempt
                    for story in stories
                    if (story.of.framework_attempt, story.of.role, story.of.index)
                    == (status.attempt.id, role.name, task.index)
                }
                if tries and max(tries) > task.retry.total:
                    raise Broken(f"{name} {role.name}[{task.index}] had more tries than it counts")


def _task(status: FrameworkStatus, of: TaskIdentity) -> TaskStatus | None:
    role = status.role(of.role)
    return role.tasks[of.index] if role is not None and of.index < len(role.tasks) else None


def _reaches(
    steps: Mapping[State, frozenset[State]], before: State, after: State, without: State | None = None
) -> bool:
    """Whether legal steps lead from one state to the other; several may lie between two saved statuses."""
    reached, todo = {before}, [before]
    while todo:
        for state in steps[todo.pop()]:
            if state not in reached and state is not without:
                reached.add(state)
                todo.append(state)
    return after in reached
