"""A fenced store accepts writes during its leader term, and only reads afterwards."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any

import pytest

from launcher.core.errors import Unavailable
from launcher.store.fenced_store import FencedStore, LeaderTerm
from launcher.store.interface import CONFIG_MAPS, DeleteOptions, MergePatch, Object
from tests.controller.simulation.cluster import SimulatedStore
from tests.controller.simulation.virtual_time import run


async def _write_all_verbs(store: FencedStore) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "m"}}
    await store.create(CONFIG_MAPS, config_map)
    obj = await store.get(CONFIG_MAPS, "default", "m")
    await store.update(CONFIG_MAPS, obj | {"data": {"a": "1"}})
    await store.patch(CONFIG_MAPS, "default", "m", MergePatch({"data": {"b": "2"}}))
    await store.delete(CONFIG_MAPS, "default", "m", DeleteOptions(uid=obj["metadata"]["uid"]))


def test_a_fenced_store_forwards_writes_during_the_term() -> None:
    async def scenario() -> None:
        store = SimulatedStore(Random(1))
        fenced = FencedStore(store, LeaderTerm(10.0, asyncio.get_running_loop().time))
        before = store.version
        await _write_all_verbs(fenced)

        assert store.version == before + 4
        assert [change.type async for change in _first(fenced, 4)] == [
            "ADDED",
            "MODIFIED",
            "MODIFIED",
            "DELETED",
        ]

    run(scenario())


async def _first(store: FencedStore, number: int) -> AsyncIterator[Any]:
    async for change in store.watch(CONFIG_MAPS, since=0):
        yield change
        number -= 1
        if not number:
            return


WRITES: dict[str, Callable[[FencedStore, Object], Awaitable[Object]]] = {
    "create": lambda store, obj: store.create(CONFIG_MAPS, obj),
    "update": lambda store, obj: store.update(CONFIG_MAPS, obj),
    "update_status": lambda store, obj: store.update_status(CONFIG_MAPS, obj),
    "patch": lambda store, obj: store.patch(CONFIG_MAPS, "default", "m", MergePatch({"data": {"b": "2"}})),
    "delete": lambda store, obj: store.delete(CONFIG_MAPS, "default", "m"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_fenced_store_rejects_writes_after_the_term(
    write: Callable[[FencedStore, Object], Awaitable[Object]],
) -> None:
    async def scenario() -> None:
        store = SimulatedStore(Random(1))
        fenced = FencedStore(store, LeaderTerm(10.0, asyncio.get_running_loop().time))
        obj = await fenced.create(
            CONFIG_MAPS,
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "m"}},
        )
        before = store.version
        await asyncio.sleep(10)

        with pytest.raises(Unavailable, match="leader lease has expired"):
            await write(fenced, obj)
        assert await fenced.get(CONFIG_MAPS, "default", "m") == obj
        assert list((await fenced.list(CONFIG_MAPS)).items) == [obj]
        assert store.version == before

    run(scenario())


def test_an_expired_term_cannot_be_extended() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        term = LeaderTerm(10.0, loop.time)
        term.extend(20.0)
        term.extend(15.0)
        assert term.remaining_seconds == 20.0
        await asyncio.sleep(20)
        term.extend(100.0)

        assert (term.is_open, term.remaining_seconds) == (False, 0.0)

    run(scenario())
