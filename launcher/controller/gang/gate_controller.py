"""
Opens the gates of gangs for which there is room, one gang after the other, the oldest first.

What the whole cluster has free is looked at only while a gang waits for it: nothing is watched for nothing, and what
was watched is forgotten after. All that matters can be read from the pods, so nothing is lost with the program: a
gang of which some were let through when it ended is let through whole.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final, Protocol

from launcher.controller.framework_state import framework_from_json
from launcher.controller.gang.backend_discovery import BuiltinBackend
from launcher.controller.gang.gang_request import BACKEND_LABEL, GangRequest
from launcher.controller.gang.gated_gangs import GatedGang, GatedGangs, without_gate
from launcher.core.errors import LauncherError, NotFound
from launcher.core.planning.actions import ObjectEvent
from launcher.core.planning.gang import is_placed
from launcher.core.pods.observed_pod import has_terminated
from launcher.store.backoff import ExponentialBackoff
from launcher.store.event_recorder import EventRecorder
from launcher.store.informer import EventHandlerFuncs, Informer
from launcher.store.interface import FRAMEWORKS, NODES, PODS, Key, MergePatch, Object, Store
from launcher.store.object_errors import object_errors
from launcher.store.selectors import FieldRequirement, Selector

log = logging.getLogger(__name__)

_COMPONENT: Final = "gang-admission"
#: Pods behind gates of ours, and those that were.
OURS: Final = Selector.labelled({BACKEND_LABEL: BuiltinBackend.GATES.value})
#: Pods that take something of a node.
_PLACED: Final = Selector(
    fields=(
        FieldRequirement("spec.nodeName", "", equal=False),
        FieldRequirement("status.phase", "Succeeded", equal=False),
        FieldRequirement("status.phase", "Failed", equal=False),
    )
)
#: Gates taken away at the same time.
_AT_ONCE: Final = 16
#: Seconds between two looks at what is free; and of the time, no more than this share is spent on looking.
_PAUSE: Final = 0.5
_SHARE: Final = 0.1
#: Seconds of looking after which others get their turn. Not after each gang: room that comes in between would be the
#: next one's, though an older one waits for it too.
_BREATH: Final = 0.02
#: Seconds after which a gang that waits is told what has changed about the reason.
_TELL_AGAIN: Final = 60.0
#: Seconds after which a gang of which pods are missing is asked about.
_LOOK_AGAIN: Final = 10.0


class Room(Protocol):
    """What the nodes of a cluster have free."""

    def set_node(self, node: Object) -> None:
        """The node is there, as its object says."""

    def drop_node(self, name: str) -> None:
        """The node is no longer there."""

    def put(self, pod: Object) -> None:
        """The pod takes what it asks for of the node that it names."""

    def drop(self, key: Key) -> None:
        """The pod takes nothing any more."""

    def reserve(self, pods: Sequence[Object], least: int) -> str | None:
        """
        None when there is room for *least* of these pods: it is taken, and so is room for the others that fit.

        Else why there is not, and they have nothing. What is taken is so until the pod is ``put`` or ``drop``-ped.
        """


class GateController:
    """Lets gangs through."""

    def __init__(
        self,
        store: Store,
        room: Callable[[], Room],
        *,
        events: EventRecorder,
        chance: Callable[[], float],
    ) -> None:
        """*room* gives an empty one. Who runs *events* is the caller's choice."""
        self._store, self._make_room, self._events, self._chance = store, room, events, chance
        self._line = GatedGangs()
        self._called, self._news = asyncio.Event(), asyncio.Event()
        self._members = Informer(
            store,
            PODS,
            EventHandlerFuncs(self.member_seen, self.member_gone),
            OURS,
            chance=chance,
            component=_COMPONENT,
        )
        #: While somebody waits for it.
        self._room: Room | None = None
        self._pauses = ExponentialBackoff(first=0.2, most=30.0)

    def notify(self) -> None:
        """Pods with gates will come."""
        self._called.set()

    async def run(self) -> None:
        """Work until cancelled."""
        await self._somebody()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._members.run())
            # Before all are known, a gang that was let through may look as if none of it was.
            await self._members.synced.wait()
            while True:
                await self._complete()
                if self._line.waiting():
                    await self._find_room()
                await self._wait(_LOOK_AGAIN if self._line.incomplete() else None)

    async def _somebody(self) -> None:
        """Return when there are pods with gates, or will be soon."""
        while not self._called.is_set():
            try:
                if (await self._store.list(PODS, None, OURS, limit=1)).items:
                    return
            except LauncherError as error:
                log.warning("gated pods cannot be listed", extra={"why": str(error)})
                await asyncio.sleep(self._pauses.next_delay())
            else:
                await self._called.wait()
        self._pauses.reset()

    async def _wait(self, seconds: float | None) -> None:
        """Return when something has changed, or after so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    # Those who need no room: theirs is taken already.

    async def _complete(self) -> None:
        """Whoever was left behind by its gang follows."""
        for party in self._line.followers():
            with self._handling(party):
                if self._room is not None:
                    self._room.reserve([*party.gated.values()], 0)
                await self._let_through(party)
        now = asyncio.get_running_loop().time()
        for party in self._line.incomplete():
            if party.ask_at is None:
                party.ask_at = now + _LOOK_AGAIN  # until then, most likely, its pods are being created
            if party.has_lost or now >= party.ask_at:
                party.has_lost, party.ask_at = False, now + _LOOK_AGAIN
                with self._handling(party):
                    await self._ask_about(party)

    def _handling(self, party: GatedGang) -> AbstractContextManager[None]:
        return object_errors.handling(_COMPONENT, FRAMEWORKS.plural, (party.namespace, party.framework))

    async def _ask_about(self, party: GatedGang) -> None:
        """Tasks may have been given up since, or be over with their pods gone: the Framework knows."""
        try:
            obj = await self._store.get(FRAMEWORKS, party.namespace, party.framework)
            framework = framework_from_json(obj)
        except (LauncherError, ValueError) as error:
            log.info("framework not read", extra={"framework": party.framework, "why": str(error)})
            return
        party.least = min(party.least, GangRequest(framework, party.attempt).least)
        status = framework.status
        if status is not None and status.attempt.id == party.attempt and is_placed(status):
            party.was_placed = True
        if party.is_open or party.is_complete:
            self._news.set()

    # Those who wait for room.

    async def _find_room(self) -> None:
        """Return when nobody waits for room any more."""
        room = self._room = self._make_room()
        nodes = Informer(self._store, NODES, _Nodes(self, room), chance=self._chance, component=_COMPONENT)
        placed = Informer(
            self._store, PODS, _Placed(self, room), _PLACED, chance=self._chance, component=_COMPONENT
        )
        try:
            async with asyncio.TaskGroup() as group:
                ears = [group.create_task(nodes.run()), group.create_task(placed.run())]
                await nodes.synced.wait()
                await placed.synced.wait()
                room.reserve([*self._line.going()], 0)
                await self._serve(room)
                for ear in ears:
                    ear.cancel()
        finally:
            self._room = None

    async def _serve(self, room: Room) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            await self._complete()
            began = paused = clock()
            for party in self._line.waiting():
                with self._handling(party):
                    await self._try(room, party)
                if clock() - paused > _BREATH:
                    await asyncio.sleep(0)  # others get their turn
                    paused = clock()
            if not self._line.waiting():
                return
            spent = clock() - began
            await asyncio.sleep(max(_PAUSE, spent / _SHARE))
            await self._wait(_LOOK_AGAIN)

    async def _try(self, room: Room, party: GatedGang) -> None:
        if party.is_open or not party.is_complete:
            return  # it has changed while another had its turn
        why = room.reserve([*party.gated.values()], party.least)
        if why is None:
            log.info("gang let through", extra={"framework": (party.namespace, party.framework)})
            self._tell(
                party, ObjectEvent("GangAdmitted", f"there is room for {len(party.gated)} tasks at once")
            )
            await self._let_through(party)
        else:
            self._tell(party, ObjectEvent("GangWaits", why, warning=True))

    def _tell(self, party: GatedGang, notice: ObjectEvent) -> None:
        now = asyncio.get_running_loop().time()
        if party.told == notice.message or (notice.warning and now < party.tell_at):
            return
        party.told, party.tell_at = notice.message, now + _TELL_AGAIN
        self._events.record(party.owner(), [notice])

    # What is written.

    async def _let_through(self, party: GatedGang) -> None:
        """Take the gate away from all of its pods; those for which that does not work now are followers then."""
        todo = iter([*party.gated.values()])
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._open_each(todo)) for _ in range(min(_AT_ONCE, len(party.gated)))]
        if all(task.result() for task in tasks):
            self._pauses.reset()
            return
        await asyncio.sleep(self._pauses.next_delay())
        self._news.set()

    async def _open_each(self, todo: Iterable[Object]) -> bool:
        """Whether all of these went well."""
        well = True
        for pod in todo:
            meta = pod["metadata"]
            try:
                change = MergePatch(without_gate(pod))
                self._members.upsert(await self._store.patch(PODS, meta["namespace"], meta["name"], change))
            except NotFound:
                pass  # the watch will tell
            except LauncherError as error:
                log.info("gate not opened", extra={"pod": meta["name"], "why": str(error)})
                well = False
        return well

    # What the informers tell.

    def member_seen(self, key: Key, pod: Object) -> None:
        self._line.see(key, pod)
        if self._room is not None and has_terminated(pod):
            self._room.drop(key)  # what it was promised, too, if it ended before its node was heard of
        self._news.set()

    def member_gone(self, key: Key) -> None:
        self._line.lose(key)
        if self._room is not None:
            self._room.drop(key)
        self._news.set()

    def room_changed(self) -> None:
        self._news.set()


class _Nodes:
    def __init__(self, keeper: GateController, room: Room) -> None:
        self._keeper, self._room = keeper, room

    def on_upsert(self, _key: Key, obj: Object) -> None:
        self._room.set_node(obj)
        self._keeper.room_changed()

    def on_delete(self, key: Key) -> None:
        self._room.drop_node(key[1])
        self._keeper.room_changed()


class _Placed:
    def __init__(self, keeper: GateController, room: Room) -> None:
        self._keeper, self._room = keeper, room

    def on_upsert(self, _key: Key, obj: Object) -> None:
        self._room.put(obj)
        self._keeper.room_changed()

    def on_delete(self, key: Key) -> None:
        self._room.drop(key)
        self._keeper.room_changed()
