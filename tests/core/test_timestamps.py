"""Timestamps, ages and durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.timestamps import (
    age,
    format_age,
    format_rfc3339,
    format_short,
    parse_go_duration,
    parse_rfc3339,
    seconds_in,
)

NOON = 1_769_860_800
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


# RFC 3339.


def test_a_time_is_formatted_in_whole_seconds_of_utc() -> None:
    assert format_rfc3339(NOON) == "2026-01-31T12:00:00Z"


@given(st.integers(0, 4_000_000_000))
def test_a_formatted_time_is_parsed_back(time: int) -> None:
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
def test_offsets_and_fractions_are_parsed(text: str) -> None:
    assert parse_rfc3339(text) == NOON


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-31", "2026-01-31T12:00:00", "2026-13-01T00:00:00Z"]
)
def test_an_invalid_timestamp_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"zone|isoformat|month"):
        parse_rfc3339(text)


# Ages.


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (0.4, "0s"),
        (45, "45s"),
        (119, "119s"),
        (119.9, "119s"),
        (2 * MINUTE, "2m"),
        (3 * MINUTE + 20, "3m20s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 20, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (5 * HOUR + 10 * MINUTE, "5h10m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (8 * HOUR + 10 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (8 * DAY + 4 * HOUR, "8d"),
        (400 * DAY, "400d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR + 40 * DAY, "2y40d"),
        (9 * YEAR, "9y"),
    ],
)
def test_an_age_is_formatted_as_by_kubectl(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", 5])
def test_the_age_of_an_invalid_time_is_unknown(timestamp: object) -> None:
    assert format_age(timestamp, 0.0) == "<unknown>"


def test_an_age_is_the_difference_to_now() -> None:
    assert format_age("1970-01-01T00:00:10Z", 55.0) == "45s"


# Durations of the command line.


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("0.5s", 0.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("2d", 2 * DAY),
        ("1d1h1m1s", 90061),
    ],
)
def test_a_duration_is_parsed(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "m", "-5m", "30m1h", "1.5h"])
def test_an_invalid_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="90s, 5m or 1h30m"):
        seconds_in(text)


# Durations of Arena.


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (59, "59s"),
        (60, "1m"),
        (3599, "59m"),
        (3600, "1h"),
        (24 * 3600, "1d"),
        (364 * 86400, "364d"),
        (366 * 86400, "1y"),
    ],
)
def test_a_duration_is_formatted_with_its_largest_unit(seconds: int, text: str) -> None:
    assert format_short(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5s", 5),
        ("1m", 60),
        ("2h22m", 8520),
        ("1.5h", 5400),
        ("300ms", 0.3),
        ("0", 0),
        ("-2s", -2),
        ("+1s", 1),
    ],
)
def test_a_go_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_go_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1h 2m", "1d", "5s!", "--5s"])
def test_an_invalid_go_duration_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="must be a number with a unit"):
        parse_go_duration(text)
