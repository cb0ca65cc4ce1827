import io
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from launcher.cli.main import main

PROJECT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((PROJECT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_simulation_of_every_example_completes(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(example)]) == 0

    printed = capsys.readouterr()
    assert printed.err == ""
    end = printed.out[printed.out.rindex("Completed\n") :]
    assert " succeeded " in end or "failed" in end
    assert all(len(line) <= 80 for line in printed.out.splitlines())


def test_the_simulation_shows_a_retry_and_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    main(["simulate", str(PROJECT / "examples" / "parameter-server.yaml")])

    printed = capsys.readouterr().out
    assert "worker-1" in printed
    assert "was killed by SIGKILL (exit code 137)." in printed


_ROLE = {"name": "w", "task": {"pod": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}}
UNUSUAL: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a role without tasks": (
        {"name": "odd"},
        {"taskRoles": [{**_ROLE, "name": "v", "taskNumber": 0}, {**_ROLE, "taskNumber": 1}]},
        "odd: 0 x v, 1 x w",
    ),
    "a name yet to be made": ({"generateName": "odd-"}, {}, "odd-xxxxx"),
    "a hold": ({"name": "odd"}, {"executionType": "Create"}, "stays in state AttemptCreationPending"),
    "a stop": ({"name": "odd"}, {"executionType": "Stop"}, "Stopped: executionType is Stop."),
    "a service": ({"name": "odd"}, {"retryPolicy": {"maxRetryCount": -2}}, "stays in state"),
}


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_unusual_frameworks_are_simulated_and_rendered(
    unusual: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata, spec, printed = UNUSUAL[unusual]
    framework = yaml.safe_load((PROJECT / "examples" / "hello.yaml").read_text())
    framework = {**framework, "metadata": metadata, "spec": {**framework["spec"], **spec}}
    (tmp_path / "f.json").write_bytes(orjson.dumps(framework))

    assert main(["simulate", str(tmp_path / "f.json")]) == 0
    assert printed in capsys.readouterr().out
    assert main(["render", str(tmp_path / "f.json")]) == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("kind: Framework", "apiVersion", id="a field is missing"),
        pytest.param("a: [", "line 2, column 1", id="not YAML"),
        pytest.param(
            "{apiVersion: launcher.microsoft.com/v1, kind: Framework, metadata: {name: UP}, spec: {taskRoles: []}}",
            "metadata.name",
            id="an invalid value",
        ),
    ],
)
def test_an_error_in_the_file_is_reported_and_exits_with_2(
    text: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.yaml").write_text(text)

    assert main(["simulate", str(tmp_path / "f.yaml")]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert error in printed.err
    assert "Traceback" not in printed.err


def test_a_missing_file_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "nowhere.yaml: No such file or directory\n"


def test_every_error_is_reported_with_its_line_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        "apiVersion: launcher.microsoft.com/v1\n"
        "kind: Framework\n"
        "metadata: {name: mnist}\n"
        "spec:\n"
        "  taskRoles:\n"
        "    - name: Worker\n"
        "      taskNumber: many\n"
        "      task: {pod: {spec: {containers: [{name: main, image: busybox}]}}}\n"
    )

    assert main(["validate", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    first, second = printed.err.splitlines()
    assert first.startswith(f"{file}:6:7: spec.taskRoles[0].name: Invalid value")
    assert second.startswith(f"{file}:7:7: spec.taskRoles[0].taskNumber: Invalid value")


def test_a_valid_file_is_reported_beside_an_invalid_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Pod")
    good = str(PROJECT / "examples" / "hello.yaml")

    assert main(["validate", str(tmp_path / "bad.yaml"), good]) == 2
    printed = capsys.readouterr()
    assert printed.out == f"{good}: valid\n"
    assert "bad.yaml" in printed.err


def test_an_unknown_field_is_an_error_or_without_strict_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        (PROJECT / "examples" / "hello.yaml").read_text().replace("spec:\n", "spec:\n  descripton: x\n", 1)
    )

    warning_only, warning_output = main(["validate", "--no-strict", str(file)]), capsys.readouterr()
    strict, strict_output = main(["validate", str(file)]), capsys.readouterr()

    suggestion = 'unknown field "spec.descripton"; did you mean "description"?'
    assert (warning_only, warning_output.err, warning_output.out) == (
        0,
        f"{file}: warning: {suggestion}\n",
        f"{file}: valid\n",
    )
    assert strict == 2
    assert suggestion in strict_output.err


def test_a_dash_reads_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (PROJECT / "examples" / "hello.yaml").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out == "-: valid\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_pods_of_every_example_are_the_same_as_yaml_and_as_json(
    example: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["render", str(example)])
    as_yaml = list(yaml.safe_load_all(capsys.readouterr().out))
    main(["render", "-o", "json", str(example)])
    as_json = orjson.loads(capsys.readouterr().out)["items"]

    framework = yaml.safe_load(example.read_text())
    names = [pod["metadata"]["name"] for pod in as_yaml]
    assert as_yaml == as_json
    assert names == [
        f"{framework['metadata']['name']}-{role['name']}-{index}"
        for role in framework["spec"]["taskRoles"]
        for index in range(role["taskNumber"])
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--nod", "a"],
        ["run", "--nod", "a", "f.yaml"],
        ["list", "--all-name"],
        ["delete", "--al"],
        ["store", "restore", "--forc", "f"],
    ],
)
def test_options_are_not_abbreviated(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)

    assert exited.value.code == 2
    option = next(each for each in arguments if each.startswith("--"))
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err
