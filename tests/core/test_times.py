"""Points in time, here and on the wire."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.timestamps import format_rfc3339, parse_rfc3339

NOON = 1_769_860_800


def test_a_time_is_written_in_whole_seconds_of_utc() -> None:
    assert format_rfc3339(NOON) == "2026-01-31T12:00:00Z"


@given(st.integers(0, 4_000_000_000))
def test_what_is_written_reads_the_same(time: int) -> None:
    assert parse_rfc3339(format_rfc3339(time)) == time


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00+00:00",
        "2026-01-31T13:00:00+01:00",
        "2026-01-31T12:00:00.999Z",
        "2026-01-31T12:00:00.999999Z",
    ],
)
def test_other_ways_to_write_the_same_second(text: str) -> None:
    assert parse_rfc3339(text) == NOON


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-13-01T00:00:00Z"]
)
def test_what_is_no_point_in_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|isoformat|month"):
        parse_rfc3339(text)
