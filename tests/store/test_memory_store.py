"""What only a store with a given clock and given uids can show."""

import itertools

import pytest

from launcher.core.errors import AlreadyExists
from launcher.store.embedded.memory_store import MemoryStore
from launcher.store.interface import FRAMEWORKS, Object
from tests.store.builders import NOW, a_framework, uids


def unnamed() -> Object:
    return a_framework("", generateName="g-")


async def test_a_generated_name_that_is_taken_is_made_anew() -> None:
    chosen = iter(["one", "one", "one", "two"])
    store = MemoryStore(lambda: NOW, lambda: next(chosen))

    first = await store.create(FRAMEWORKS, unnamed())
    second = await store.create(FRAMEWORKS, unnamed())

    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert second["metadata"]["uid"] == "two"


async def test_names_that_are_taken_time_and_again_are_given_up() -> None:
    store = MemoryStore(lambda: NOW, lambda: "always the same")
    await store.create(FRAMEWORKS, unnamed())

    with pytest.raises(AlreadyExists, match="no free name"):
        await store.create(FRAMEWORKS, unnamed())


async def test_the_same_calls_make_the_same_objects() -> None:
    async def made() -> list[Object]:
        times = itertools.count(NOW)
        store = MemoryStore(lambda: next(times), uids())
        return [await store.create(FRAMEWORKS, unnamed()) for _ in range(5)]

    assert await made() == await made()
