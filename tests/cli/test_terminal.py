import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cli.output.tables import table, table_with_reasons
from launcher.cli.output.terminal import cells, cut, harmless, one_line

RESET = "\x1b[0m"


@pytest.mark.parametrize(
    ("line", "left"),
    [
        pytest.param("plain\ttext", "plain\ttext", id="plain text stays"),
        pytest.param(
            "\x1b[31mred\x1b[0m", f"\x1b[31mred\x1b[0m{RESET}", id="colours stay, and end with the line"
        ),
        pytest.param("\x1b[2J\x1b[Hgone", "gone", id="nothing is erased or moved to"),
        pytest.param("\x1b]0;title\x07text", "text", id="no title is set"),
        pytest.param("\x1b]52;c;ZXZpbA==\x1b\\text", "text", id="no clipboard is written"),
        pytest.param(" 10%\r 50%\r100%", "100%", id="of a progress bar the last is left"),
        pytest.param("50%\r", "50%", id="also when it is about to be written over"),
        pytest.param("a\x08\x07b\x9b31mc", "ab31mc", id="no other control character is left"),
        pytest.param("broken \x1b", "broken ", id="nor half of a sequence"),
    ],
)
def test_a_line_of_somebody_else_can_do_nothing_to_the_terminal(line: str, left: str) -> None:
    assert harmless(line) == left


@given(st.text())
def test_no_text_gets_control_characters_through(text: str) -> None:
    left = harmless(text).replace("\t", "")

    assert "\x1b" not in re.sub(r"\x1b\[[0-9;:]*m", "", left)
    assert all(sign >= " " or sign == "\x1b" for sign in left)


def test_a_text_of_many_lines_fits_a_cell() -> None:
    assert one_line("first \n\n  second\tthird\n") == "first second third"


@given(st.text(st.characters(categories=["L", "M", "N", "S"])), st.integers(0, 20))
def test_a_cut_text_takes_no_more_columns_than_there_are(text: str, columns: int) -> None:
    assert cells(cut(text, columns)) <= columns
    assert cut(text, cells(text)) == text


def test_wide_characters_count_twice() -> None:
    assert (cells("日本"), cut("日本語", 5)) == (4, "日本…")


def test_columns_are_as_wide_as_they_have_to_be() -> None:
    lines = list(table(("NAME", "STATE"), [("a", "Running"), ("longer", "")], None))

    assert lines == ["NAME     STATE", "a        Running", "longer"]


def test_reasons_stand_whole_below_their_rows_where_there_is_no_room_beside_them() -> None:
    rows = [("a", "Running", ""), ("b", "Failed", "because of a thing that takes many words to tell")]

    beside = list(table_with_reasons(("TASK", "STATE", "REASON"), rows, 80))
    below = list(table_with_reasons(("TASK", "STATE", "REASON"), rows, 40))

    assert beside[2].endswith("b      Failed    because of a thing that takes many words to tell")
    assert below == [
        "TASK   STATE",
        "a      Running",
        "b      Failed",
        "    because of a thing that takes many",
        "    words to tell",
    ]


def test_the_widest_columns_are_cut_where_the_terminal_is_narrow() -> None:
    row = ("a-rather-long-name-of-a-framework", "Running", "why it is there, in many words")

    header, line = table(("NAME", "STATE", "MESSAGE"), [row], 40)

    assert len(header) <= 40
    assert line == "a-rather-lon…   Running   why it is the…"


@given(
    st.lists(st.tuples(st.text("ab日", max_size=60), st.text("ab", max_size=60)), max_size=5),
    st.integers(1, 100),
)
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str]], width: int) -> None:
    assert all(cells(line) <= width for line in table(("A", "B"), rows, width))
