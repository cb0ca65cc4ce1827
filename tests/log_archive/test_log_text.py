"""The text of archived logs: what is kept of a log, and what a request selects of it."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.pods.log_options import PodLogOptions
from launcher.log_archive.log_text import LogTail, max_lines, select

STAMP = "2026-01-31T12:00:0{}.000000000Z"


def line(number: int, text: str = "") -> bytes:
    return f"{STAMP.format(number % 10)} {text or f'line {number}'}\n".encode()


def tail(limit: int, *chunks: bytes) -> bytes:
    result = LogTail(limit)
    for chunk in chunks:
        result.add(chunk)
    return result.text()


def noted(text: bytes) -> tuple[bytes, bytes]:
    """The first line of *text*, and the rest."""
    note, _, rest = text.partition(b"\n")
    return note, rest


def test_a_short_log_is_kept_as_it_is() -> None:
    text = line(1) + line(2)

    assert tail(1000, text[:10], text[10:]) == text
    assert tail(len(text), text) == text
    assert tail(1000) == b""


def test_of_a_long_log_the_last_whole_lines_are_kept_and_the_missing_bytes_are_named() -> None:
    lines = [line(number, "x" * 200) for number in range(5)]

    note, rest = noted(tail(len(lines[0]) * 2 + 5, b"".join(lines)))

    assert rest == lines[3] + lines[4]
    missing = len(lines[0]) * 3
    assert note == f"{STAMP.format(3)} launcher: {missing} bytes of the log before this line".encode() + (
        b" were not archived"
    )


def test_if_as_many_lines_as_requested_were_received_there_may_be_more() -> None:
    limit = 320
    received = b"".join(line(number, "x" * 20) for number in range(max_lines(limit)))

    assert b"at least" in noted(tail(limit, received))[0]


def test_of_a_line_that_is_too_long_the_timestamp_and_the_end_are_kept() -> None:
    long = line(1, "x" * 500 + "the end")

    note, rest = noted(tail(100, line(0), long))

    assert rest.startswith(STAMP.format(1).encode() + b" xxx")
    assert rest.endswith(b"xthe end\n")
    assert len(rest) == 100
    missing = len(line(0)) + len(long) - 100
    assert f"{missing} bytes".encode() in note


def test_memory_is_limited_while_a_log_is_read() -> None:
    result = LogTail(1000)

    for number in range(10_000):
        result.add(line(number))
        assert len(result._text) <= 1000 + 70_000

    assert len(noted(result.text())[1]) <= 1000


@given(st.lists(st.binary(max_size=80).map(lambda text: text.replace(b"\n", b"")), max_size=40), st.data())
def test_the_tail_is_independent_of_the_chunks(texts: list[bytes], data: st.DataObject) -> None:
    log = b"".join(STAMP.format(0).encode() + b" " + text + b"\n" for text in texts)
    limit = data.draw(st.integers(150, 2000))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log)), max_size=5)))

    text = tail(limit, *(log[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(log)], strict=True)))

    assert text == tail(limit, log)
    kept = text if len(log) <= limit else noted(text)[1]
    assert log.endswith(kept)
    assert len(kept) <= limit


LOG = line(0) + line(1) + line(2) + line(3)


def at(second: float) -> float:
    return datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC).timestamp() + second


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(PodLogOptions(), b"line 0\nline 1\nline 2\nline 3\n", id="everything"),
        pytest.param(PodLogOptions(timestamps=True), LOG, id="with timestamps"),
        pytest.param(PodLogOptions(tail_lines=2), b"line 2\nline 3\n", id="the last lines"),
        pytest.param(PodLogOptions(tail_lines=0), b"", id="no line"),
        pytest.param(PodLogOptions(tail_lines=9), b"line 0\nline 1\nline 2\nline 3\n", id="more lines"),
        pytest.param(PodLogOptions(since=at(2)), b"line 2\nline 3\n", id="since the time of a line"),
        pytest.param(PodLogOptions(since=at(2.5)), b"line 3\n", id="since a time between two lines"),
        pytest.param(PodLogOptions(since=at(60)), b"", id="since a time after the end"),
        pytest.param(PodLogOptions(limit_bytes=9), b"line 0\nli", id="the first bytes"),
        pytest.param(PodLogOptions(since=at(1), tail_lines=2, limit_bytes=6), b"line 2", id="all of them"),
        pytest.param(PodLogOptions(follow=True), b"line 0\nline 1\nline 2\nline 3\n", id="nothing to follow"),
    ],
)
def test_options_select_a_part_of_the_log(options: PodLogOptions, expected: bytes) -> None:
    assert select(LOG, options) == expected


def test_carriage_returns_do_not_end_a_line() -> None:
    assert select(line(1, "10%\r20%") + line(2), PodLogOptions(tail_lines=2)) == b"10%\r20%\nline 2\n"


def test_a_node_may_have_another_time_zone() -> None:
    text = b"2026-01-31T14:00:05.000000000+02:00 later\n"

    assert select(text, PodLogOptions(since=at(4))) == b"later\n"
    assert select(text, PodLogOptions(since=at(6))) == b""


def test_a_line_without_a_timestamp_is_kept_with_the_line_before_it() -> None:
    text = line(1) + b"unable to retrieve container logs\n" + line(2) + b"no end"

    assert select(text, PodLogOptions()) == b"line 1\nunable to retrieve container logs\nline 2\nno end"
    assert select(text, PodLogOptions(since=at(2))) == b"line 2\nno end"
    assert select(text, PodLogOptions(since=at(1), tail_lines=3)).startswith(b"unable")
