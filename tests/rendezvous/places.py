"""Rooms over a store in memory, and those who ask there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from launcher.core.spec import RoleName
from launcher.rendezvous.peer_files import Files, TaskId
from launcher.rendezvous.session import MissingPeers, PeerRequest
from launcher.rendezvous.session_manager import SessionManager
from tests.api.client import until
from tests.rendezvous.world import NAMESPACE, World

#: Seconds that anything may take.
PATIENCE = 60.0
KEY = (NAMESPACE, "mnist")


class Place(World):
    """A world with rooms."""

    def __init__(self, **bounds: Any) -> None:
        super().__init__()
        self.rooms = SessionManager(self.store, **bounds)

    def ask(self, task: str = "", **what: Any) -> PeerRequest:
        role, _, index = task.partition("/")
        asker = TaskId(RoleName(role), int(index)) if task else None
        return PeerRequest(**{"uid": self.uid, "attempt": 0, "asker": asker, **what})

    async def answer(self, task: str = "", *, seconds: float = PATIENCE, **what: Any) -> Files | MissingPeers:
        _, found = await self.rooms.answer(KEY, self.ask(task, **what), seconds)
        return found

    async def told(self, task: str = "", **what: Any) -> dict[str, list[str]]:
        """The addresses that an asker is told."""
        found = await self.answer(task, **what)
        assert isinstance(found, Files), found
        return {role: [peer.ip for peer in peers] for role, peers in found.roster.roles.items()}

    async def waiting(self, number: int = 1) -> None:
        """Return when so many wait."""
        await until(lambda: self.rooms.waiters == number)

    async def heard(self) -> None:
        """Return when whoever follows the pods has heard of the last that was written."""
        version = self.store.version
        await until(lambda: self.store.heard >= version)


@asynccontextmanager
async def a_place(**bounds: Any) -> AsyncIterator[Place]:
    place = Place(**bounds)
    running = asyncio.create_task(place.rooms.run())
    try:
        yield place
    finally:
        running.cancel()
        await asyncio.wait([running])
