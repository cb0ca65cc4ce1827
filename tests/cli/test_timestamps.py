import pytest

from launcher.core.timestamps import seconds_in

DAY = 86400


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
