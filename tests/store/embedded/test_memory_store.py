"""Generated names, and reproducible results with a given clock and uid source."""

import itertools

import pytest

from launcher.core.errors import AlreadyExists
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.store.builders import NOW, a_framework, uids


def with_generate_name() -> Object:
    return a_framework("", generateName="g-")


async def test_a_generated_name_in_use_is_generated_again() -> None:
    chosen = iter(["one", "one", "one", "two"])
    store = MemoryStore(lambda: NOW, lambda: next(chosen))

    first = await store.create(FRAMEWORKS, with_generate_name())
    second = await store.create(FRAMEWORKS, with_generate_name())

    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert second["metadata"]["uid"] == "two"


async def test_name_generation_stops_after_several_attempts() -> None:
    store = MemoryStore(lambda: NOW, lambda: "always the same")
    await store.create(FRAMEWORKS, with_generate_name())

    with pytest.raises(AlreadyExists, match="no unused name"):
        await store.create(FRAMEWORKS, with_generate_name())


async def test_the_same_calls_make_the_same_objects() -> None:
    async def create_objects() -> list[Object]:
        times = itertools.count(NOW)
        store = MemoryStore(lambda: next(times), uids())
        return [await store.create(FRAMEWORKS, with_generate_name()) for _ in range(5)]

    assert await create_objects() == await create_objects()
