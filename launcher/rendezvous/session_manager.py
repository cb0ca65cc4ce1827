"""The rendezvous sessions of a launcher: one for each Framework with waiting requests."""

import asyncio
from dataclasses import dataclass, field

from launcher.core.errors import NotFound, TooManyRequests, Unavailable
from launcher.rendezvous.peer_files import PeerFiles
from launcher.rendezvous.session import MissingPeers, PeerRequest, RendezvousSession
from launcher.store.interface import FRAMEWORKS, Key, Store

#: Limit of waiting requests over all Frameworks; each has a connection.
_MAX_WAITERS = 20_000
#: Limit of sessions; each has a watch.
_MAX_SESSIONS = 1_000
#: An idle session is kept this long, because the pods of a Framework do not start at the same time.
_IDLE_SECONDS = 30.0
_RETRY_AFTER_SECONDS = 5.0
_SHUTTING_DOWN = "the launcher is shutting down; retry"


@dataclass(slots=True)
class _ManagedSession:
    """A session, the task that runs it, and the timer that ends it when it is idle."""

    session: RendezvousSession
    #: The uid in the token that opened the session.
    uid: str
    task: asyncio.Task[None]
    idle_timer: asyncio.TimerHandle | None = field(default=None)


class SessionManager:
    """Opens sessions on request while ``run`` runs, and ends those that are idle."""

    def __init__(
        self,
        store: Store,
        *,
        max_waiters: int = _MAX_WAITERS,
        max_sessions: int = _MAX_SESSIONS,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._store = store
        self._max_waiters, self._max_sessions, self._idle_seconds = max_waiters, max_sessions, idle_seconds
        self._sessions: dict[Key, _ManagedSession] = {}
        #: The sessions by the uid in the token that opened them.
        self._keys_by_uid: dict[str, Key] = {}
        self._group: asyncio.TaskGroup | None = None
        self._running = asyncio.Event()
        self._closed = False

    @property
    def waiters(self) -> int:
        """Number of waiting requests."""
        return sum(managed.session.waiters for managed in self._sessions.values())

    async def run(self) -> None:
        """Runs the sessions until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            self._running.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.close()

    def close(self) -> None:
        """Fails all waiting and all further requests, so that clients retry at another replica or later."""
        self._closed = True
        for managed in self._sessions.values():
            managed.session.close(Unavailable(_SHUTTING_DOWN))

    async def wait_for_peers(
        self, key: Key, request: PeerRequest, wait_seconds: float
    ) -> tuple[RendezvousSession, PeerFiles | MissingPeers]:
        """
        Returns the session of the Framework and the result of its ``wait_for_peers``.

        Raises what that raises, and TooManyRequests.
        """
        if self.waiters >= self._max_waiters:
            raise TooManyRequests("too many waiting requests; retry later", _RETRY_AFTER_SECONDS)
        await self._running.wait()
        managed = self._get_or_open(key, request.uid)
        session = managed.session
        if session.waiters >= session.max_waiters:
            raise TooManyRequests(
                "too many waiting requests of this Framework; retry later", _RETRY_AFTER_SECONDS
            )
        try:
            return session, await session.wait_for_peers(request, wait_seconds)
        except NotFound:
            # There are no sessions for Frameworks that do not exist.
            if not session.waiters and self._sessions.get(key) is managed:
                self._end(key)
            raise
        finally:
            if not session.waiters and managed.idle_timer is None and self._sessions.get(key) is managed:
                loop = asyncio.get_running_loop()
                managed.idle_timer = loop.call_later(self._idle_seconds, self._end, key)

    def _get_or_open(self, key: Key, uid: str) -> _ManagedSession:
        if self._closed or self._group is None:
            raise Unavailable(_SHUTTING_DOWN)
        managed = self._sessions.get(key)
        if managed is None:
            if uid in self._keys_by_uid:
                # A token is valid for one Framework, so at least one of the two names is wrong.
                raise NotFound(f'{FRAMEWORKS.resource} "{key[1]}" not found')
            if len(self._sessions) >= self._max_sessions:
                raise TooManyRequests(
                    "too many Frameworks with waiting requests; retry later", _RETRY_AFTER_SECONDS
                )
            session = RendezvousSession(self._store, key)
            managed = self._sessions[key] = _ManagedSession(
                session, uid, self._group.create_task(session.run())
            )
            self._keys_by_uid[uid] = key
        if managed.idle_timer is not None:
            managed.idle_timer.cancel()
            managed.idle_timer = None
        return managed

    def _end(self, key: Key) -> None:
        managed = self._sessions.pop(key)
        del self._keys_by_uid[managed.uid]
        if managed.idle_timer is not None:
            managed.idle_timer.cancel()
        managed.task.cancel()
