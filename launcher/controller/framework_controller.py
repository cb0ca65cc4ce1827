"""
The controller of Frameworks: informers -> work queue -> reconcile -> plan -> save the status -> execute the actions.

Each Framework is reconciled by one worker at a time. Its status is stored before any action that follows from it, so
after a crash it names every pod that may exist. An error concerns one Framework only.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.controller.attempt_hook import AttemptHook
from launcher.controller.framework_state import FrameworkState, Validator
from launcher.controller.log_archiver import LogArchiver
from launcher.controller.log_copier import ContainerLogCopier, PodLogSource
from launcher.controller.output_reader import OutputReader
from launcher.controller.pod_control import PodControl
from launcher.controller.retry_state import TIMER_TOLERANCE_SECONDS
from launcher.core.errors import Conflict, LauncherError, NotFound, OutcomeUnknown
from launcher.core.events import ObjectEvent
from launcher.core.names import PodIdentityKey
from launcher.core.planning.actions import ListPodsLive
from launcher.core.planning.options import PlannerOptions
from launcher.core.planning.planner import PlanResult
from launcher.core.pods.observed_pod import ObservedPod, pod_from_json
from launcher.core.role_order import SEQUENCE_ANNOTATION, annotated_sequence
from launcher.core.spec import PodName
from launcher.core.status import State
from launcher.core.validation.framework import validation_errors
from launcher.store import instrumentation
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, SharedInformers
from launcher.store.interface import FRAMEWORKS, PODS, Key, Object, ResourceKind, Store, version_of
from launcher.store.object_errors import object_errors
from launcher.store.selectors import parse
from launcher.store.work_queue import WorkQueue, run_workers

log = logging.getLogger(__name__)

_COMPONENT, _RECONCILER = "controller", "framework-reconciler"
_ROLE_SEQUENCE_REASON = "RoleSequence"
#: Pods with the label of a Framework.
FRAMEWORK_PODS = parse(labels=PodIdentityKey.FRAMEWORK_NAME)


def log_role_sequence(obj: Object) -> str | None:
    """Logs the role sequence as Arena's operator does. Returns the message; None without a sequence."""
    metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
    role_names = [role["name"] for role in obj["spec"].get("taskRoles") or ()]
    sequence = obj["spec"].get("roleSequence") or annotated_sequence(annotations, role_names)[0]
    if not sequence:
        return None
    # Arena's operator logs the annotation as the user wrote it.
    annotation = annotations.get(SEQUENCE_ANNOTATION)
    names = annotation.replace(",", " ") if annotation else " ".join(sequence)
    message = f"the Role Sequence of job {metadata['name']} is: [{names}]"
    log.info(message, extra={"job": f"{metadata['namespace']}.{metadata['name']}", "uid": metadata["uid"]})
    return message


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Concurrency and rate of the controller."""

    #: Frameworks reconciled concurrently.
    workers: int = 16
    #: Concurrent calls to the store, for all Frameworks.
    max_calls: int = 64
    #: Seconds between two reconciles of one Framework, per task: limits the cost of writing a large status.
    min_interval_seconds_per_task: float = 50e-6
    #: A status on which no action depends is written this many seconds after its first change, with later changes.
    coalesce_seconds: float = 0.1
    #: Added for each task, because a larger status costs more to write and to read.
    coalesce_seconds_per_task: float = 0.0
    #: Added for each other Framework with an unsaved status.
    coalesce_seconds_per_framework: float = 0.0
    #: Minimum while pods exist and none has run: such a status adds no information to that of the pods.
    coalesce_seconds_at_start: float = 0.0
    #: Maximum of the seconds added for other Frameworks.
    max_coalesce_seconds: float = 5.0
    #: Seconds between two events.
    event_interval_seconds: float = 0.0
    #: A Framework is reconciled after this many seconds even if its next deadline is later: the wall clock may be set.
    max_requeue_seconds: float = 600.0


@dataclass(slots=True)
class PodIndex:
    """All pods, by Framework."""

    pods: dict[Key, dict[PodName, ObservedPod]] = field(default_factory=dict)
    #: The Framework of each pod.
    owners: dict[Key, Key] = field(default_factory=dict)

    def controlled_by(self, framework: Key, uid: str) -> list[ObservedPod]:
        """Returns the pods that are controlled by the Framework of that uid."""
        return [pod for pod in self.pods.get(framework, {}).values() if pod.owner == uid]

    def upsert(self, key: Key, framework: Key, pod: ObservedPod) -> None:
        self.pods.setdefault(framework, {})[pod.name] = pod
        self.owners[key] = framework

    def remove(self, key: Key) -> Key | None:
        """Removes a pod. Returns its Framework."""
        framework = self.owners.pop(key, None)
        if framework is not None:
            pods = self.pods[framework]
            pods.pop(PodName(key[1]), None)
            if not pods:
                del self.pods[framework]
        return framework


class FrameworkController:
    """Reconciles all Frameworks of a store."""

    def __init__(
        self,
        store: Store,
        *,
        clock: Callable[[], float],
        jitter: Callable[[], float],
        planner_options: PlannerOptions | None = None,
        options: ControllerOptions | None = None,
        validate: Validator = validation_errors,
        hooks: Sequence[AttemptHook] = (),
        informers: SharedInformers | None = None,
        log_copier: ContainerLogCopier | None = None,
        log_source: PodLogSource | None = None,
    ) -> None:
        """
        *validate* is the validation before pods are created, for objects that were stored without admission.

        With a *log_copier*, logs are archived before pods are deleted. *log_source* reads the output of tasks with
        progressDeadlineSeconds; without it, none of them fails.
        """
        self._validate = validate
        self._store, self._clock, self._jitter = store, clock, jitter
        self._planner_options = planner_options or PlannerOptions()
        self._options = options or ControllerOptions()
        self._queue: WorkQueue[Key] = WorkQueue("framework")
        self._stopping = asyncio.Event()
        self._states: dict[Key, FrameworkState] = {}
        #: Frameworks with an unsaved status.
        self._unsaved: set[Key] = set()
        self._pod_index = PodIndex()
        #: None if *informers* are run by the caller.
        self._own_informers = (
            SharedInformers(store, jitter=jitter, select_on_server=True) if informers is None else None
        )
        informers = informers or self._own_informers
        assert informers is not None
        # Pods first: no Framework is observed before its pods.
        self._pods = informers.add_event_handler(
            PODS,
            EventHandlerFuncs(self.on_pod_upsert, self.on_pod_delete),
            component=_COMPONENT,
            selector=FRAMEWORK_PODS,
        )
        informers.add_event_handler(
            FRAMEWORKS,
            EventHandlerFuncs(self.on_framework_upsert, self.on_framework_delete),
            component=_COMPONENT,
        )
        self._events = EventRecorder(store, clock, interval=self._options.event_interval_seconds)
        self._log_archiver = None if log_copier is None else self._new_log_archiver(log_copier, informers)
        output_reader = None if log_source is None else OutputReader(log_source, clock)
        self._pod_control = PodControl(
            store, self._pods, self._options.max_calls, hooks, self._log_archiver, output_reader
        )

    def _new_log_archiver(self, copier: ContainerLogCopier, informers: SharedInformers) -> LogArchiver:
        archiver = LogArchiver(
            copier,
            record=self._events.record,
            read_pod_uid=self._read_pod_uid,
            on_deletable=self._on_pod_deletable,
        )
        informers.add_event_handler(
            PODS,
            EventHandlerFuncs(archiver.on_pod_upsert, archiver.on_pod_delete),
            component="log-archiver",
            selector=FRAMEWORK_PODS,
        )
        return archiver

    async def run(self) -> None:
        """
        Reconciles until ``stop``, then completes the reconciles in progress and saves all statuses.

        It can also be cancelled: an unsaved status is planned again after the next start.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run())
            helpers = [helper for helper in (self._own_informers, self._log_archiver) if helper is not None]
            tasks = [group.create_task(helper.run()) for helper in helpers]
            await self._wait_for_first(self._pods.synced, self._stopping)
            await run_workers(self._queue, self.reconcile, self._options.workers)
            for task in tasks:
                task.cancel()
            await self._save_all()
            self._events.close()

    def stop(self) -> None:
        """Makes ``run`` return after the reconciles in progress."""
        self._stopping.set()
        self._queue.close()

    def counts(self, kind: ResourceKind) -> Mapping[str, int]:
        """Returns the number of Frameworks by state, or of their pods by phase."""
        if kind == FRAMEWORKS:
            return Counter(state.state.value for state in self._states.values())
        return Counter(pod.phase for pods in self._pod_index.pods.values() for pod in pods.values())

    @staticmethod
    async def _wait_for_first(*events: asyncio.Event) -> None:
        tasks = [asyncio.create_task(event.wait()) for event in events]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    # Event handlers of the informers.

    def on_framework_upsert(self, key: Key, obj: Object) -> None:
        state = self._states.get(key)
        try:
            if state is None or state.uid != obj["metadata"]["uid"]:
                pods = self._pod_index.controlled_by(key, obj["metadata"]["uid"])
                state = self._states[key] = FrameworkState(obj, self._planner_options, pods, self._validate)
                if not state.framework.spec_errors:
                    self._record_sequence(state, obj)
            elif not state.observe_framework(obj):
                return
        except Exception as error:
            # The object was stored without validation. It is not reconciled until it changes.
            self._states.pop(key, None)
            message = f"Cannot parse the Framework: {type(error).__name__}: {error}"
            self._events.record(obj, [ObjectEvent("InvalidObject", message, warning=True)])
            raise
        self._queue.add(key)

    def _record_sequence(self, state: FrameworkState, obj: Object) -> None:
        """Logs the role sequence; for a new Framework it is an event as well."""
        message = log_role_sequence(obj)
        if message is not None and not obj.get("status"):
            self._events.record(state.reference, [ObjectEvent(_ROLE_SEQUENCE_REASON, message)])

    def on_framework_delete(self, key: Key) -> None:
        self._states.pop(key, None)
        self._unsaved.discard(key)
        self._queue.forget(key)
        object_errors.resolve(_RECONCILER, FRAMEWORKS.plural, key)

    def on_pod_upsert(self, key: Key, obj: Object) -> None:
        pod = pod_from_json(obj)
        framework = (key[0], obj["metadata"]["labels"][PodIdentityKey.FRAMEWORK_NAME])
        if self._pod_index.owners.get(key, framework) != framework:
            self.on_pod_delete(key)
        self._pod_index.upsert(key, framework, pod)
        state = self._states.get(framework)
        if state is not None and state.uid == pod.owner:
            state.observe_pod(pod)
            self._queue.add(framework)

    def on_pod_delete(self, key: Key) -> None:
        framework = self._pod_index.remove(key)
        state = self._states.get(framework) if framework is not None else None
        if framework is not None and state is not None and state.pod_deleted(PodName(key[1])):
            self._queue.add(framework)

    def _on_pod_deletable(self, framework: Key, pod: PodName) -> None:
        state = self._states.get(framework)
        if state is not None:
            state.requeue_task(pod)
            self._queue.add(framework)

    async def _read_pod_uid(self, key: Key) -> str | None:
        try:
            pod = await self._store.get(PODS, *key)
        except NotFound:
            return None
        return str(pod["metadata"]["uid"])

    # Reconciling.

    async def reconcile(self, key: Key) -> None:
        """Reconciles one Framework. An error concerns this Framework only: it is retried with a back-off."""
        state = self._states.get(key)
        if state is None:
            return
        try:
            await self._reconcile(state)
            object_errors.resolve(_RECONCILER, FRAMEWORKS.plural, key)
            return
        except LauncherError as error:
            log.warning("reconcile failed", extra={"framework": key, "error": str(error)})
            instrumentation.reconcile_retried(self._queue.name, type(error).__name__)
            self._pod_control.apply_retry_after(state, error)
        except Exception as error:  # a bug concerns one Framework, and must not stop the others
            instrumentation.reconcile_retried(self._queue.name, instrumentation.UNEXPECTED)
            if object_errors.record(_RECONCILER, FRAMEWORKS.plural, key, error):
                message = f"{type(error).__name__}: {error}"
                self._events.record(state.reference, [ObjectEvent("InternalError", message, warning=True)])
        state.requeue_all_tasks()
        state.retry.retry_reconcile()
        self._requeue(state)

    async def _reconcile(self, state: FrameworkState) -> None:
        now = asyncio.get_running_loop().time()
        if delay := state.retry.seconds_to_wait(now):
            self._queue.add_after(state.key, delay)
            return
        await self._pod_control.confirm_creations(state)
        if state.writer.is_unconfirmed:
            await self._confirm_status_write(state)
            if self._states.get(state.key) is not state:
                return
        state.requeue_due_retries(now)
        result = await self._plan_save_execute(state)
        while result is not None and ListPodsLive() in result.actions:
            version = state.writer.version
            await self._pod_control.refresh_pods(state)
            # A status that another leader wrote during the list may name pods that were created after it.
            result = await self._plan_save_execute(state, pods_are_live=state.writer.version == version)
        if result is not None and result.requeue_at is not None:
            delay = max(TIMER_TOLERANCE_SECONDS, result.requeue_at - self._clock())
            self._queue.add_after(state.key, min(delay, self._options.max_requeue_seconds))
        self._requeue(state)

    async def _plan_save_execute(
        self, state: FrameworkState, *, pods_are_live: bool = False
    ) -> PlanResult | None:
        """Plans once, saves the status, then executes the actions. None if the status could not be saved."""
        result = state.plan(self._clock(), jitter=self._jitter(), pods_are_live=pods_are_live)
        self._events.record(state.reference, result.events)
        actions = [action for action in result.actions if not isinstance(action, ListPodsLive)]
        # Saved before executed: after a crash the status still names every pod that may exist.
        if not state.status_changed:
            state.writer.cancel_save()
            self._unsaved.discard(state.key)
            is_current = not actions or await self._is_current(state)
        else:
            is_current = not self._has_to_save(state, result) or await self._save(state)
        if not is_current:
            state.requeue_all_tasks()
            return None
        await self._pod_control.execute(state, actions)
        if any(
            transition.role is None and transition.after is State.COMPLETED
            for transition in result.transitions
        ):
            await self._pod_control.finish(state)
        return result

    def _requeue(self, state: FrameworkState) -> None:
        """Adds the Framework to the queue again for queued tasks, an unsaved status, and retries."""
        now = asyncio.get_running_loop().time()
        if state.has_queued_tasks and not state.retry.reconcile_failed:
            self._queue.add(state.key)
        if state.status_changed:
            self._queue.add_after(state.key, self._seconds_to_save(state))
        if state.retry.is_pending or state.needs_preparation:
            self._queue.add_after(state.key, state.retry.next_delay(now))
        else:
            state.retry.reset_backoff()

    # Saving.

    def _has_to_save(self, state: FrameworkState, result: PlanResult) -> bool:
        if result.actions or state.is_completed:
            return True
        return self._seconds_to_save(state) <= TIMER_TOLERANCE_SECONDS

    def _seconds_to_save(self, state: FrameworkState) -> float:
        """Returns the seconds before a changed status is saved, so that later changes are saved with it."""
        options = self._options
        self._unsaved.add(state.key)
        for_others = min(
            options.coalesce_seconds_per_framework * (len(self._unsaved) - 1), options.max_coalesce_seconds
        )
        delay = options.coalesce_seconds + options.coalesce_seconds_per_task * state.task_count + for_others
        if state.is_starting:
            delay = max(delay, options.coalesce_seconds_at_start + for_others)
        return state.writer.seconds_to_save(asyncio.get_running_loop().time(), delay)

    async def _save(self, state: FrameworkState) -> bool:
        """Writes the status. False if the Framework changed and has to be planned again."""
        now = asyncio.get_running_loop().time()
        state.retry.limit_rate(now + self._options.min_interval_seconds_per_task * state.task_count)
        try:
            saved = state.status_stored(await self._store.update_status(FRAMEWORKS, state.status_update()))
            self._unsaved.discard(state.key)
            return saved
        except NotFound:
            self.on_framework_delete(state.key)
            return False
        except (Conflict, OutcomeUnknown) as error:
            log.info(
                "status write conflict, reading the Framework",
                extra={"framework": state.key, "error": str(error)},
            )
        state.writer.outcome_unknown()
        return await self._confirm_status_write(state)

    async def _confirm_status_write(self, state: FrameworkState) -> bool:
        """Reads the Framework. Returns whether the status last sent is stored."""
        live = await self._read(state)
        return live is not None and state.resolve_status_write(live)

    async def _is_current(self, state: FrameworkState) -> bool:
        """
        Returns whether the store has the observed version of the Framework.

        Checked before actions without a preceding status write: another leader or a user may have changed the
        Framework, and a pod that seems superfluous may belong to that change.
        """
        live = await self._read(state)
        if live is None:
            return False
        if version_of(live) == state.writer.version:
            return True
        self.on_framework_upsert(state.key, live)
        return False

    async def _read(self, state: FrameworkState) -> Object | None:
        """Reads the Framework from the store; None if it was deleted or replaced by another of its name."""
        try:
            live = await self._store.get(FRAMEWORKS, *state.key)
        except NotFound:
            self.on_framework_delete(state.key)
            return None
        if live["metadata"]["uid"] == state.uid:
            return live
        self.on_framework_upsert(state.key, live)
        return None

    async def _save_all(self) -> None:
        for state in [state for state in self._states.values() if state.status_changed]:
            try:
                if not state.writer.is_unconfirmed or not await self._confirm_status_write(state):
                    await self._save(state)
            except LauncherError as error:
                log.warning(
                    "status not saved at shutdown", extra={"framework": state.key, "error": str(error)}
                )
            except Exception as error:  # the other statuses are saved
                object_errors.record(_RECONCILER, FRAMEWORKS.plural, state.key, error)
