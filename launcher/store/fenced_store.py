"""
A store that takes writes only while they are ours to make.

Whoever leads may be held up at any moment: its process stopped, its machine frozen. When it goes on it still believes
what it believed, and somebody else may have gone on in its place. So every write is held against the clock right
before it goes out. One that was under way already is caught by its precondition: the version of what it replaces, the
uid of what it deletes, the name of what it creates.
"""

from collections.abc import AsyncIterator, Callable

from launcher.core.errors import Unavailable
from launcher.store.interface import (
    Change,
    DeleteOptions,
    Object,
    Page,
    Patch,
    ResourceKind,
    Store,
    Subresource,
    Version,
)
from launcher.store.selectors import EVERYTHING, Selector


class LeaderTerm:
    """One time of leading, from its beginning to the moment from which somebody else could lead."""

    def __init__(self, until: float, steady: Callable[[], float]) -> None:
        """*until* is on *steady*, a clock that nobody sets and that does not stand still while nobody looks."""
        self._until, self._steady = until, steady

    @property
    def left(self) -> float:
        """Seconds that are left for certain; none when it is over."""
        return max(0.0, self._until - self._steady())

    @property
    def is_open(self) -> bool:
        return self.left > 0

    def extend(self, until: float) -> None:
        """It holds longer. One that is over is over for good: what is known in it may be old."""
        if self.is_open:
            self._until = max(self._until, until)

    def close(self) -> None:
        """It is over, now."""
        self._until = -1.0


class FencedStore:
    """*store* for the length of one *term*; afterwards it can only be read."""

    def __init__(self, store: Store, term: LeaderTerm) -> None:
        self._store, self._term = store, term

    def _check(self) -> None:
        if not self._term.is_open:
            raise Unavailable("nothing is written: another launcher may lead by now")

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._check()
        return await self._store.create(kind, obj, dry_run=dry_run)

    async def get(self, kind: ResourceKind, namespace: str, name: str) -> Object:
        return await self._store.get(kind, namespace, name)

    async def list(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        limit: int | None = None,
        token: str | None = None,
    ) -> Page:
        return await self._store.list(kind, namespace, where, limit=limit, token=token)

    def watch(
        self,
        kind: ResourceKind,
        namespace: str | None = None,
        where: Selector = EVERYTHING,
        *,
        since: Version,
        bookmarks: bool = False,
    ) -> AsyncIterator[Change]:
        return self._store.watch(kind, namespace, where, since=since, bookmarks=bookmarks)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._check()
        return await self._store.update(kind, obj, dry_run=dry_run)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._check()
        return await self._store.update_status(kind, obj, dry_run=dry_run)

    async def patch(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        patch: Patch,
        *,
        subresource: Subresource | None = None,
        dry_run: bool = False,
    ) -> Object:
        self._check()
        return await self._store.patch(kind, namespace, name, patch, subresource=subresource, dry_run=dry_run)

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        how: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        self._check()
        return await self._store.delete(kind, namespace, name, how, dry_run=dry_run)
