"""Store in memory, without durability."""

from collections.abc import Callable

from launcher.store.embedded.embedded_store import EmbeddedStore
from launcher.store.embedded.rows import Entry, Row
from launcher.store.embedded.watch_cache import WatchCache
from launcher.store.interface import Key, Version


class MemoryStore(EmbeddedStore):
    """Objects in memory. Writes take effect at once."""

    def __init__(
        self, clock: Callable[[], float], new_uid: Callable[[], str], watch_cache: WatchCache | None = None
    ) -> None:
        super().__init__(clock, new_uid, watch_cache or WatchCache())

    async def _wait_until_ready(self) -> None:
        pass

    def _latest(self, resource: str, key: Key) -> Row | None:
        return self._table.get(resource, key)

    def _next_version(self) -> Version:
        return self._watch_cache.version + 1

    async def _save(self, entry: Entry) -> None:
        self._publish(entry)

    async def _wait_committed(self, resource: str, key: Key) -> None:
        pass
