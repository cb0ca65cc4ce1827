"""
Every command line of the pages is executed, or marked with the reason why it is not.

A fenced block of the language ``console`` holds commands after ``$ `` and what they print. ``…`` in a line matches any
text, and a line of ``…`` alone any lines. The comment on the line before a block changes how it is executed:
``not run: REASON``, ``starts a server``, ``exit code: N`` for its last command, or ``file: NAME`` or ``invalid file:
NAME`` for a block of YAML that the commands of its page read.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from docs.generate.terminal import COMMAND, PICTURE, record, texts
from launcher.cli.main import make_parser
from tests.docs.pages import PAGES, PROJECT, CodeBlock, blocks, inline_code, name_of
from tests.eventually import until
from tests.local.server import FRAMEWORKS, Server

HELP_EXAMPLE = "an example of the help text"
#: Why a block is not executed.
REASONS = {
    HELP_EXAMPLE,
    "make",
    "needs a cluster",
    "needs kubectl",
    "needs podman",
    "needs root",
    "needs the service",
    "needs torch",
    "runs in a task",
    "stops a server",
}
STARTS_A_SERVER = "starts a server"
#: Examples of help texts that are not executed with the others, and why.
SKIPPED_EXAMPLES = {
    "launcher serve": "pages start it",
    "launcher simpletfjob": "needs three nodes; its page has a command without them",
    "launcher store restore": "needs a stopped launcher: tests/local/test_store_commands.py",
    "launcher store accept-loss": "needs a stopped launcher: tests/local/test_store_commands.py",
}
TIMEOUT_SECONDS = 120


def commands(block: CodeBlock) -> list[tuple[str, list[str]]]:
    """Each command of the block with the lines that it should print."""
    found: list[tuple[str, list[str]]] = []
    continued = False
    for line in block.text.splitlines():
        if continued:
            command, expected = found.pop()
            found.append((f"{command}\n{line}", expected))
        elif line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        elif block.language == "sh":
            if line and not line.startswith("#"):
                found.append((line, []))
        else:
            found[-1][1].append(line)
        continued = bool(found) and found[-1][0].endswith("\\") and not found[-1][1]
    return found


def is_executed(block: CodeBlock) -> bool:
    return not block.comment.startswith("not run: ") and block.comment != HELP_EXAMPLE


EXECUTED = [page for page in PAGES if any(map(is_executed, blocks(page, "console", "sh")))]
MARKED = [page for page in PAGES if not all(map(is_executed, blocks(page, "console", "sh")))]
NEEDS_KUBECTL = "not run: needs kubectl"
WITH_KUBECTL = [
    page for page in PAGES if any(block.comment == NEEDS_KUBECTL for block in blocks(page, "console", "sh"))
]


class DocumentationTerminal:
    """A directory with what a checkout of the project holds, in which a launcher is installed and one serves."""

    def __init__(self, directory: Path, server: Server) -> None:
        self.directory = directory
        self._server = server
        for name in ("examples", "schemas", "deploy", "docs"):
            (directory / name).symlink_to(PROJECT / name)
        (directory / ".venv").symlink_to(sys.prefix)
        self._environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LAUNCHER_SERVER": server.url,
            "LAUNCHER_DATA": str(server.data),
            "KUBECONFIG": "/dev/null",
            "HOME": str(directory),
            "XDG_RUNTIME_DIR": str(directory),
            "COLUMNS": "100",
        }
        self._started: list[Server] = []

    def add_to_path(self, directory: Path) -> None:
        self._environment["PATH"] = f"{directory}:{self._environment['PATH']}"

    def execute(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command.replace("http://127.0.0.1:8080", self._server.url)],
            cwd=self.directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )

    def serve(self, command: str) -> None:
        """Starts the launcher of a command ``launcher serve …``, with its own data directory."""
        words = self.execute(f"printf '%s\\n' {command}").stdout.splitlines()
        assert words[:2] == ["launcher", "serve"]
        directory = self.directory / f"server-{len(self._started)}"
        directory.mkdir()
        self._started.append(Server(directory, *words[2:]))

    def end(self) -> None:
        """Deletes all Frameworks and ends the launchers that commands started."""
        for started in self._started:
            started.end()
        self._server.delete(FRAMEWORKS)
        until(lambda: not self._server.get(FRAMEWORKS)["items"], "all Frameworks are deleted")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    # The pages show the output of a machine with this name.
    server = Server(tmp_path_factory.mktemp("server"), "--node=machine")
    yield server
    server.end()


@pytest.fixture
def terminal(tmp_path: Path, server: Server) -> Iterator[DocumentationTerminal]:
    terminal = DocumentationTerminal(tmp_path, server)
    yield terminal
    terminal.end()


@pytest.mark.parametrize("page", EXECUTED, ids=name_of)
def test_the_commands_of_a_page_print_the_output_that_it_shows(
    page: Path, terminal: DocumentationTerminal
) -> None:
    for block in blocks(page, "console", "sh", "yaml"):
        kind, _, value = block.comment.partition(": ")
        if block.language == "yaml":
            if kind in ("file", "invalid file"):
                (terminal.directory / value).write_text(block.text)
            continue
        if not is_executed(block):
            continue
        found = commands(block)
        for number, (command, expected) in enumerate(found):
            if kind == STARTS_A_SERVER and command.startswith("launcher serve"):
                terminal.serve(command)
                continue
            done = terminal.execute(command)
            last = number == len(found) - 1
            assert done.returncode == (int(value) if kind == "exit code" and last else 0), (
                command,
                done.stdout,
            )
            printed = [line.rstrip() for line in done.stdout.splitlines()]
            missing = [line for line in expected if line != "…" and not matches(line, printed)]
            assert missing == [], f"{command} printed:\n{done.stdout}"


def matches(line: str, printed: list[str]) -> bool:
    """Whether one of the printed lines is *line*, in which … matches any text."""
    pattern = re.compile(".*".join(map(re.escape, _single_spaced(line).split("…"))))
    return any(pattern.fullmatch(_single_spaced(each)) for each in printed)


def _single_spaced(line: str) -> str:
    return re.sub(r" +", " ", line.rstrip())


def test_the_examples_of_the_help_texts_work(terminal: DocumentationTerminal, server: Server) -> None:
    (terminal.directory / "tfjob.yaml").symlink_to(PROJECT / "examples/migrate/tfjob.yaml")
    examples = [
        command.partition(" in ~/")[0]
        for block in blocks(PROJECT / "docs/cli.md", "sh")
        for command, _ in commands(block)
        if block.comment == HELP_EXAMPLE
    ]
    for number, example in enumerate(examples):
        if example.startswith(tuple(SKIPPED_EXAMPLES)):
            continue
        words = example.split()
        if " mnist" in example:
            server.post(FRAMEWORKS, framework_for(words[1], f"mnist-{number}"))
        prepared = example.replace(" mnist", f" mnist-{number}").replace(
            "/backup/", f"{terminal.directory}/{number}-"
        )

        done = terminal.execute(prepared)

        assert done.returncode == 0, (prepared, done.stdout)


def framework_for(command: str, name: str) -> dict[str, Any]:
    """A Framework in the state that the command needs."""
    program = "echo done" if command in ("logs", "wait") else "sleep 1000"
    container = {"name": "main", "image": "busybox:1.36", "command": ["sh", "-c", program]}
    pod = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    return {
        "apiVersion": "launcher.microsoft.com/v1",
        "kind": "Framework",
        "metadata": {"name": name},
        "spec": {
            "executionType": "Create" if command == "start" else "Start",
            "taskRoles": [{"name": "worker", "taskNumber": 2, "task": {"pod": pod}}],
        },
    }


@pytest.mark.parametrize("page", WITH_KUBECTL, ids=name_of)
def test_the_commands_with_kubectl_work(page: Path, terminal: DocumentationTerminal, programs: Path) -> None:
    terminal.add_to_path(programs)
    for block in blocks(page, "console", "sh"):
        if block.comment == NEEDS_KUBECTL:
            for command, _ in commands(block):
                done = terminal.execute(command)
                assert done.returncode == 0, (command, done.stdout)


@pytest.mark.parametrize("page", MARKED, ids=name_of)
def test_a_command_that_is_not_executed_has_a_known_reason_and_known_options(page: Path) -> None:
    for block in blocks(page, "console", "sh"):
        if is_executed(block):
            continue
        assert block.comment.removeprefix("not run: ") in REASONS
        for command, _ in commands(block):
            for part in re.split(r"\||&&", command.replace("\\\n", " ").partition("  #")[0]):
                check_options(part.strip())


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in ("CHANGELOG.md", "cli.md")], ids=name_of
)
def test_a_command_in_the_prose_exists_and_has_its_options(page: Path) -> None:
    for code in inline_code(page):
        words = re.split(r" \| | > ", code)[0].split()
        if words[:1] == ["launcher"] and words[1:2] not in ([], ["…"], ["COMMAND"]):
            accepted = options(make_parser(), words[1:])
            given = [word for word in words if re.match("--?[a-zA-Z]", word)]
            assert [word for word in given if not set(separate_options(word)) <= accepted] == [], code
        if words[:1] == ["make"] and len(words) > 1:
            check_options(code)


def separate_options(word: str) -> list[str]:
    """The options in ``--name``, ``-n`` or ``-it``."""
    return [word] if word.startswith("--") else [f"-{letter}" for letter in word[1:]]


def options(parser: argparse.ArgumentParser, words: list[str]) -> set[str]:
    """The options of the command that *words* begin with."""
    accepted = {option for action in parser._actions for option in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and words:
            assert words[0] in action.choices, words
            return accepted | options(action.choices[words[0]], words[1:])
    return accepted


def check_options(command: str) -> None:
    """The argument parser accepts a command of the launcher, and make has the target."""
    if not re.match(r"([A-Z0-9]+=\S* )*(launcher|make) ", command):
        return
    words = shlex.split(command.removesuffix("&"), comments=True)
    words = [word for word in words if not re.fullmatch(r"[A-Z0-9]+=\S*", word)]
    if words[:1] == ["launcher"]:
        make_parser().parse_args(words[1:])
    if words[:1] == ["make"]:
        assert re.search(rf"^{words[1]}:", (PROJECT / "Makefile").read_text(), re.MULTILINE), command


def normalized(line: str) -> str:
    """The line without what differs from run to run: numbers, states and gaps."""
    line = re.sub(r"\d+", "0", " ".join(line.split()))
    return re.sub(
        r"\b(CreationPending|Preparing|Running|Succeeded)( for 0s|, started 0s ago)?\b", "STATE", line
    )


def test_the_picture_shows_what_the_command_prints() -> None:
    rows = re.findall(r"<text[^>]*>(.*?)</text>", PICTURE.read_text())
    command, *shown = [unescape(re.sub(r"<[^>]*>", " ", row)) for row in rows]

    printed = {normalized(line) for frame in record() for line in texts(frame)}

    assert command.split() == ["$", *COMMAND.split()]
    assert {normalized(line) for line in shown} - printed == set(), "run: make picture"
