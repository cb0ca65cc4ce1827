"""Carries out what a plan says, and feeds back to the desk what came of it."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from launcher.controller.attempt_hook import AttemptHook
from launcher.controller.framework_state import FrameworkState
from launcher.core.errors import (
    AlreadyExists,
    Conflict,
    LauncherError,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unavailable,
)
from launcher.core.failures.classifier import creation_failure
from launcher.core.names import PodIdentityKey, pod_name
from launcher.core.planning.actions import (
    Action,
    CreatePod,
    DeleteFramework,
    DeletePod,
    ListPodsLive,
    ObjectEvent,
)
from launcher.core.pods.observed_pod import pod_from_json
from launcher.core.spec import PodName
from launcher.store.informer import Informer
from launcher.store.interface import FRAMEWORKS, PODS, DeleteOptions, Object, Propagation, Store, version_of
from launcher.store.selectors import Selector

log = logging.getLogger(__name__)


class PodControl:
    """
    Does things to pods, a bounded number at a time.

    What a write answers is known to everybody at once, through the pod informer. What does not work now is put on the
    desk for later; what never will is told to the planner.
    """

    def __init__(
        self, store: Store, pods: Informer, calls: int, attendants: Sequence[AttemptHook] = ()
    ) -> None:
        self._store, self._pods, self._attendants = store, pods, attendants
        self._slots = asyncio.Semaphore(calls)
        self._width = calls
        #: On the loop's clock: the store has asked everybody to leave it alone until then.
        self._rests_until = 0.0

    async def execute(self, desk: FrameworkState, actions: Sequence[Action]) -> None:
        """Take all of these actions."""
        desk.blocked_roles.clear()
        if desk.needs_preparing or any(isinstance(action, CreatePod) for action in actions):
            actions = await self._prepare(desk, actions)
        todo = iter(actions)
        if len(actions) == 1:
            await self._take_each(desk, todo)
        elif actions:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._width, len(actions))):
                    group.create_task(self._take_each(desk, todo))

    async def finish(self, desk: FrameworkState) -> None:
        """The Framework has completed: let go of what only its pods needed; what cannot go now goes with it."""
        for attendant in self._attendants:
            try:
                await attendant.finish(desk.framework)
            except LauncherError as error:
                log.warning("something is left behind", extra={"framework": desk.key, "why": str(error)})

    async def _prepare(self, desk: FrameworkState, actions: Sequence[Action]) -> Sequence[Action]:
        """What can be done of these: pods are created only when all is there that they need."""
        try:
            await desk.prepare(self._attendants)
        except LauncherError as error:
            self.apply_retry_after(desk, error)
            waiting = [action for action in actions if isinstance(action, CreatePod)]
            for action in waiting[:1]:
                self._tell(desk, action, error)
            for action in waiting:
                self._retry_later(desk, pod_name(desk.framework.name, action.role, action.index), error)
            return [action for action in actions if not isinstance(action, CreatePod)]
        return actions

    def apply_retry_after(self, desk: FrameworkState, error: LauncherError) -> None:
        """Leave the store alone for as long as it asks for: with this Framework, and with what is done to any pods."""
        if isinstance(error, TooManyRequests):
            rests_until = asyncio.get_running_loop().time() + error.retry_after
            self._rests_until = max(self._rests_until, rests_until)
            desk.retry_at = max(desk.retry_at, rests_until)

    def _is_resting(self, desk: FrameworkState) -> bool:
        if self._rests_until <= asyncio.get_running_loop().time():
            return False
        desk.retry_at = max(desk.retry_at, self._rests_until)
        return True

    async def confirm_creations(self, desk: FrameworkState) -> None:
        """Find out what became of creations whose answers were lost."""
        for name in sorted(desk.unconfirmed_creations):
            try:
                await self._look_up(desk, name)
            except NotFound:
                desk.planner.attempt_state.enqueue(name)
            desk.unconfirmed_creations.discard(name)

    async def refresh_pods(self, desk: FrameworkState) -> None:
        """Everybody knows this Framework's pods as the store itself has them now."""
        namespace, framework = desk.key
        there: set[str] = set()
        token = None
        while True:
            page = await self._store.list(
                PODS,
                namespace,
                Selector.labelled({PodIdentityKey.FRAMEWORK_NAME: framework}),
                limit=500,
                token=token,
            )
            for obj in page.items:
                there.add(obj["metadata"]["name"])
                self._pods.upsert(obj)
            token = page.continue_token
            if token is None:
                break
        for name in [name for name in desk.planner.attempt_state.pods if name not in there]:
            self._pods.remove((namespace, name), page.version)

    async def _take_each(self, desk: FrameworkState, todo: "Iterator[Action]") -> None:
        for action in todo:
            async with self._slots:
                await self._take(desk, action)
            # A store that answers at once must not keep everybody else from their turn.
            await asyncio.sleep(0)

    async def _take(self, desk: FrameworkState, action: Action) -> None:
        log.debug("taking action", extra={"framework": desk.key, "action": action})
        match action:
            case CreatePod():
                await self._create(desk, action)
            case DeletePod():
                await self._delete(desk, action)
            case DeleteFramework():
                await self._delete_framework(desk)
            case ListPodsLive():
                raise ValueError("a question is not an action")

    async def _create(self, desk: FrameworkState, action: CreatePod) -> None:
        name = pod_name(desk.framework.name, action.role, action.index)
        if action.role in desk.blocked_roles or self._is_resting(desk):
            desk.retry_pods.add(name)  # it would hear the same
            return
        manifest = desk.manifest(action)
        if manifest is None:
            desk.planner.attempt_state.enqueue(name)
            return
        try:
            self._pods.upsert(await self._store.create(PODS, manifest))
        except AlreadyExists:
            await self._handle_name_conflict(desk, name)
        except OutcomeUnknown as error:
            desk.unconfirmed_creations.add(name)
            self._retry_later(desk, name, error)
        except LauncherError as error:
            refusal = creation_failure(error)
            if refusal is not None:
                desk.planner.attempt_state.reject_creation(name, refusal)
                return
            self._tell(desk, action, error)
            desk.blocked_roles.add(action.role)
            self._retry_later(desk, name, error)

    async def _handle_name_conflict(self, desk: FrameworkState, name: PodName) -> None:
        """A pod of ours becomes known, and the plan says what to do about it; anybody else's is waited for."""
        try:
            obj = await self._look_up(desk, name)
        except (NotFound, Unavailable) as error:
            self._retry_later(desk, name, error)
            return
        if pod_from_json(obj).owner != desk.uid:
            desk.planner.attempt_state.set_creation_message(
                name, f"waits: a pod named {name} is there already, and it is not this Framework's"
            )
            desk.retry_pods.add(name)

    async def _look_up(self, desk: FrameworkState, name: PodName) -> Object:
        obj = await self._store.get(PODS, desk.key[0], name)
        if PodIdentityKey.FRAMEWORK_NAME in (obj["metadata"].get("labels") or {}):
            self._pods.upsert(obj)
        return obj

    async def _delete(self, desk: FrameworkState, action: DeletePod) -> None:
        key = (desk.key[0], action.name)
        if self._is_resting(desk):
            desk.retry_pods.add(action.name)
            return
        how = DeleteOptions(uid=action.uid, grace=0 if action.force else None)
        try:
            left = await self._store.delete(PODS, *key, how)
        except NotFound:
            known = desk.planner.attempt_state.pods.get(action.name)
            if known is not None and known.uid == action.uid:
                self._pods.remove(key, known.version)
        except (Conflict, Unavailable) as error:
            log.info("pod not deleted", extra={"pod": key, "why": str(error)})
            self.apply_retry_after(desk, error)
            desk.retry_pods.add(action.name)
        else:
            if "deletionTimestamp" in left["metadata"]:
                self._pods.upsert(left)
                if action.force:
                    desk.retry_pods.add(action.name)  # until it is really gone
            else:
                self._pods.remove(key, version_of(left))

    async def _delete_framework(self, desk: FrameworkState) -> None:
        # As it was when its time was over: who has edited it since may have given it more.
        how = DeleteOptions(uid=desk.uid, version=desk.version, propagation=Propagation.FOREGROUND)
        try:
            await self._store.delete(FRAMEWORKS, *desk.key, how)
        except NotFound as error:
            log.info("framework is gone already", extra={"framework": desk.key, "why": str(error)})
        except (Conflict, Unavailable) as error:
            log.info("framework not deleted", extra={"framework": desk.key, "why": str(error)})
            self.apply_retry_after(desk, error)
            desk.failed = True

    def _tell(self, desk: FrameworkState, action: CreatePod, error: LauncherError) -> None:
        """An event for the first pod of a role; a store that has too much to do is not given more."""
        if action.role not in desk.blocked_roles and not isinstance(error, TooManyRequests):
            task = f"task {action.role}[{action.index}]"
            desk.planner.attempt_state.notices.append(
                ObjectEvent("FailedCreate", f"{task}: its pod cannot be created yet: {error}", warning=True)
            )

    def _retry_later(self, desk: FrameworkState, name: PodName, error: LauncherError) -> None:
        self.apply_retry_after(desk, error)
        desk.planner.attempt_state.set_creation_message(name, f"its pod cannot be created yet: {error}")
        desk.retry_pods.add(name)
