"""Manifest files with several documents, jobs and misspelled fields."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from launcher.cli.main import main
from tests.builders import a_framework, a_pod_template, a_role
from tests.cli.conftest import Served
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import PROJECT, Piped
from tests.job_kinds.samples import a_tfjob, replicas

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]
HELLO = PROJECT / "examples" / "hello.yaml"
JOBS = {
    "TFJob": ("kubeflow.org/v1", "tfReplicaSpecs", "tensorflow"),
    "PyTorchJob": ("kubeflow.org/v1", "pytorchReplicaSpecs", "pytorch"),
    "XGBoostJob": ("kubeflow.org/v1", "xgbReplicaSpecs", "xgboost"),
    "MPIJob": ("kubeflow.org/v1", "mpiReplicaSpecs", "mpi"),
    "JAXJob": ("kubeflow.org/v1", "jaxReplicaSpecs", "jax"),
}


def a_job(kind: str) -> Json:
    version, field, container = JOBS[kind]
    first = {"TFJob": "Chief", "MPIJob": "Launcher", "JAXJob": "Worker"}.get(kind, "Master")
    template = {"spec": {"containers": [{"name": container, "image": "x", "command": ["true"]}]}}
    types = {each: {"replicas": 1, "template": template} for each in dict.fromkeys((first, "Worker"))}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": {field: types}}


def a_file(directory: Path, *objects: Json) -> Path:
    path = directory / "file.yaml"
    path.write_text("# a comment\n---\n" + "---\n".join(map(yaml.safe_dump, objects)))
    return path


def test_every_document_is_submitted_to_the_path_of_its_kind(
    server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    file = a_file(tmp_path, a_framework(), *map(a_job, JOBS))

    assert main(["submit", str(file)]) == 0

    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "framework/mnist submitted",
        *(f"{kind.lower()}/{kind.lower()} submitted" for kind in JOBS),
    ]


def test_every_document_is_validated_with_its_line(tmp_path: Path, capsys: Capture) -> None:
    bad = a_job("TFJob")
    bad["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = -1
    good = a_file(tmp_path, a_framework(), *map(a_job, JOBS))
    assert main(["validate", str(good)]) == 0
    assert capsys.readouterr().out == f"{good}: valid\n"

    file = a_file(tmp_path, a_framework(a_role(tasks=-1)), a_framework(name="other"), bad)
    lines = file.read_text().splitlines()

    assert main(["validate", str(file)]) == 2
    printed = capsys.readouterr()
    first, second = printed.err.splitlines()
    assert printed.out == ""
    assert f":{lines.index('    taskNumber: -1') + 1}:5: spec.taskRoles[0].taskNumber" in first
    assert (
        f":{lines.index('      replicas: -1') + 1}:7: spec.tfReplicaSpecs.Worker.replicas: Invalid value: -1"
        in second
    )


@pytest.mark.parametrize("text", ["", "# only a comment\n---\n"])
@pytest.mark.parametrize("command", ["validate", "render", "simulate", "run", "submit"])
def test_an_empty_file_is_an_error(
    command: str, text: str, tmp_path: Path, free_port: int, capsys: Capture
) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text(text)
    server = ["--server", f"http://127.0.0.1:{free_port}"] if command == "submit" else []

    assert main([command, str(file), *server]) == 2
    assert capsys.readouterr().err == f"{file}: the file is empty; it must contain a Framework or a job\n"


def test_every_document_is_rendered_and_simulated(tmp_path: Path, capsys: Capture) -> None:
    file = str(a_file(tmp_path, a_framework(), a_job("TFJob")))

    assert main(["render", file]) == 0
    rendered = list(yaml.safe_load_all(capsys.readouterr().out))
    assert main(["simulate", file]) == 0
    captured = capsys.readouterr().out

    names = [pod["metadata"]["name"] for pod in rendered]
    assert names == ["mnist-worker-0", "mnist-worker-1", "tfjob-chief-0", "tfjob-worker-0"]
    assert "mnist: 2 x worker" in captured
    assert "tfjob: 1 x chief, 1 x worker" in captured


def a_printing_pod(text: str, code: int = 0) -> list[str]:
    return ["sh", "-c", f"echo {text}; exit {code}"]


def test_run_runs_every_document_at_the_same_time(tmp_path: Path) -> None:
    pod = a_pod_template(containers=[{"name": "main", "image": "x", "command": a_printing_pod("one")}])
    job = a_tfjob("dist", policy={"suspend": True}, Worker=replicas(1, command=a_printing_pod("two", 3)))
    file = a_file(tmp_path, a_framework(a_role(tasks=1, pod=pod)), job)

    with Piped(tmp_path, "run", str(file)) as command:
        assert command.end() == 3

    assert sorted(command.out.splitlines()) == ["dist/worker-0 | two", "mnist/worker-0 | one"]
    assert "mnist succeeded after " in command.err
    assert "dist failed after " in command.err


def test_run_rejects_two_objects_of_the_same_name(tmp_path: Path, capsys: Capture) -> None:
    file = a_file(tmp_path, a_framework(name="dist"), a_tfjob("dist"))

    assert main(["run", str(file)]) == 2
    assert capsys.readouterr().err == f"{file}: 2 objects are named dist; names must be unique\n"


@pytest.mark.parametrize(
    ("field_name", "misspelled", "field", "suggestion"),
    [
        ("taskNumber:", "taskNum:", "spec.taskRoles[0].taskNum", "taskNumber"),
        ("taskRoles:", "taskroles:", "spec.taskroles", "taskRoles"),
    ],
)
@pytest.mark.parametrize("command", ["submit", "run", "validate"])
def test_a_misspelled_field_is_an_error_with_a_suggestion(
    command: str,
    field_name: str,
    misspelled: str,
    field: str,
    suggestion: str,
    server: InMemoryLauncher,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(HELLO.read_text().replace(field_name, misspelled))
    line = next(at for at, text in enumerate(file.read_text().splitlines(), 1) if misspelled in text)

    assert main([command, str(file)]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{file}:{line}:" in printed.err
    assert f'{field}: unknown field "{field}"; did you mean "{suggestion}"?' in printed.err
    assert server.names() == []


@pytest.mark.parametrize("command", ["submit", "validate"])
def test_a_job_of_another_version_is_an_error_with_the_right_versions(
    command: str, server: InMemoryLauncher, tmp_path: Path, capsys: Capture
) -> None:
    file = a_file(tmp_path, {**a_job("JAXJob"), "apiVersion": "kubeflow.org/v9"})

    assert main([command, str(file)]) == 2
    assert capsys.readouterr().err == (
        f'{file}:3:1: apiVersion: Unsupported value: "kubeflow.org/v9": supported values: "kubeflow.org/v1"; did '
        'you mean "kubeflow.org/v1"?\n'
    )
    assert server.names() == []


def test_a_kind_that_the_server_does_not_serve_is_reported(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    async def unknown(_: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found\n")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", unknown)
    url = f"http://127.0.0.1:{served(app, None)}"
    monkeypatch.setenv("LAUNCHER_SERVER", url)
    file = a_file(tmp_path, a_job("TFJob"))

    assert main(["submit", str(file)]) == 1
    assert capsys.readouterr().err == f"{file}: TFJobs (kubeflow.org/v1) are not served at {url}\n"
