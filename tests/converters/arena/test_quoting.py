"""Commands in the quotes that Arena's documentation writes around them."""

import pytest

from tests.converters.arena.flags import AROUND, container, problems, submit


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("'python x --n 5'", "python x --n 5", id="single quotes"),
        pytest.param('"python x --n 5"', "python x --n 5", id="double quotes"),
        pytest.param(" 'python x' ", "python x", id="spaces around the quotes"),
        pytest.param("'echo it''s'", "echo it's", id="a doubled single quote"),
        pytest.param(r'"echo \"a b\""', 'echo "a b"', id="an escaped double quote"),
        pytest.param("python x", "python x", id="no quotes"),
        pytest.param("'my prog' --n 'a b'", "'my prog' --n 'a b'", id="quoted words of a shell command"),
        pytest.param('"a" && "b"', '"a" && "b"', id="two quoted commands"),
        pytest.param("echo 'a b'", "echo 'a b'", id="a quoted last word"),
        pytest.param("'", "'", id="one quote"),
        pytest.param("'a: b'", "a: b", id="text that YAML would read as a map"),
        pytest.param("'a\n  b'", "a b", id="a broken line"),
    ],
)
def test_a_quoted_command_is_the_text_inside_its_quotes(command: str, expected: str) -> None:
    found = submit(AROUND, command, name="a", image="i")

    assert container(found, "chief")["command"] == ["sh", "-c", expected]


@pytest.mark.parametrize("command", ["''", '""', "' '"])
def test_quotes_without_a_command_are_rejected(command: str) -> None:
    assert [
        problem for problem in problems(AROUND, command, name="a", image="i") if problem.startswith("COMMAND")
    ]
