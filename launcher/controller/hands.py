"""Carries out what a plan says, and feeds back to the desk what came of it."""

import asyncio
import logging
from collections.abc import Iterator, Sequence

from launcher.controller.desk import Desk
from launcher.core.actions import Action, CreatePod, DeleteFramework, DeletePod, ReadPods
from launcher.core.errors import AlreadyExists, Conflict, LauncherError, NotFound, OutcomeUnknown, Unavailable
from launcher.core.failures.classify import creation_refused
from launcher.core.names import Mark, pod_name
from launcher.core.pods import pod_from_json
from launcher.core.spec import PodName
from launcher.store.informer import Informer
from launcher.store.port import FRAMEWORKS, PODS, Deletion, Object, Propagation, Store, version_of
from launcher.store.selectors import Where

log = logging.getLogger(__name__)


class Hands:
    """
    Does things to pods, a bounded number at a time.

    What a write answers is known to everybody at once, through the pod informer. What does not work now is put on the
    desk for later; what never will is told to the planner.
    """

    def __init__(self, store: Store, pods: Informer, calls: int) -> None:
        self._store, self._pods = store, pods
        self._slots = asyncio.Semaphore(calls)
        self._width = calls

    async def act(self, desk: Desk, actions: Sequence[Action]) -> None:
        """Take all of these actions."""
        desk.full = False
        todo = iter(actions)
        if len(actions) == 1:
            await self._take_each(desk, todo)
        elif actions:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._width, len(actions))):
                    group.create_task(self._take_each(desk, todo))

    async def settle(self, desk: Desk) -> None:
        """Find out what became of creations whose answers were lost."""
        for name in sorted(desk.unsettled):
            try:
                await self._look_up(desk, name)
            except NotFound:
                desk.planner.board.touch(name)
            desk.unsettled.discard(name)

    async def read_pods(self, desk: Desk) -> None:
        """Everybody knows this Framework's pods as the store itself has them now."""
        namespace, framework = desk.key
        there: set[str] = set()
        token = None
        while True:
            page = await self._store.list(
                PODS, namespace, Where.labelled({Mark.FRAMEWORK_NAME: framework}), limit=500, token=token
            )
            for obj in page.items:
                there.add(obj["metadata"]["name"])
                self._pods.wrote(obj)
            token = page.token
            if token is None:
                break
        for name in [name for name in desk.planner.board.pods if name not in there]:
            self._pods.removed((namespace, name), page.version)

    async def _take_each(self, desk: Desk, todo: "Iterator[Action]") -> None:
        for action in todo:
            async with self._slots:
                await self._take(desk, action)
            # A store that answers at once must not keep everybody else from their turn.
            await asyncio.sleep(0)

    async def _take(self, desk: Desk, action: Action) -> None:
        log.debug("taking action", extra={"framework": desk.key, "action": action})
        match action:
            case CreatePod():
                await self._create(desk, action)
            case DeletePod():
                await self._delete(desk, action)
            case DeleteFramework():
                await self._delete_framework(desk)
            case ReadPods():
                raise ValueError("a question is not an action")

    async def _create(self, desk: Desk, action: CreatePod) -> None:
        name = pod_name(desk.framework.name, action.role, action.index)
        if desk.full:
            desk.later.add(name)  # it would hear the same
            return
        try:
            self._pods.wrote(await self._store.create(PODS, desk.manifest(action)))
        except AlreadyExists:
            await self._name_taken(desk, name)
        except OutcomeUnknown as error:
            desk.unsettled.add(name)
            self._postpone(desk, name, error)
        except LauncherError as error:
            refusal = creation_refused(error)
            if refusal is not None:
                desk.planner.board.refuse(name, refusal)
                return
            desk.full = True
            self._postpone(desk, name, error)

    async def _name_taken(self, desk: Desk, name: PodName) -> None:
        """A pod of ours becomes known, and the plan says what to do about it; anybody else's is waited for."""
        try:
            obj = await self._look_up(desk, name)
        except (NotFound, Unavailable) as error:
            self._postpone(desk, name, error)
            return
        if pod_from_json(obj).owner != desk.uid:
            desk.planner.board.note(
                name, f"waits: a pod named {name} is there already, and it is not this Framework's"
            )
            desk.later.add(name)

    async def _look_up(self, desk: Desk, name: PodName) -> Object:
        obj = await self._store.get(PODS, desk.key[0], name)
        if Mark.FRAMEWORK_NAME in (obj["metadata"].get("labels") or {}):
            self._pods.wrote(obj)
        return obj

    async def _delete(self, desk: Desk, action: DeletePod) -> None:
        key = (desk.key[0], action.name)
        how = Deletion(uid=action.uid, grace=0 if action.force else None)
        try:
            left = await self._store.delete(PODS, *key, how)
        except NotFound:
            known = desk.planner.board.pods.get(action.name)
            if known is not None and known.uid == action.uid:
                self._pods.removed(key, known.version)
        except (Conflict, Unavailable) as error:
            log.info("pod not deleted", extra={"pod": key, "why": str(error)})
            desk.later.add(action.name)
        else:
            if "deletionTimestamp" in left["metadata"]:
                self._pods.wrote(left)
                if action.force:
                    desk.later.add(action.name)  # until it is really gone
            else:
                self._pods.removed(key, version_of(left))

    async def _delete_framework(self, desk: Desk) -> None:
        try:
            await self._store.delete(
                FRAMEWORKS, *desk.key, Deletion(uid=desk.uid, propagation=Propagation.FOREGROUND)
            )
        except (NotFound, Conflict) as error:
            log.info("framework is gone already", extra={"framework": desk.key, "why": str(error)})
        except Unavailable as error:
            log.info("framework not deleted", extra={"framework": desk.key, "why": str(error)})
            desk.failed = True

    def _postpone(self, desk: Desk, name: PodName, error: LauncherError) -> None:
        desk.planner.board.note(name, f"its pod cannot be created yet: {error}")
        desk.later.add(name)
