import io
import subprocess
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
def test_every_example_has_a_story_that_ends(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["story", str(example)]) == 0

    told = capsys.readouterr()
    assert told.err == ""
    end = told.out[told.out.rindex("Completed\n") :]
    assert "Succeeded (0)" in end or "Failed" in end
    assert all(len(line) <= 80 for line in told.out.splitlines())


def test_the_story_tells_of_a_retry_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    main(["story", str(PROJECT / "examples" / "parameter-server.yaml")])

    told = capsys.readouterr().out
    assert "worker[1]" in told
    assert "ContainerSigKillReceived (137); tried again at once: retry 1 of 1" in told


_ROLE = {"name": "w", "task": {"pod": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}}
ODD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a role without tasks": (
        {"name": "odd"},
        {"taskRoles": [{**_ROLE, "name": "v", "taskNumber": 0}, {**_ROLE, "taskNumber": 1}]},
        "odd: 0 x v, 1 x w",
    ),
    "a name yet to be made": ({"generateName": "odd-"}, {}, "odd-xxxxx"),
    "a hold": ({"name": "odd"}, {"executionType": "Create"}, "goes on from here: AttemptCreationPending"),
    "a stop": ({"name": "odd"}, {"executionType": "Stop"}, "StopFrameworkRequested (-210)"),
    "a service": ({"name": "odd"}, {"retryPolicy": {"maxRetryCount": -2}}, "goes on from here"),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_frameworks_have_a_story_and_pods_too(
    odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata, spec, told = ODD[odd]
    framework = yaml.safe_load((PROJECT / "examples" / "hello.yaml").read_text())
    framework = {**framework, "metadata": metadata, "spec": {**framework["spec"], **spec}}
    (tmp_path / "f.json").write_bytes(orjson.dumps(framework))

    assert main(["story", str(tmp_path / "f.json")]) == 0
    assert told in capsys.readouterr().out
    assert main(["render", str(tmp_path / "f.json")]) == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("kind: Framework", "apiVersion", id="a field is missing"),
        pytest.param("a: [", "line 2, column 1", id="it is no YAML"),
        pytest.param(
            "{apiVersion: launcher.microsoft.com/v1, kind: Framework, metadata: {name: UP}, spec: {taskRoles: []}}",
            "metadata.name",
            id="a rule is broken",
        ),
    ],
)
def test_a_mistake_in_the_file_is_told_and_ends_with_2(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.yaml").write_text(text)

    assert main(["story", str(tmp_path / "f.yaml")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert complaint in told.err
    assert "Traceback" not in told.err


def test_a_file_that_is_not_there_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["story", "nowhere.yaml"]) == 2
    assert capsys.readouterr().err == "nowhere.yaml: No such file or directory\n"


def test_every_mistake_is_told_with_its_line_and_column(
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
    told = capsys.readouterr()
    assert told.out == ""
    first, second = told.err.splitlines()
    assert first.startswith(f"{file}:6:7: spec.taskRoles[0].name: Invalid value")
    assert second.startswith(f"{file}:7:7: spec.taskRoles[0].taskNumber: Invalid value")


def test_one_bad_file_does_not_hide_another_good_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text("kind: Pod")
    good = str(PROJECT / "examples" / "hello.yaml")

    assert main(["validate", str(tmp_path / "bad.yaml"), good]) == 2
    told = capsys.readouterr()
    assert told.out == f"{good}: valid\n"
    assert "bad.yaml" in told.err


def test_an_unknown_field_is_a_mistake_or_without_strict_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(
        (PROJECT / "examples" / "hello.yaml").read_text().replace("spec:\n", "spec:\n  descripton: x\n", 1)
    )

    loose, warned = main(["validate", "--no-strict", str(file)]), capsys.readouterr()
    strict, refused = main(["validate", str(file)]), capsys.readouterr()

    guess = 'unknown field "spec.descripton"; did you mean "description"?'
    assert (loose, warned.err, warned.out) == (0, f"{file}: warning: {guess}\n", f"{file}: valid\n")
    assert strict == 2
    assert guess in refused.err


def test_standard_input_is_a_file_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (PROJECT / "examples" / "hello.yaml").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert main(["validate", "-"]) == 0
    assert capsys.readouterr().out == "-: valid\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_pods_of_every_example_are_printed_alike_as_yaml_and_json(
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


def test_help_is_answered_without_importing_the_engine() -> None:
    asking = (
        "import sys; from launcher.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    )
    listing = "print(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", asking + listing],
        capture_output=True,
        text=True,
        check=True,
        cwd=PROJECT,
        timeout=60,
    )

    assert "story" in done.stdout
    heavy = {
        "aiohttp",
        "asyncio",
        "jsonschema",
        "jsonschema_rs",
        "kubernetes_asyncio",
        "orjson",
        "sqlite3",
        "yaml",
    }
    assert heavy.isdisjoint(done.stderr.split())


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
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    option = next(each for each in arguments if each.startswith("--"))
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err
