"""How many things fit into several places at once."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.scheduling.bin_packing import Amounts, PackingItem, pack

ANYWHERE = frozenset({0, 1, 2})

amounts = st.tuples(st.integers(0, 4), st.integers(0, 2))
rooms = st.lists(st.tuples(st.integers(-1, 7), st.integers(0, 3)), min_size=3, max_size=3)
things = st.lists(
    st.builds(PackingItem, amounts, st.frozensets(st.integers(0, 2), max_size=3) | st.just(ANYWHERE)),
    min_size=1,
    max_size=6,
)


def fits(things: list[PackingItem], rooms: list[Amounts], need: int) -> bool:
    """Whether any way at all leads there."""
    for places in product([None, 0, 1, 2], repeat=len(things)):
        put = [(thing, place) for thing, place in zip(things, places, strict=True) if place is not None]
        if len(put) >= need and is_right(put, rooms):
            return True
    return False


def is_right(put: list[tuple[PackingItem, int]], rooms: list[Amounts]) -> bool:
    left = [list(room) for room in rooms]
    for thing, place in put:
        for kind, amount in enumerate(thing.amounts):
            left[place][kind] -= amount
        if place not in thing.places or min(left[place]) < 0:
            return False
    return True


@settings(max_examples=300, deadline=None)
@given(things=things, rooms=rooms, data=st.data())
def test_a_way_is_found_whenever_there_is_one(
    things: list[PackingItem], rooms: list[Amounts], data: st.DataObject
) -> None:
    need = data.draw(st.integers(1, len(things)))

    found = pack(things, rooms, need, steps=100_000)

    assert (found is not None) == fits(things, rooms, need)
    if found is not None:
        assert len(found) >= need
        assert is_right([(things[thing], place) for thing, place in found.items()], rooms)


def test_it_is_given_up_after_so_many_steps() -> None:
    odd = [PackingItem((3,), frozenset(range(40))) for _ in range(120)]

    assert pack(odd, [(8,)] * 40, need=120, steps=1000) is None


def test_many_are_packed_in_a_few_steps() -> None:
    mixed = [PackingItem((size,), frozenset(range(100))) for size in (1, 2, 4, 8) for _ in range(100)]

    found = pack(mixed, [(15,)] * 100, need=400, steps=1000)

    assert found is not None
    assert len(found) == 400
