"""Lines out of pieces."""

from hypothesis import given
from hypothesis import strategies as st

from launcher.store.kubernetes.kube_store import LineBuffer


@given(st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"a", b"\n")), max_size=30))
def test_however_it_is_cut_the_same_lines_come_out(pieces: list[bytes]) -> None:
    lines = LineBuffer()

    found = [line for piece in pieces for line in lines.take(piece)]

    assert found == b"".join(pieces).split(b"\n")[:-1]


def test_a_line_may_be_longer_than_any_buffer() -> None:
    lines = LineBuffer()

    assert [lines.take(b"x" * 65536) for _ in range(200)] == [[]] * 200
    assert lines.take(b"y\nz") == [b"x" * 65536 * 200 + b"y"]
