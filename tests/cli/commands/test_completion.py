"""Shell completion."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli.main import COMMANDS, main
from tests.builders import a_framework
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import Terminal
from tests.eventually import TIMEOUT_SECONDS


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completions(
    line: str, directory: Path, capsys: pytest.CaptureFixture[str], **variables: str
) -> list[str]:
    """The completions of bash at the end of *line*, in *directory*."""
    completing = "COMP_LINE=$1 COMP_POINT=${#1}\n_launcher\nprintf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", script("bash", capsys) + completing, "bash", line],
        capture_output=True,
        text=True,
        check=True,
        cwd=directory,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, **variables},
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("launcher st", {"start", "stop", "store"}, id="commands"),
        pytest.param("launcher store r", {"restore"}, id="actions of a command"),
        pytest.param("launcher store restore --f", {"--force"}, id="options of an action"),
        pytest.param("launcher get --a", {"--all"}, id="options of a command"),
        pytest.param("launcher list -o ", {"wide", "json", "yaml", "name"}, id="values of an option"),
        pytest.param("launcher wait x --for S", {"Succeeded"}, id="options after an argument"),
        pytest.param("launcher submit fr", {"framework.yaml"}, id="files"),
        pytest.param("launcher submit framework.yaml da", {"data"}, id="more files"),
        pytest.param("launcher run --keep ", {"data"}, id="directories"),
        pytest.param("launcher run --token", set(), id="an unknown option"),
        pytest.param("launcher logs mnist ", set(), id="no completions"),
        pytest.param("launcher completion z", {"zsh"}, id="values of an argument"),
    ],
)
def test_completions_in_bash(
    line: str, expected: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "framework.yaml").touch()
    (tmp_path / "data").mkdir()

    assert set(completions(line, tmp_path, capsys)) == expected


def test_without_a_server_there_are_no_names_and_no_output(
    free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "names", "--server", f"http://127.0.0.1:{free_port}"]) == 0

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")


def test_tab_completes_in_an_interactive_bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "launcher.bash").write_text(script("bash", capsys))

    with Terminal(["bash", "--norc", "--noprofile", "-i"], directory=tmp_path) as bash:
        bash.type("source launcher.bash; PS1='READY '\n")
        bash.until(r"[\n\r]\S*READY")
        bash.type("launcher vali\t--st\t")

        bash.until("launcher validate --strict ")


def test_names_of_the_server_in_the_command_line_are_completed(
    server: InMemoryLauncher,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.create(a_framework(name="mnist"))
    server.create(a_framework(name="other"))
    url = server.url
    monkeypatch.delenv("LAUNCHER_SERVER")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    # The URL has colons, at which bash splits words.
    assert completions(f"launcher get --server {url} ", tmp_path, capsys, PATH=path) == ["mnist", "other"]
    assert completions(f"launcher get --server {url} o", tmp_path, capsys, PATH=path) == ["other"]
    assert completions(f"launcher delete mnist --server {url} ot", tmp_path, capsys, PATH=path) == ["other"]


@pytest.mark.parametrize(
    ("shell", "names"),
    [
        ("bash", "completion names"),
        ("zsh", "($(launcher completion names"),
        ("fish", "(launcher completion names"),
    ],
)
def test_every_script_contains_every_command_and_completes_names(
    shell: str, names: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)

    assert all(re.search(rf"\b{name}\b", text) for name, _, _ in COMMANDS)
    # Options of commands, and of the actions of a command.
    assert all(option in text for option in ("follow", "selector", "kubeconfig", "force"))
    assert names in text


def test_zsh_completes_each_of_several_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("zsh", capsys)

    assert re.search(r'"\*:[^"]+:_files"', text)
    assert re.search(r'"\*:[^"]+:\(\$\(launcher completion names', text)


def test_every_command_has_an_example_of_itself_in_its_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, _, _ in COMMANDS:
        with pytest.raises(SystemExit, match="0"):
            main([name, "--help"])

        text = capsys.readouterr().out
        assert f"launcher {name}" in text.partition("example")[2]
        assert all(len(line) <= 80 for line in text.splitlines())
