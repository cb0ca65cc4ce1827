"""``launcher convert``: what other people's files become, as YAML or JSON, or a line for everything that is wrong."""

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
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(TFJOB)
    (tmp_path / "both.yaml").write_text(f"# two\n{TFJOB}---\n---  # nothing\n# still nothing\n---\n{SECOND}")
    return tmp_path


def test_a_tfjob_is_printed_as_a_framework_that_can_be_submitted(capsys: Capture) -> None:
    assert main(["convert", "job.yaml"]) == 0

    said = capsys.readouterr()
    manifest = parse_framework(said.out.encode(), media=Media.YAML, strict=True)
    assert manifest.object["metadata"] == {"name": "mnist"}
    assert manifest.object == yaml.safe_load(said.out)
    notes = [line for line in said.err.splitlines() if line.startswith("job.yaml: note: ")]
    assert [f"# {line.removeprefix('job.yaml: ')}" for line in notes] == [
        line for line in said.out.splitlines() if line.startswith("# note: ")
    ]


def test_several_in_several_files_are_printed_in_order(capsys: Capture) -> None:
    assert main(["convert", "job.yaml", "both.yaml"]) == 0

    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [each["metadata"]["name"] for each in documents] == ["mnist", "mnist", "second"]
    assert {each["apiVersion"] for each in documents} == {"launcher.microsoft.com/v1"}
    assert documents[2]["spec"]["cleanPodPolicy"] == "All"


def test_as_json_one_is_an_object_and_several_are_a_list(capsys: Capture) -> None:
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


def test_what_has_no_counterpart_is_refused_where_it_stands_and_nothing_is_printed(
    here: Path, capsys: Capture
) -> None:
    text = TFJOB.replace("spec:\n", "spec:\n  colour: red\n", 1)
    (here / "bad.yaml").write_text(
        f"{SECOND}---\n{text}---\n{SECOND.replace('taskNumber: 1', 'taskNumber: -1')}"
    )

    assert main(["convert", "job.yaml", "bad.yaml"]) == 2

    said = capsys.readouterr()
    assert said.out == ""
    wrong = [line for line in said.err.splitlines() if line.split(": ")[1] not in ("note", "warning")]
    assert [line.split(" ")[0] + line.split(" ")[1] for line in wrong] == [
        "bad.yaml:14:3:spec.colour:",
        "bad.yaml:26:5:spec.taskRoles[0].taskNumber:",
    ]


def test_so_is_a_framework_that_would_break_the_rules(here: Path, capsys: Capture) -> None:
    (here / "bad.yaml").write_text(TFJOB.replace("image: x", "image: x, colour: 1, env: 7"))

    assert main(["convert", "bad.yaml"]) == 2
    assert (
        "bad.yaml: as a Framework: spec.taskRoles[0].task.pod.spec.containers[0].env"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "there is nothing in it to convert", id="nothing"),
        pytest.param("a: [", "bad.yaml: line ", id="no YAML"),
        pytest.param("- a", "bad.yaml: it has to be an object", id="a list of texts"),
        pytest.param("kind: Pod\napiVersion: v1", 'bad.yaml:1:1: kind: Unsupported value: "Pod"', id="a pod"),
        pytest.param(
            "kind: List\nitems: [{kind: Pod}]", "bad.yaml:2:10: items[0].kind", id="a pod in a list"
        ),
    ],
)
def test_what_cannot_be_converted_at_all(here: Path, capsys: Capture, text: str, said: str) -> None:
    (here / "bad.yaml").write_text(text)

    assert main(["convert", "bad.yaml"]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_a_file_that_is_not_there(capsys: Capture) -> None:
    assert main(["convert", "missing.yaml"]) == 2
    assert capsys.readouterr().err == "missing.yaml: No such file or directory\n"
