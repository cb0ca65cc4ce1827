import pytest

from launcher.core.timestamps import parse_go_duration as seconds_in
from launcher.core.timestamps import short


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
def test_40_a_duration_is_shown_by_its_largest_unit(seconds: int, text: str) -> None:
    assert short(seconds) == text


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
def test_durations_are_read_as_go_reads_them(text: str, seconds: float) -> None:
    assert seconds_in(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "s", "1h 2m", "1d", "5s!", "--5s"])
def test_what_go_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write a number and a unit"):
        seconds_in(text)
