import pytest

from launcher.core.timestamps import age, format_age

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


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
def test_the_further_back_the_less_exactly(seconds: float, text: str) -> None:
    assert age(seconds) == text


@pytest.mark.parametrize("timestamp", [None, "", "yesterday", 5])
def test_a_time_that_is_none_is_not_known(timestamp: object) -> None:
    assert format_age(timestamp, 0.0) == "<unknown>"


def test_an_age_is_counted_from_a_time() -> None:
    assert format_age("1970-01-01T00:00:10Z", 55.0) == "45s"
