"""Every implementation of the store interface, as one parametrized fixture."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import Store
from tests.store.builders import uids
from tests.store.kubernetes.real_api_server import bare_api_server, empty_api_server_store

__all__ = ["bare_api_server"]


@pytest.fixture(params=["memory", "sqlite", pytest.param("kube", marks=pytest.mark.cluster)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    if request.param == "memory":
        yield MemoryStore(time.time, uids())
    elif request.param == "sqlite":
        sqlite_store = await SqliteStore.open(tmp_path / "store.db", clock=time.time, new_uid=uids())
        yield sqlite_store
        await sqlite_store.close()
    else:
        async with empty_api_server_store(request.getfixturevalue("bare_api_server")) as store:
            yield store
