"""Sets of task indexes as text: ``0,2-5``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.serialization.index_ranges import INDEXES_END, from_text, to_text


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([0], "0"), ([0, 1], "0-1"), ([0, 1, 2, 7], "0-2,7"), ([3, 5, 7], "3,5,7"), ([], "")],
)
def test_consecutive_indexes_are_written_as_a_range(indexes: list[int], text: str) -> None:
    assert to_text(indexes) == text


@given(st.sets(st.integers(0, INDEXES_END - 1), min_size=1))
def test_formatted_indexes_are_parsed_back(indexes: set[int]) -> None:
    assert from_text(to_text(sorted(indexes))) == sorted(indexes)


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("7", [7]), ("0,2-4", [0, 2, 3, 4]), (" 1 , 3-4 ", [1, 3, 4]), ("9999", [9999]), ("2-2", [2])],
)
def test_spaces_and_overlapping_ranges_are_accepted(text: str, indexes: list[int]) -> None:
    assert from_text(text) == indexes


@pytest.mark.parametrize(
    "text",
    ["", ",", "1,", "x", "-1", "1-", "1-x", "3-1", "1_0", "٣", "10000", "0-99999999999", "9" * 5000,
     ",".join(["0-9999"] * 2)],
)  # fmt: skip
def test_invalid_index_ranges_are_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="index"):
        from_text(text)
