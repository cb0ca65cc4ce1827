"""``launcher convert``: objects of other systems as Frameworks in YAML or JSON, or a line for each error."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.cli.main import main
from launcher.core.manifest import parse_framework
from launcher.core.parsing.decoder import Media

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]

TFJOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: mnist}
spec:
  tfReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: tensorflow, image: x, command: [train]}]}}
"""
SECOND = """\
apiVersion: frameworkcontroller.microsoft.com/v1
kind: Framework
metadata: {name: second}
spec:
  taskRoles:
  - name: worker
    taskNumber: 1
    task: {pod: {spec: {restartPolicy: Never, containers: [{name: main, image: x}]}}}
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(TFJOB)
    (tmp_path / "both.yaml").write_text(f"# two\n{TFJOB}---\n---  # nothing\n# still nothing\n---\n{SECOND}")
    return tmp_path


def test_a_tfjob_is_printed_as_a_framework_that_can_be_submitted(capsys: Capture) -> None:
    assert main(["convert", "job.yaml"]) == 0

    message = capsys.readouterr()
    manifest = parse_framework(message.out.encode(), media=Media.YAML, strict=True)
    assert manifest.object["metadata"] == {"name": "mnist"}
    assert manifest.object == yaml.safe_load(message.out)
    notes = [line for line in message.err.splitlines() if line.startswith("job.yaml: note: ")]
    assert [f"# {line.removeprefix('job.yaml: ')}" for line in notes] == [
        line for line in message.out.splitlines() if line.startswith("# note: ")
    ]


def test_all_objects_of_several_files_are_printed_in_order(capsys: Capture) -> None:
    assert main(["convert", "job.yaml", "both.yaml"]) == 0

    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["metadata"]["name"] for each in documents] == ["mnist", "mnist", "second"]
    assert {each["apiVersion"] for each in documents} == {"launcher.microsoft.com/v1"}
    assert documents[2]["spec"]["cleanPodPolicy"] == "All"


def test_json_output_is_one_object_or_a_list(capsys: Capture) -> None:
    main(["convert", "-o", "json", "job.yaml"])
    one = json.loads(capsys.readouterr().out)
    main(["convert", "-o", "json", "both.yaml"])
    several = json.loads(capsys.readouterr().out)

    assert one["kind"] == "Framework"
    assert (several["kind"], several["items"][0]) == ("List", one)


def test_standard_input_may_be_json(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(yaml.safe_load(TFJOB)).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))

    assert main(["convert", "-"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["metadata"]["name"] == "mnist"


def test_fields_without_a_counterpart_are_reported_with_their_lines(files: Path, capsys: Capture) -> None:
    text = TFJOB.replace("spec:\n", "spec:\n  colour: red\n", 1)
    (files / "bad.yaml").write_text(
        f"{SECOND}---\n{text}---\n{SECOND.replace('taskNumber: 1', 'taskNumber: -1')}"
    )

    assert main(["convert", "job.yaml", "bad.yaml"]) == 2

    message = capsys.readouterr()
    assert message.out == ""
    exit_code = [line for line in message.err.splitlines() if line.split(": ")[1] not in ("note", "warning")]
    assert [line.split(" ")[0] + line.split(" ")[1] for line in exit_code] == [
        "bad.yaml:14:3:spec.colour:",
        "bad.yaml:26:5:spec.taskRoles[0].taskNumber:",
    ]


def test_an_invalid_framework_is_reported_with_the_fields_of_the_job(files: Path, capsys: Capture) -> None:
    (files / "bad.yaml").write_text(TFJOB.replace("image: x", "image: x, colour: 1, env: 7"))

    assert main(["convert", "bad.yaml"]) == 2
    assert (
        "bad.yaml: as a Framework: spec.taskRoles[0].task.pod.spec.containers[0].env"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "the files contain no objects to convert", id="nothing"),
        pytest.param("a: [", "bad.yaml: line ", id="no YAML"),
        pytest.param("- a", "bad.yaml: must be an object", id="a list of texts"),
        pytest.param("kind: Pod\napiVersion: v1", 'bad.yaml:1:1: kind: Unsupported value: "Pod"', id="a pod"),
        pytest.param(
            "kind: List\nitems: [{kind: Pod}]", "bad.yaml:2:10: items[0].kind", id="a pod in a list"
        ),
    ],
)
def test_other_objects_are_rejected(files: Path, capsys: Capture, text: str, message: str) -> None:
    (files / "bad.yaml").write_text(text)

    assert main(["convert", "bad.yaml"]) == 2
    assert capsys.readouterr().err.startswith(message)


def test_a_missing_file_is_an_error(capsys: Capture) -> None:
    assert main(["convert", "missing.yaml"]) == 2
    assert capsys.readouterr().err == "missing.yaml: No such file or directory\n"
