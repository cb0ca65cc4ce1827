"""The state of one Framework in the controller."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from launcher.controller.attempt_hook import AttemptHook, pod_overlays
from launcher.controller.retry_state import RetryState
from launcher.controller.status_writer import StatusWriter
from launcher.core.attempt_record import framework_attempt_to_json
from launcher.core.completion_codes import Completion
from launcher.core.errors import FieldError
from launcher.core.events import ObjectEvent, framework_reference
from launcher.core.framework import Framework
from launcher.core.names import BACKEND_LABEL
from launcher.core.planning.actions import CreatePod, RecordAttempt
from launcher.core.planning.gang import is_placed, is_unplaced
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import Planner, PlanResult
from launcher.core.planning.progress import PodOutput
from launcher.core.pods.observed_pod import ObservedPod, is_deleted
from launcher.core.pods.pod_template import PodTemplate, compile_templates
from launcher.core.serialization.framework_json import framework_from_json
from launcher.core.serialization.status_json import status_to_json
from launcher.core.spec import ExecutionType, PodName, RoleName, TaskRole
from launcher.core.status import State
from launcher.store.interface import Key, Object, key_of

#: Returns all validation errors of a Framework; empty if it is valid.
Validator = Callable[[Object], Sequence[FieldError]]

#: Maximum length of the validation errors in status and event, which is the maximum of an event.
_MAX_ERROR_LENGTH = 1024


class FrameworkState:
    """
    The planner, the status writer, the retries and the pod templates of one Framework.

    The planner owns the status as long as no other client writes one; ``observe_framework`` and
    ``resolve_status_write`` detect such writes.
    """

    def __init__(
        self, obj: Object, options: PlannerOptions, pods: Iterable[ObservedPod], validate: Validator
    ) -> None:
        self._options, self._validate = options, validate
        self.key: Key = key_of(obj)
        self.retry = RetryState()
        self.writer = StatusWriter(obj)
        #: The id of the attempt whose FrameworkAttempt is stored.
        self._recorded_attempt: int | None = None
        self._templates: dict[RoleName, PodTemplate] = {}
        #: The attempt and generation that the templates are for; for a gang also its completed tasks and placement.
        self._prepared_for: tuple[int, int, int, bool] | None = None
        self._load(obj, pods)

    def _load(self, obj: Object, pods: Iterable[ObservedPod]) -> None:
        framework = self._parse(obj)
        self._planner = Planner(framework, self._options)
        # The planner owns the status; a second copy would only use memory.
        self.framework = replace(framework, status=None)
        for pod in pods:
            self._planner.observe_pod(pod)

    def _parse(self, obj: Object) -> Framework:
        """
        Parses the Framework with its status.

        A generation that was validated before is not validated again, so that newer rules do not stop a running job.
        """
        observed_generation = (obj.get("status") or {}).get("observedGeneration")
        return framework_from_json(
            obj, "" if observed_generation == obj["metadata"]["generation"] else self._validation_errors(obj)
        )

    def _validation_errors(self, obj: Object) -> str:
        errors = self._validate({name: value for name, value in obj.items() if name != "status"})
        return "; ".join(map(str, errors))[:_MAX_ERROR_LENGTH]

    @property
    def uid(self) -> str:
        return self.framework.uid

    @property
    def reference(self) -> Object:
        """The object reference for events."""
        return framework_reference(*self.key, self.uid)

    @property
    def state(self) -> State:
        return self._planner.state

    @property
    def is_completed(self) -> bool:
        return self._planner.is_completed

    @property
    def task_count(self) -> int:
        """The number of tasks in the status."""
        return self._planner.task_count

    @property
    def is_starting(self) -> bool:
        """Whether pods exist and no task of the current attempt has run."""
        return bool(self._planner.pods) and not self._planner.has_run

    @property
    def has_queued_tasks(self) -> bool:
        """Whether another planning pass has something to do."""
        return self._planner.has_queued

    @property
    def pod_names(self) -> list[PodName]:
        """The names of all observed pods."""
        return list(self._planner.pods)

    def pod(self, name: PodName) -> ObservedPod | None:
        return self._planner.pods.get(name)

    # Observations.

    def observe_framework(self, obj: Object) -> bool:
        """Records a stored version of the Framework. Returns whether it has to be reconciled."""
        if self.writer.is_older(obj):
            return False
        if not self.writer.observe(obj):
            self.writer.adopt(obj)
            self._load(obj, list(self._planner.pods.values()))
            return True
        meta = obj["metadata"]
        if (meta["generation"], is_deleted(obj)) == (self.framework.generation, self.framework.deleting):
            return False
        self.framework = framework_from_json({**obj, "status": None}, self._validation_errors(obj))
        self._planner.update(self.framework)
        return True

    def observe_pod(self, pod: ObservedPod) -> None:
        self._planner.observe_pod(pod)

    def pod_deleted(self, name: PodName) -> bool:
        """Records that the pod no longer exists. Returns whether it had been observed."""
        if name not in self._planner.pods:
            return False
        self._planner.pod_deleted(name)
        return True

    @property
    def running_pods(self) -> list[PodName]:
        """The names of all pods that run and are not being deleted."""
        pods = self._planner.pods.items()
        return [name for name, pod in pods if pod.phase == "Running" and not pod.deleting]

    def containers_of(self, name: PodName) -> list[str]:
        """The names of the containers in the template of that pod, without init containers."""
        role = self._role_of(name)
        spec = (role.pod.get("spec") or {}) if role is not None else {}
        return [container["name"] for container in spec.get("containers") or ()]

    def has_stalled(self, name: PodName) -> bool:
        """Whether the task of that pod fails because it has stalled."""
        return self._planner.has_stalled(name)

    def observe_output(self, name: PodName, output: PodOutput, now: float) -> None:
        """Records the output of the pod, read at *now*."""
        self._planner.observe_output(name, output, now)

    def _role_of(self, name: PodName) -> TaskRole | None:
        pod = self.pod(name)
        if pod is None or pod.task is None:
            return None
        role_name = pod.task.role
        return next((role for role in self.framework.spec.roles if role.name == role_name), None)

    def creation_rejected(self, name: PodName, completion: Completion) -> None:
        """Completes the task attempt whose pod can never be created."""
        self._planner.creation_rejected(name, completion)

    def creation_delayed(self, name: PodName, message: str) -> None:
        """Retries the creation of the pod later; *message* becomes that of the task."""
        self._planner.creation_delayed(name, message)
        self.retry.retry_pod(name)

    def add_event(self, event: ObjectEvent) -> None:
        """Records an event with the next planning pass."""
        self._planner.add_event(event)

    # Planning and saving.

    def plan(self, now: float, *, jitter: float = 0.0, pods_are_live: bool = False) -> PlanResult:
        """Runs one planning pass."""
        return self._planner.plan(
            now, jitter=jitter, pods_are_live=pods_are_live, recorded_attempt=self._recorded_attempt
        )

    def attempt_record(self, action: RecordAttempt) -> Object | None:
        """Returns the FrameworkAttempt to store; None if another leader has started the next attempt since the plan."""
        if (self._planner.attempt, self.state) != (action.attempt, State.ATTEMPT_COMPLETED):
            return None
        return framework_attempt_to_json(self.framework, self._planner.status(), action)

    def attempt_recorded(self, attempt: int) -> None:
        """Records that the FrameworkAttempt of that attempt is stored: the next one may start."""
        self._recorded_attempt = attempt
        self._planner.enqueue_all()

    def requeue_task(self, name: PodName) -> None:
        """Plans the task of that pod again in the next pass."""
        self._planner.enqueue(name)

    def requeue_all_tasks(self) -> None:
        """Plans all tasks again in the next pass, because actions of the last one were not executed."""
        self._planner.enqueue_all()

    def requeue_due_retries(self, now: float) -> None:
        """Plans the tasks with a due retry again in the next pass."""
        for name in self.retry.take_due_pods(now):
            self._planner.enqueue(name)

    @property
    def status_changed(self) -> bool:
        """Whether the status has to be written."""
        return self._planner.changed

    def status_update(self) -> Object:
        """Returns the Framework with its current status, to be written."""
        status = status_to_json(self._planner.status(), self.framework.name, self.uid)
        return self.writer.update(self.key, self.uid, status)

    def status_stored(self, obj: Object) -> bool:
        """Records that the status was stored, with the response *obj*. False if another client wrote since."""
        if not self.writer.confirm(obj):
            return False
        self._planner.mark_saved()
        return True

    def resolve_status_write(self, live: Object) -> bool:
        """Resolves a write with an unknown outcome by the live Framework. Returns whether it was stored."""
        if self.writer.resolve(live):
            return self.status_stored(live)
        self.observe_framework(live)
        self.writer.discard_sent()
        return False

    # Pods.

    @property
    def needs_preparation(self) -> bool:
        """Whether the hooks have to run because the spec changed, or may have changed, since their last run."""
        attempt, generation, *_ = self._prepared_for or (None, 0)
        framework = self.framework
        if framework.spec_errors or framework.deleting or self._planner.is_completed:
            return False
        if framework.spec.execution is not ExecutionType.START:
            return False
        # After a restart, a backend may still wait for more pods than the spec now has.
        was_restarted = self._prepared_for is None and is_unplaced(self._planner.summary)
        return was_restarted or (attempt == self._planner.attempt and generation != framework.generation)

    @property
    def _completed_members(self) -> int:
        """Completed tasks of a gang: some schedulers do not count their pods, so their minimum is lowered."""
        return 0 if self.framework.spec.gang is None else self._planner.completed_tasks

    async def prepare(self, hooks: Sequence[AttemptHook]) -> None:
        """Runs the hooks for the current attempt and compiles the pod templates. Raises LauncherError."""
        summary, attempt = self._planner.summary, self._planner.attempt
        required = (attempt, self.framework.generation, self._completed_members, is_placed(summary))
        if self._prepared_for == required:
            return
        # A copy: the Framework may be edited while the hooks run.
        status = summary if self.framework.spec.gang is None else self._planner.status()
        framework = replace(self.framework, status=status)
        overlays = await pod_overlays(hooks, framework, attempt)
        self._templates = compile_templates(framework, attempt, overlays)
        backends = (overlay.labels.get(BACKEND_LABEL) for overlay in overlays.values())
        self._planner.gang_backend = next(filter(None, backends), "")
        self._prepared_for = required

    def manifest(self, action: CreatePod) -> Object | None:
        """Returns the pod to create; None if the spec changed since ``prepare``."""
        if self._prepared_for is None or self._prepared_for[:2] != (
            self._planner.attempt,
            self.framework.generation,
        ):
            return None
        template = self._templates.get(action.role)
        return None if template is None else template.pod(action.index, action.incarnation, action.attempt)
