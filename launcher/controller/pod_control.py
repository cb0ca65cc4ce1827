"""Executes the actions of a plan and records their results in the FrameworkState."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from launcher.controller.attempt_hook import AttemptHook
from launcher.controller.attempt_recorder import AttemptRecorder
from launcher.controller.framework_state import FrameworkState
from launcher.controller.log_archiver import LogArchiver
from launcher.controller.output_reader import OutputReader
from launcher.core.errors import (
    AlreadyExists,
    Conflict,
    LauncherError,
    NotFound,
    NotServed,
    OutcomeUnknown,
    TooManyRequests,
    Unavailable,
)
from launcher.core.events import ObjectEvent
from launcher.core.failures.classifier import creation_failure
from launcher.core.names import PodIdentityKey, pod_name
from launcher.core.planning import messages
from launcher.core.planning.actions import (
    Action,
    CreatePod,
    DeleteFramework,
    DeletePod,
    ListPodsLive,
    ReadOutput,
    RecordAttempt,
)
from launcher.core.pods.creation_reason import creation_delayed, name_taken
from launcher.core.pods.observed_pod import is_deleted, pod_from_json
from launcher.core.spec import PodName
from launcher.store.informer import Informer
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, Object, Propagation, Store, version_of
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)

_PAGE_SIZE = 500


class PodControl:
    """
    Creates and deletes pods, with a limited number of concurrent calls.

    Responses go to the pod informer, so that they are observed at once. Calls that fail are retried later; creations
    that can never succeed complete their task attempt.
    """

    def __init__(
        self,
        store: Store,
        pods: Informer,
        max_calls: int,
        hooks: Sequence[AttemptHook] = (),
        log_archiver: LogArchiver | None = None,
        output_reader: OutputReader | None = None,
    ) -> None:
        self._store, self._pods, self._hooks, self._log_archiver = store, pods, hooks, log_archiver
        self._output_reader = output_reader
        self._attempts = AttemptRecorder(store)
        self._max_calls = max_calls
        self._slots = asyncio.Semaphore(max_calls)
        #: On the event loop's clock: no calls before this time, as the store requested with Retry-After.
        self._paused_until = 0.0

    async def execute(self, state: FrameworkState, actions: Sequence[Action]) -> None:
        """Executes all actions. Only unexpected errors are raised."""
        state.retry.unblock_roles()
        if state.needs_preparation or any(isinstance(action, CreatePod) for action in actions):
            actions = await self._prepare(state, actions)
        reads = [action.name for action in actions if isinstance(action, ReadOutput)]
        if reads and self._output_reader is not None:
            await self._output_reader.read(state, reads)
        actions = [action for action in actions if not isinstance(action, ReadOutput)]
        remaining = iter(actions)
        if len(actions) == 1:
            await self._execute_each(state, remaining)
        elif actions:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._max_calls, len(actions))):
                    group.create_task(self._execute_each(state, remaining))

    async def finish(self, state: FrameworkState) -> None:
        """Runs the hooks of a completed Framework. Objects that a failed hook leaves are deleted with the Framework."""
        for hook in self._hooks:
            try:
                await hook.finish(state.framework)
            except LauncherError as error:
                log.warning("cleanup failed", extra={"framework": state.key, "error": str(error)})

    async def _prepare(self, state: FrameworkState, actions: Sequence[Action]) -> Sequence[Action]:
        """Runs the hooks. Returns the actions to execute: no creations if a hook failed."""
        try:
            await state.prepare(self._hooks)
        except LauncherError as error:
            self.apply_retry_after(state, error)
            creations = [action for action in actions if isinstance(action, CreatePod)]
            for action in creations[:1]:
                self._add_creation_event(state, action, error)
            for action in creations:
                self._retry_creation(state, pod_name(state.framework.name, action.role, action.index), error)
            return [action for action in actions if not isinstance(action, CreatePod)]
        return actions

    def apply_retry_after(self, state: FrameworkState, error: LauncherError) -> None:
        """Pauses this Framework, and all calls for pods, for as long as the store requested."""
        if isinstance(error, TooManyRequests):
            until = asyncio.get_running_loop().time() + error.retry_after
            self._paused_until = max(self._paused_until, until)
            state.retry.delay_until(until)

    def _is_paused(self, state: FrameworkState) -> bool:
        if self._paused_until <= asyncio.get_running_loop().time():
            return False
        state.retry.delay_until(self._paused_until)
        return True

    async def confirm_creations(self, state: FrameworkState) -> None:
        """Reads the pods whose creation had an unknown outcome."""
        for name in state.retry.unconfirmed_creations:
            try:
                await self._read_pod(state, name)
            except NotFound:
                state.requeue_task(name)
            state.retry.creation_confirmed(name)

    async def refresh_pods(self, state: FrameworkState) -> None:
        """Lists this Framework's pods from the store and passes them to the informer."""
        namespace, framework = state.key
        listed: set[str] = set()
        continue_token = None
        while True:
            page = await self._store.list(
                PODS,
                namespace,
                Selector.for_labels({PodIdentityKey.FRAMEWORK_NAME: framework}),
                limit=_PAGE_SIZE,
                continue_token=continue_token,
            )
            for obj in page.items:
                listed.add(obj["metadata"]["name"])
                self._pods.upsert(obj)
            continue_token = page.continue_token
            if continue_token is None:
                break
        for name in [name for name in state.pod_names if name not in listed]:
            self._pods.remove((namespace, name), page.version)

    async def _execute_each(self, state: FrameworkState, actions: Iterator[Action]) -> None:
        for action in actions:
            async with self._slots:
                await self._execute(state, action)
            # A store that never waits must not starve other tasks.
            await asyncio.sleep(0)

    async def _execute(self, state: FrameworkState, action: Action) -> None:
        log.debug("executing action", extra={"framework": state.key, "action": action})
        match action:
            case CreatePod():
                await self._create(state, action)
            case DeletePod():
                await self._delete(state, action)
            case DeleteFramework():
                await self._delete_framework(state)
            case RecordAttempt():
                await self._record_attempt(state, action)
            case ListPodsLive() | ReadOutput():
                raise ValueError(f"{type(action).__name__} is not executed with other actions")

    async def _create(self, state: FrameworkState, action: CreatePod) -> None:
        name = pod_name(state.framework.name, action.role, action.index)
        if state.retry.is_blocked(action.role) or self._is_paused(state):
            state.retry.retry_pod(name)  # it would be rejected for the same reason
            return
        manifest = state.manifest(action)
        if manifest is None:
            state.requeue_task(name)
            return
        try:
            self._pods.upsert(await self._store.create(PODS, manifest))
        except AlreadyExists:
            await self._handle_name_conflict(state, name)
        except OutcomeUnknown as error:
            state.retry.creation_unconfirmed(name)
            self._retry_creation(state, name, error)
        except LauncherError as error:
            rejection = creation_failure(error)
            if rejection is not None:
                state.creation_rejected(name, rejection)
                return
            self._add_creation_event(state, action, error)
            state.retry.block_role(action.role)
            self._retry_creation(state, name, error)

    async def _handle_name_conflict(self, state: FrameworkState, name: PodName) -> None:
        """Observes the existing pod if this Framework owns it; otherwise waits until it is deleted."""
        try:
            obj = await self._read_pod(state, name)
        except (NotFound, Unavailable) as error:
            self._retry_creation(state, name, error)
            return
        if pod_from_json(obj).owner != state.uid:
            state.creation_delayed(name, name_taken(name))

    async def _read_pod(self, state: FrameworkState, name: PodName) -> Object:
        obj = await self._store.get(PODS, state.key[0], name)
        if PodIdentityKey.FRAMEWORK_NAME in (obj["metadata"].get("labels") or {}):
            self._pods.upsert(obj)
        return obj

    async def _delete(self, state: FrameworkState, action: DeletePod) -> None:
        key = (state.key[0], action.name)
        if self._is_paused(state):
            state.retry.retry_pod(action.name)
            return
        if not self._is_deletable(state, action.name, action.uid):
            return
        options = DeleteOptions(uid=action.uid, grace=0 if action.force else None)
        try:
            deleted = await self._store.delete(PODS, *key, options)
        except NotFound:
            observed = state.pod(action.name)
            if observed is not None and observed.uid == action.uid:
                self._pods.remove(key, observed.version)
        except (Conflict, Unavailable) as error:
            log.info("pod not deleted", extra={"pod": key, "error": str(error)})
            self.apply_retry_after(state, error)
            state.retry.retry_pod(action.name)
        else:
            if is_deleted(deleted):
                self._pods.upsert(deleted)
                if action.force:
                    state.retry.retry_pod(action.name)  # until it no longer exists
            else:
                self._pods.remove(key, version_of(deleted))

    def _is_deletable(self, state: FrameworkState, name: PodName, uid: str) -> bool:
        """Whether the logs of the pod are archived. If not, its task is planned again when they are, or in time."""
        archiver = self._log_archiver
        return archiver is None or archiver.is_deletable((state.key[0], name), uid)

    async def _delete_framework(self, state: FrameworkState) -> None:
        pods = filter(None, map(state.pod, state.pod_names))
        # All are checked, so that all are archived at the same time.
        if [pod for pod in pods if not self._is_deletable(state, pod.name, pod.uid)]:
            return
        # Of this version only: an edit since then may have set a longer ttlSecondsAfterFinished.
        options = DeleteOptions(
            uid=state.uid, version=state.writer.version, propagation=Propagation.FOREGROUND
        )
        try:
            await self._store.delete(FRAMEWORKS, *state.key, options)
        except NotFound as error:
            log.info("framework already deleted", extra={"framework": state.key, "error": str(error)})
        except (Conflict, Unavailable) as error:
            log.info("framework not deleted", extra={"framework": state.key, "error": str(error)})
            self.apply_retry_after(state, error)
            state.retry.retry_reconcile()

    async def _record_attempt(self, state: FrameworkState, action: RecordAttempt) -> None:
        """Stores the completed attempt. One that cannot be stored is reported, and does not prevent the retry."""
        record = state.attempt_record(action)
        if record is None:
            return
        try:
            await self._attempts.record(state.framework, record)
        except NotServed as error:
            self._report_unrecorded(state, error)
        except Unavailable as error:
            log.info("attempt not recorded", extra={"framework": state.key, "error": str(error)})
            self.apply_retry_after(state, error)
            state.retry.retry_reconcile()
            return
        except LauncherError as error:
            self._report_unrecorded(state, error)
        state.attempt_recorded(action.attempt)

    @staticmethod
    def _report_unrecorded(state: FrameworkState, error: LauncherError) -> None:
        state.add_event(ObjectEvent("AttemptNotRecorded", messages.attempt_not_recorded(error), warning=True))

    def _add_creation_event(self, state: FrameworkState, action: CreatePod, error: LauncherError) -> None:
        """Adds an event for the first pod of a role; none for an overloaded store, which would get another request."""
        if not state.retry.is_blocked(action.role) and not isinstance(error, TooManyRequests):
            task = messages.task_name(action.role, action.index)
            state.add_event(
                ObjectEvent("FailedCreate", f"Error creating pod for task {task}: {error}", warning=True)
            )

    def _retry_creation(self, state: FrameworkState, name: PodName, error: LauncherError) -> None:
        self.apply_retry_after(state, error)
        state.creation_delayed(name, creation_delayed(error))
