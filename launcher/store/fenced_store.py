"""
A store that accepts writes only during a leader term.

A leader may be suspended at any moment, with its process or its machine. When it resumes, another replica may lead.
Every write therefore checks the clock right before it is sent. A write already in flight is caught by its
precondition: the version of the object it replaces, the uid of the one it deletes, the name of the one it creates.
"""

from collections.abc import Callable

from launcher.core.errors import Unavailable
from launcher.store.forwarding_store import ForwardingStore
from launcher.store.interface import (
    DeleteOptions,
    Object,
    Patch,
    ResourceKind,
    Store,
    Subresource,
)


class LeaderTerm:
    """One period of leadership, until another replica could acquire the lease."""

    def __init__(self, until: float, monotonic: Callable[[], float]) -> None:
        """*until* is a time of *monotonic*, which must advance while the machine is suspended."""
        self._until, self._monotonic = until, monotonic

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the term ends; 0 after its end."""
        return max(0.0, self._until - self._monotonic())

    @property
    def is_open(self) -> bool:
        return self.remaining_seconds > 0

    def extend(self, until: float) -> None:
        """Extends the term. An expired term stays expired: observations made in it may be outdated."""
        if self.is_open:
            self._until = max(self._until, until)

    def close(self) -> None:
        """Ends the term now."""
        self._until = -1.0


class FencedStore(ForwardingStore):
    """Forwards to *store*; raises Unavailable for writes after the end of the *term*."""

    def __init__(self, store: Store, term: LeaderTerm) -> None:
        super().__init__(store)
        self._term = term

    def _check(self) -> None:
        if not self._term.is_open:
            raise Unavailable("write rejected: the leader lease has expired")

    async def create(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._check()
        return await super().create(kind, obj, dry_run=dry_run)

    async def update(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._check()
        return await super().update(kind, obj, dry_run=dry_run)

    async def update_status(self, kind: ResourceKind, obj: Object, *, dry_run: bool = False) -> Object:
        self._check()
        return await super().update_status(kind, obj, dry_run=dry_run)

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
        return await super().patch(kind, namespace, name, patch, subresource=subresource, dry_run=dry_run)

    async def delete(
        self,
        kind: ResourceKind,
        namespace: str,
        name: str,
        options: DeleteOptions = DeleteOptions(),
        *,
        dry_run: bool = False,
    ) -> Object:
        self._check()
        return await super().delete(kind, namespace, name, options, dry_run=dry_run)
