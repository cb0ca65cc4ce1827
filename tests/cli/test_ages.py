import pytest

from launcher.cli.ages import seconds_in, shown

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86400, 365 * 86400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119.9, "119s"),
        (2 * MINUTE, "2m"),
        (3 * MINUTE + 20, "3m20s"),
        (10 * MINUTE, "10m"),
        (3 * HOUR - 1, "179m"),
        (5 * HOUR + 10 * MINUTE, "5h10m"),
        (8 * HOUR + 5 * MINUTE, "8h"),
        (2 * DAY, "2d"),
        (3 * DAY + 4 * HOUR, "3d4h"),
        (400 * DAY, "400d"),
        (2 * YEAR + 40 * DAY, "2y40d"),
        (9 * YEAR, "9y"),
    ],
)
def test_a_duration_is_shown_as_kubectl_shows_it(seconds: float, text: str) -> None:
    assert shown(seconds) == text


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
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert seconds_in(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 m", "m", "-5m", "30m1h", "1.5h"])
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="90s, 5m or 1h30m"):
        seconds_in(text)
