import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cli.output.tables import table, table_with_reasons
from launcher.cli.output.terminal import cells, cut, cut_middle, one_line, sanitize

RESET = "\x1b[0m"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("plain\ttext", "plain\ttext", id="plain text is kept"),
        pytest.param(
            "\x1b[31mred\x1b[0m",
            f"\x1b[31mred\x1b[0m{RESET}",
            id="colours are kept and reset at the end of the line",
        ),
        pytest.param("\x1b[2J\x1b[Hgone", "gone", id="cursor movement is removed"),
        pytest.param("\x1b]0;title\x07text", "text", id="title sequences are removed"),
        pytest.param("\x1b]52;c;ZXZpbA==\x1b\\text", "text", id="clipboard sequences are removed"),
        pytest.param(" 10%\r 50%\r100%", "100%", id="only the last state of a progress bar is kept"),
        pytest.param("50%\r", "50%", id="also before a carriage return"),
        pytest.param("a\x08\x07b\x9b31mc", "ab31mc", id="other control characters are removed"),
        pytest.param("broken \x1b", "broken ", id="incomplete sequences are removed"),
    ],
)
def test_control_characters_are_removed_from_lines(line: str, expected: str) -> None:
    assert sanitize(line) == expected


@given(st.text())
def test_no_control_characters_remain_in_any_text(text: str) -> None:
    cleaned = sanitize(text).replace("\t", "")

    assert "\x1b" not in re.sub(r"\x1b\[[0-9;:]*m", "", cleaned)
    assert all(character >= " " or character == "\x1b" for character in cleaned)


def test_line_breaks_in_a_cell_are_replaced() -> None:
    assert one_line("first \n\n  second\tthird\n") == "first second third"


@given(st.text(st.characters(categories=["L", "M", "N", "S"])), st.integers(0, 20))
def test_a_cut_text_fits_the_columns(text: str, columns: int) -> None:
    for fitted in (cut, cut_middle):
        assert cells(fitted(text, columns)) <= columns
        assert fitted(text, cells(text)) == text


def test_wide_characters_count_twice() -> None:
    assert (cells("日本"), cut("日本語", 5), cut_middle("日本語", 5)) == (4, "日本…", "日…語")


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    lines = list(table(("NAME", "STATE"), [("a", "Running"), ("longer", "")], None))

    assert lines == ["NAME     STATE", "a        Running", "longer"]


def test_reasons_that_do_not_fit_are_printed_below_their_rows() -> None:
    rows = [("a", "Running", ""), ("b", "Failed", "because of a problem that takes many words to explain")]

    in_column = list(table_with_reasons(("TASK", "STATE", "REASON"), rows, 80))
    below = list(table_with_reasons(("TASK", "STATE", "REASON"), rows, 40))

    assert in_column[2].endswith("b      Failed    because of a problem that takes many words to explain")
    assert below == [
        "TASK   STATE",
        "a      Running",
        "b      Failed",
        "    because of a problem that takes many",
        "    words to explain",
    ]


def test_the_widest_cells_are_cut_in_the_middle_where_the_terminal_is_narrow() -> None:
    row = ("a-rather-long-name-of-a-framework", "Running", "why it is there, in many words")

    header, line = table(("NAME", "STATE", "MESSAGE"), [row], 40)

    assert len(header) <= 40
    assert line == "a-rath…mework   Running   why it…y words"


@given(
    st.lists(st.tuples(st.text("ab日", max_size=60), st.text("ab", max_size=60)), max_size=5),
    st.integers(1, 100),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str]], width: int) -> None:
    assert all(cells(line) <= width for line in table(("A", "B"), rows, width))


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        pytest.param("e\u0301", 1, id="a combining accent"),
        pytest.param("a\u200bb", 2, id="a zero-width space"),
        pytest.param("\u2764\ufe0f", 1, id="a variation selector"),
        pytest.param("\u1112\u1161\u11ab", 2, id="a syllable of Hangul"),
        pytest.param("\u4f60\u597d", 4, id="wide characters"),
    ],
)
def test_combining_and_zero_width_characters_take_no_columns(text: str, columns: int) -> None:
    assert cells(text) == columns
