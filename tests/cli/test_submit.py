from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from launcher.cli.main import main
from tests.cli.conftest import Command
from tests.cli.terminals import PROJECT
from tests.cli.world import World
from tests.core.manifests import a_framework, a_role

HELLO = PROJECT / "examples" / "hello.yaml"
Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]


def test_a_file_is_submitted_as_it_is(world: World, capsys: Capture) -> None:
    assert main(["submit", str(HELLO)]) == 0

    told = capsys.readouterr()
    assert (told.out, told.err) == ("framework/hello submitted\n", "")
    assert world.names() == ["hello"]


def test_a_dry_run_stores_nothing(world: World, capsys: Capture) -> None:
    assert main(["submit", "--dry-run", str(HELLO)]) == 0

    assert capsys.readouterr().out == "framework/hello submitted (dry run)\n"
    assert world.names() == []


@pytest.mark.parametrize(("form", "read"), [("json", orjson.loads), ("yaml", yaml.safe_load)])
def test_the_stored_object_is_printed_when_asked_for(
    form: str, read: Callable[[str], Json], world: World, capsys: Capture
) -> None:
    main(["submit", "-o", form, str(HELLO)])

    assert read(capsys.readouterr().out)["metadata"]["uid"] == world.get("hello")["metadata"]["uid"]


def test_only_the_name_is_printed_when_asked_for(world: World, capsys: Capture) -> None:
    main(["submit", "-o", "name", str(HELLO)])

    assert capsys.readouterr().out == "framework/hello\n"


def test_what_the_server_warns_of_is_told_with_the_file(
    world: World, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(HELLO.read_text().replace("spec:\n", "spec:\n  descripton: x\n", 1))

    assert main(["submit", "--no-strict", str(file)]) == 0

    told = capsys.readouterr()
    assert told.out == "framework/hello submitted\n"
    assert told.err == f'{file}: warning: unknown field "spec.descripton"; did you mean "description"?\n'


def test_everything_that_is_refused_is_told_with_its_place(
    world: World, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        HELLO.read_text().replace("taskNumber: 2", "taskNumber: -1").replace("greeter", "Greeter")
    )

    assert main(["submit", str(file)]) == 2

    told = capsys.readouterr()
    first, second = told.err.splitlines()
    assert told.out == ""
    assert first.startswith(f'{file}:10:7: spec.taskRoles[0].name: Invalid value: "Greeter"')
    assert second.startswith(f"{file}:11:7: spec.taskRoles[0].taskNumber: Invalid value: -1")


def test_a_file_that_cannot_be_read_as_yaml_is_told_with_its_line(
    world: World, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("apiVersion: [\n")

    assert main(["submit", str(file)]) == 2
    assert capsys.readouterr().err.startswith(f"{file}: ")


def test_a_second_one_of_the_same_name_is_refused_with_the_way_out(world: World, capsys: Capture) -> None:
    main(["submit", str(HELLO)])
    capsys.readouterr()

    assert main(["submit", str(HELLO)]) == 1
    assert '"hello" already exists; delete that one first (launcher delete' in capsys.readouterr().err


def test_one_bad_file_does_not_keep_the_others_from_being_submitted(
    world: World, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Pod")

    assert main(["submit", str(tmp_path / "bad.yaml"), "nowhere.yaml", str(HELLO)]) == 2

    told = capsys.readouterr()
    assert told.out == "framework/hello submitted\n"
    assert "bad.yaml: " in told.err
    assert "nowhere.yaml: No such file" in told.err


def test_the_namespace_is_that_of_the_file_unless_one_is_given(
    world: World, tmp_path: Path, capsys: Capture
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
def test_wait_goes_on_to_the_end_and_tells_it(
    code: int, expected: int, world: World, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "f.json").write_bytes(orjson.dumps(a_framework(a_role(tasks=1))))

    command = Command("submit", "--wait", str(tmp_path / "f.json"))
    world.run("mnist-worker-0")
    world.end("mnist-worker-0", code)

    assert command.end() == expected
    assert (
        "mnist: Succeeded" if code == 0 else "mnist: Failed, so never Succeeded"
    ) in capsys.readouterr().err
