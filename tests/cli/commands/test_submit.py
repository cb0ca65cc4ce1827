from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from launcher.cli.main import main
from tests.builders import a_framework, a_role
from tests.cli.conftest import BackgroundCommand
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import PROJECT

HELLO = PROJECT / "examples" / "hello.yaml"
Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]


def test_a_file_is_submitted(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["submit", str(HELLO)]) == 0

    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("framework/hello submitted\n", "")
    assert server.names() == ["hello"]


def test_a_dry_run_stores_nothing(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["submit", "--dry-run", str(HELLO)]) == 0

    assert capsys.readouterr().out == "framework/hello submitted (dry run)\n"
    assert server.names() == []


@pytest.mark.parametrize(("output_format", "parse"), [("json", orjson.loads), ("yaml", yaml.safe_load)])
def test_output_prints_the_stored_object(
    output_format: str, parse: Callable[[str], Json], server: InMemoryLauncher, capsys: Capture
) -> None:
    main(["submit", "-o", output_format, str(HELLO)])

    assert parse(capsys.readouterr().out)["metadata"]["uid"] == server.get("hello")["metadata"]["uid"]


def test_output_name_prints_only_the_name(server: InMemoryLauncher, capsys: Capture) -> None:
    main(["submit", "-o", "name", str(HELLO)])

    assert capsys.readouterr().out == "framework/hello\n"


def test_warnings_of_the_server_are_printed_with_the_file(
    server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(HELLO.read_text().replace("spec:\n", "spec:\n  descripton: x\n", 1))

    assert main(["submit", "--no-strict", str(file)]) == 0

    printed = capsys.readouterr()
    assert printed.out == "framework/hello submitted\n"
    assert printed.err == f'{file}: warning: unknown field "spec.descripton"; did you mean "description"?\n'


def test_every_unsupported_field_is_reported_with_its_line(
    server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        HELLO.read_text().replace("taskNumber: 2", "taskNumber: -1").replace("greeter", "Greeter")
    )

    assert main(["submit", str(file)]) == 2

    printed = capsys.readouterr()
    first, second = printed.err.splitlines()
    assert printed.out == ""
    assert first.startswith(f'{file}:10:7: spec.taskRoles[0].name: Invalid value: "Greeter"')
    assert second.startswith(f"{file}:11:7: spec.taskRoles[0].taskNumber: Invalid value: -1")


def test_a_syntax_error_is_reported_with_its_line(
    server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("apiVersion: [\n")

    assert main(["submit", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"{file}: ")


def test_a_second_framework_of_the_same_name_is_rejected(server: InMemoryLauncher, capsys: Capture) -> None:
    main(["submit", str(HELLO)])
    capsys.readouterr()

    assert main(["submit", str(HELLO)]) == 1
    assert '"hello" already exists; delete it first (launcher delete' in capsys.readouterr().err


def test_valid_files_are_submitted_though_another_one_is_invalid(
    server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Pod")

    assert main(["submit", str(tmp_path / "bad.yaml"), "nowhere.yaml", str(HELLO)]) == 2

    printed = capsys.readouterr()
    assert printed.out == "framework/hello submitted\n"
    assert "bad.yaml: " in printed.err
    assert "nowhere.yaml: No such file" in printed.err


def test_the_namespace_is_that_of_the_file_without_an_option(
    server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    framework = a_framework()
    framework["metadata"]["namespace"] = "team"
    (tmp_path / "f.json").write_bytes(orjson.dumps(framework))

    assert main(["submit", str(tmp_path / "f.json")]) == 0
    assert main(["submit", "-n", "other", str(tmp_path / "f.json")]) == 2

    assert "other" in capsys.readouterr().err
    assert main(["list", "-n", "team", "-o", "name"]) == 0
    assert capsys.readouterr().out == "framework/mnist\n"


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (3, 1)])
def test_submit_wait_prints_the_result(
    code: int, expected: int, server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "f.json").write_bytes(orjson.dumps(a_framework(a_role(tasks=1))))

    command = BackgroundCommand("submit", "--wait", str(tmp_path / "f.json"))
    server.run("mnist-worker-0")
    server.end("mnist-worker-0", code)

    assert command.end() == expected
    assert ("mnist: Succeeded" if code == 0 else "mnist failed: ") in capsys.readouterr().err
