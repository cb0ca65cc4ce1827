"""Bin packing against an exhaustive search."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from launcher.scheduling.bin_packing import PackingItem, ResourceVector, pack
from tests.hypothesis_examples import examples

ANYWHERE = frozenset({0, 1, 2})

amounts = st.tuples(st.integers(0, 4), st.integers(0, 2))
capacities = st.lists(st.tuples(st.integers(-1, 7), st.integers(0, 3)), min_size=3, max_size=3)
items = st.lists(
    st.builds(PackingItem, amounts, st.frozensets(st.integers(0, 2), max_size=3) | st.just(ANYWHERE)),
    min_size=1,
    max_size=6,
)


def fits(items: list[PackingItem], capacities: list[ResourceVector], minimum: int) -> bool:
    """Whether an exhaustive search finds a packing."""
    for bins in product([None, 0, 1, 2], repeat=len(items)):
        packed = [
            (item, bin_index) for item, bin_index in zip(items, bins, strict=True) if bin_index is not None
        ]
        if len(packed) >= minimum and is_valid(packed, capacities):
            return True
    return False


def is_valid(packed: list[tuple[PackingItem, int]], capacities: list[ResourceVector]) -> bool:
    free = [list(capacity) for capacity in capacities]
    for item, bin_index in packed:
        for kind, amount in enumerate(item.amounts):
            free[bin_index][kind] -= amount
        if bin_index not in item.bins or min(free[bin_index]) < 0:
            return False
    return True


@examples(300)
@given(items=items, capacities=capacities, data=st.data())
def test_a_packing_is_found_whenever_one_exists(
    items: list[PackingItem], capacities: list[ResourceVector], data: st.DataObject
) -> None:
    minimum = data.draw(st.integers(1, len(items)))

    found = pack(items, capacities, minimum, steps=100_000)

    assert (found is not None) == fits(items, capacities, minimum)
    if found is not None:
        assert len(found) >= minimum
        assert is_valid([(items[item], bin_index) for item, bin_index in found.items()], capacities)


def test_the_search_stops_after_the_given_steps() -> None:
    odd = [PackingItem((3,), frozenset(range(40))) for _ in range(120)]

    assert pack(odd, [(8,)] * 40, minimum=120, steps=1000) is None


def test_many_items_are_packed_in_few_steps() -> None:
    mixed = [PackingItem((size,), frozenset(range(100))) for size in (1, 2, 4, 8) for _ in range(100)]

    found = pack(mixed, [(15,)] * 100, minimum=400, steps=1000)

    assert found is not None
    assert len(found) == 400
