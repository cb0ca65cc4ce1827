"""Completion, with bash itself: what it would offer for a line up to the cursor."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from launcher.cli.main import main, make_parser
from launcher.cli.output.shell_completion import commands_of
from tests.cli.terminals import PATIENCE, PROJECT, Terminal, launcher


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def offered(line: str, directory: Path, capsys: pytest.CaptureFixture[str], **variables: str) -> list[str]:
    """What bash offers at the end of *line*, in *directory*."""
    completing = "COMP_LINE=$1 COMP_POINT=${#1}\n_launcher\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", script("bash", capsys) + completing, "bash", line],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
        timeout=PATIENCE,
        env={**os.environ, **variables},
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param("launcher st", {"story", "start", "stop", "store"}, id="commands"),
        pytest.param("launcher store r", {"restore"}, id="actions of a command"),
        pytest.param("launcher get --a", {"--all"}, id="options of a command"),
        pytest.param("launcher list -o ", {"wide", "json", "yaml", "name"}, id="words that an option takes"),
        pytest.param("launcher wait x --for S", {"Succeeded"}, id="behind an argument too"),
        pytest.param("launcher submit fr", {"framework.yaml"}, id="files"),
        pytest.param("launcher submit framework.yaml da", {"data"}, id="more files"),
        pytest.param("launcher run --keep ", {"data"}, id="directories"),
        pytest.param("launcher run --token", set(), id="nothing that the command does not know"),
        pytest.param("launcher logs mnist ", set(), id="nothing where nothing is known"),
        pytest.param("launcher completion z", {"zsh"}, id="words that an argument takes"),
    ],
)
def test_bash_offers(line: str, words: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "framework.yaml").touch()
    (tmp_path / "data").mkdir()

    assert set(offered(line, tmp_path, capsys)) == words


def test_without_a_server_no_name_is_offered_and_nothing_is_said(
    free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "names", "--server", f"http://127.0.0.1:{free_port}"]) == 0

    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")


def test_tab_completes_in_an_interactive_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "launcher.bash").write_text(script("bash", capsys))

    with Terminal(["bash", "--norc", "--noprofile", "-i"], directory=tmp_path) as bash:
        bash.type("source launcher.bash; PS1='READY '\n")
        bash.until(r"[\n\r]\S*READY")
        bash.type("launcher vali\t--st\t")

        bash.until("launcher validate --strict ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_script_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = script(shell, capsys)

    for command in commands_of(make_parser()):
        assert re.search(rf"\b{command.name}\b", text)
        for option in command.options:
            assert all(flag.lstrip("-") in text for flag in option.flags)


def test_every_command_has_an_example_of_itself_in_its_help() -> None:
    for command in commands_of(make_parser()):
        done = subprocess.run(
            launcher(command.name, "--help"),
            capture_output=True,
            text=True,
            check=True,
            cwd=PROJECT,
            timeout=PATIENCE,
            env={**os.environ, "COLUMNS": "80"},
        )
        assert f"launcher {command.name}" in done.stdout.partition("example")[2]
        assert all(len(line) <= 80 for line in done.stdout.splitlines())
