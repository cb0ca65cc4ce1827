"""Every adapter of the port, each in turn behind one name."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.embedded.sqlite_store import SqliteStore
from launcher.store.interface import Store
from tests.cluster.conftest import programs
from tests.store.builders import uids
from tests.store.kubernetes.quiet import quiet, quiet_store

__all__ = ["programs", "quiet"]


@pytest.fixture(params=["memory", "sqlite", "kube"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """An empty store."""
    if request.param == "memory":
        yield MemoryStore(time.time, uids())
    elif request.param == "sqlite":
        opened = await SqliteStore.open(tmp_path / "store.db", clock=time.time, new_uid=uids())
        yield opened
        await opened.close()
    else:
        async with quiet_store(request.getfixturevalue("quiet")) as store:
            yield store
