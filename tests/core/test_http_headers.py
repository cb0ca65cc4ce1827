import pytest

from launcher.core.http_headers import accepts_gzip


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5", True),
        ("gzip; q=0", False),
        ("gzip;q=0.000, br", False),
        ("br, gzip ; q=1", True),
    ],
)
def test_gzip_is_accepted_if_its_quality_is_not_zero(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted
