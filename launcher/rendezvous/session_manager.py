"""All rooms of a launcher: one for each Framework that somebody waits for, and no others."""

import asyncio
from dataclasses import dataclass, field

from launcher.core.errors import NotFound, TooManyRequests, Unavailable
from launcher.rendezvous.peer_files import Files
from launcher.rendezvous.session import MissingPeers, PeerRequest, RendezvousSession
from launcher.store.interface import FRAMEWORKS, Key, Store

#: Who waits at one time, over all Frameworks; each has a connection.
_WAITERS = 20_000
#: Frameworks that are waited for at one time; each has a watch.
_ROOMS = 1_000
#: Seconds for which a room stays open when nobody is in it: pods of one Framework do not all come at once.
_LINGER = 30.0
_STOPPING = "the launcher is about to stop; ask again in a moment"


@dataclass(slots=True)
class _Kept:
    """A room, who keeps it open, and when it is closed if nobody comes."""

    room: RendezvousSession
    #: The uid in the token that it was opened with.
    opened_by: str
    task: asyncio.Task[None]
    closing: asyncio.TimerHandle | None = field(default=None)


class SessionManager:
    """Opens rooms for those who come, while ``run`` runs, and closes them when all have gone."""

    def __init__(
        self, store: Store, *, waiters: int = _WAITERS, rooms: int = _ROOMS, linger: float = _LINGER
    ) -> None:
        self._store = store
        self._most_waiters, self._most_rooms, self._linger = waiters, rooms, linger
        self._rooms: dict[Key, _Kept] = {}
        self._opened_by: dict[str, Key] = {}
        self._group: asyncio.TaskGroup | None = None
        self._ready = asyncio.Event()
        self._closed = False

    @property
    def waiters(self) -> int:
        """How many wait just now."""
        return sum(kept.room.waiters for kept in self._rooms.values())

    async def run(self) -> None:
        """Let rooms be opened until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.close()

    def close(self) -> None:
        """Everybody who waits or comes is told at once to ask another launcher, or later."""
        self._closed = True
        for kept in self._rooms.values():
            kept.room.close(Unavailable(_STOPPING))

    async def answer(
        self, key: Key, ask: PeerRequest, seconds: float
    ) -> tuple[RendezvousSession, Files | MissingPeers]:
        """What ``Room.answer`` says, and the room. Raises TooManyRequests, beside what that raises."""
        if self.waiters >= self._most_waiters:
            raise TooManyRequests("too many wait for their peers at once; ask again later", retry_after=5.0)
        await self._ready.wait()
        kept = self._kept(key, ask.uid)
        if kept.room.waiters >= kept.room.most_waiters:
            raise TooManyRequests(
                "too many wait for the peers of this Framework at once; ask again later", retry_after=5.0
            )
        try:
            return kept.room, await kept.room.answer(ask, seconds)
        except NotFound:
            # Nothing is kept for what does not exist.
            if not kept.room.waiters and self._rooms.get(key) is kept:
                self._drop(key)
            raise
        finally:
            if not kept.room.waiters and kept.closing is None and self._rooms.get(key) is kept:
                kept.closing = asyncio.get_running_loop().call_later(self._linger, self._drop, key)

    def _kept(self, key: Key, uid: str) -> _Kept:
        if self._closed or self._group is None:
            raise Unavailable(_STOPPING)
        kept = self._rooms.get(key)
        if kept is None:
            if uid in self._opened_by:
                # A token is of one Framework, so it opens one room: of these two names one is wrong.
                raise NotFound(f'{FRAMEWORKS.resource} "{key[1]}" not found')
            if len(self._rooms) >= self._most_rooms:
                raise TooManyRequests("too many Frameworks wait at once; ask again later", retry_after=5.0)
            room = RendezvousSession(self._store, key)
            kept = self._rooms[key] = _Kept(room, uid, self._group.create_task(room.run()))
            self._opened_by[uid] = key
        if kept.closing is not None:
            kept.closing.cancel()
            kept.closing = None
        return kept

    def _drop(self, key: Key) -> None:
        kept = self._rooms.pop(key)
        del self._opened_by[kept.opened_by]
        if kept.closing is not None:
            kept.closing.cancel()
        kept.task.cancel()
