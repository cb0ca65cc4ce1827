"""``arena submit``; numbers are those of the specification's test cases."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.cli.main import main
from launcher.store.interface import CONFIG_MAPS, FRAMEWORKS, PODS, SERVICES, ResourceKind
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import PROJECT
from tests.eventually import TIMEOUT_SECONDS, eventually

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]

#: As printed in the guides to the role sequence and to gang scheduling.
ROLE_SEQUENCE = [
    "tfjob",
    "--name=tf-distributed-test",
    "--role-sequence",
    "Worker,Chief,PS,Evaluator",
    "--chief",
    "--evaluator",
    "--gpus=1",
    "--workers=1",
    "--worker-image=cheyang/tf-mnist-distributed:gpu",
    "--ps-image=cheyang/tf-mnist-distributed:cpu",
    "--ps=1",
    "--tensorboard",
    "--tensorboard-image=ai-samples/tensorflow:1.12.0-devel",
    "python /app/main.py",
]
GANG = [
    "tf",
    "--name=tf-dist-git",
    "--gpus=1",
    "--workers=2",
    "--workerImage=tensorflow/tensorflow:1.5.0-devel-gpu",
    "--syncMode=git",
    "--syncSource=https://github.com/cheyang/tensorflow-sample-code.git",
    "--ps=1",
    "--psImage=tensorflow/tensorflow:1.5.0-devel",
    "python code/tensorflow-sample-code/main.py --logdir /training_logs",
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without a config file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ARENA_CONFIG", raising=False)
    return tmp_path


def objects(server: InMemoryLauncher, kind: ResourceKind) -> dict[str, Json]:
    page = server.call(server.store.list(kind))
    return {item["metadata"]["name"]: item for item in page.items}


def dry_run_objects(capsys: Capture, *words: str) -> list[Json]:
    """The objects that a dry run prints."""
    kind, *flags = words
    assert main(["arena", "submit", kind, "--dry-run", *flags]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_14_pods_are_created_in_the_role_sequence(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "submit", *ROLE_SEQUENCE]) == 0

    pods = server.call(eventually(lambda: _pods(server, 5), "five pods exist"))
    assert {pod["metadata"]["name"] for pod in pods if "tf-job-name" in pod["metadata"]["labels"]} == {
        f"tf-distributed-test-{role}-0" for role in ("chief", "evaluator", "ps", "worker")
    }
    first = min(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"]))
    assert first["metadata"]["name"] == "tf-distributed-test-worker-0"
    annotations = first["metadata"]["annotations"]
    assert (annotations["job-role-sequence"], annotations["requestGPUsOfJobOwner"]) == (
        "Worker,Chief,PS,Evaluator",
        "3",
    )


async def _pods(server: InMemoryLauncher, number: int) -> list[Json] | None:
    items = list((await server.store.list(PODS)).items)
    return items if len(items) == number else None


def test_a_submitted_job_is_printed_as_by_arena(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "submit", *GANG]) == 0

    printed = capsys.readouterr()
    assert printed.out == "framework.launcher.microsoft.com/tf-dist-git created\n"
    lines = printed.err.splitlines()
    assert "Flag --workerImage has been deprecated, use --worker-image instead" in lines
    assert lines[-2:] == [
        "INFO[0000] The Job tf-dist-git has been submitted successfully",
        "INFO[0000] You can run `arena get tf-dist-git --type tfjob` to check the job status",
    ]


def test_the_service_of_tensorboard_is_reported_when_the_launcher_has_created_it(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    assert main(["arena", "submit", *GANG, "--tensorboard"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "framework.launcher.microsoft.com/tf-dist-git created",
        "service/tf-dist-git-tensorboard created",
    ]
    assert "tf-dist-git-tensorboard" in objects(server, SERVICES)


def test_a_service_that_is_not_created_is_not_reported(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "submit", *GANG, "--tensorboard", "--queue"]) == 0

    assert capsys.readouterr().out == "framework.launcher.microsoft.com/tf-dist-git created\n"


def test_another_namespace_is_part_of_the_hint(server: InMemoryLauncher, capsys: Capture) -> None:
    server.call(
        server.store.create(
            ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        )
    )

    assert main(["arena", "-n", "team", "submit", *GANG]) == 0

    assert "`arena get tf-dist-git --type tfjob -n team`" in capsys.readouterr().err


def test_32_a_gang_is_accepted_and_scheduled_together(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "submit", *GANG, "--gang"]) == 0

    assert "gang" not in capsys.readouterr().err.lower()
    server.until("tf-dist-git", "AttemptPreparing")
    framework = server.get("tf-dist-git")
    (printed,) = [each for each in framework["status"]["conditions"] if each["type"] == "GangPlaced"]
    assert framework["spec"]["gang"] == {"minTasks": 3}
    assert (printed["status"], printed["message"]) == ("False", framework["status"]["message"])
    assert printed["message"].startswith("Gang not scheduled: 0 of 3 tasks have a node")


def test_owned_objects_are_deleted_with_the_job(
    server: InMemoryLauncher, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "conf").write_text("x")

    flags = ["--config-file", "~/conf:/etc/conf", "--tensorboard"]
    assert main(["arena", "submit", *GANG, *flags]) == 0

    uid = server.get("tf-dist-git")["metadata"]["uid"]
    owned = objects(server, CONFIG_MAPS)
    assert len(owned) == 1
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in owned.values()} == {uid}


def test_34_a_second_job_of_the_same_name_is_rejected(server: InMemoryLauncher, capsys: Capture) -> None:
    main(["arena", "submit", *GANG])
    before = server.get("tf-dist-git")["metadata"]["uid"]
    capsys.readouterr()

    assert main(["arena", "submit", *GANG, "--workers=5"]) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert "delete it first (arena delete tf-dist-git)" in printed.err
    assert server.get("tf-dist-git")["metadata"]["uid"] == before


def test_a_job_is_deleted_again_when_its_config_maps_cannot_be_created(
    server: InMemoryLauncher, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "conf").write_text("x")
    flags = [*GANG, "--config-file", "~/conf:/etc/conf"]
    (_, taken) = dry_run_objects(capsys, *flags)
    taken["metadata"]["namespace"] = "default"
    server.call(server.store.create(CONFIG_MAPS, taken))

    assert main(["arena", "submit", *flags]) == 1

    assert "the job tf-dist-git was deleted again" in capsys.readouterr().err
    server.call(eventually(lambda: _is_deleted(server, "tf-dist-git"), "the job is deleted"))


async def _is_deleted(server: InMemoryLauncher, name: str) -> bool | None:
    found = [each for each in (await server.store.list(FRAMEWORKS)).items if each["metadata"]["name"] == name]
    return True if not found or found[0]["metadata"].get("deletionTimestamp") else None


def test_20_old_spellings_mean_the_same(capsys: Capture) -> None:
    new = [
        flag.replace("workerImage", "worker-image")
        .replace("psImage", "ps-image")
        .replace("syncMode", "sync-mode")
        .replace("syncSource", "sync-source")
        for flag in GANG
    ]

    assert dry_run_objects(capsys, *GANG) == dry_run_objects(capsys, *new)


@pytest.mark.parametrize("shape", [["--chief"], ["--chief=true"], ["--chief=false", "--chief=1"]])
def test_switches_accept_true(shape: list[str], capsys: Capture) -> None:
    framework = dry_run_objects(capsys, *GANG, *shape)[0]

    assert "chief" in [role["name"] for role in framework["spec"]["taskRoles"]]


def test_switches_accept_false(capsys: Capture) -> None:
    assert dry_run_objects(capsys, *GANG, "--chief", "--chief=false") == dry_run_objects(capsys, *GANG)


def test_words_of_the_command_are_joined_at_any_position(capsys: Capture) -> None:
    command = ["tf", "python", "--name", "a", "main.py", "--image=i", "-e", "A=-b", "--", "--steps", "5"]
    framework = dry_run_objects(capsys, *command)[0]

    (container,) = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c", "python main.py --steps 5"]
    assert {"name": "A", "value": "-b"} in container["env"]


def test_all_errors_of_the_flags_are_reported_at_once(server: InMemoryLauncher, capsys: Capture) -> None:
    assert (
        main(["arena", "submit", "tf", "--name", "A", "--image=i", "-e", "X", "--model-name=m", "run"]) == 2
    )

    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line.partition(":")[0] for line in printed.err.splitlines()] == [
        "--model-name",
        "--name",
        "--env",
    ]
    assert server.names() == []


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        pytest.param(
            ["submit", "tf", "--nmae=a", "x"], "unrecognized arguments: --nmae=a", id="no such flag"
        ),
        pytest.param(
            ["submit", "tf", "--gpus=many", "x"], "argument --gpus: invalid int value", id="no number"
        ),
        pytest.param(
            ["submit", "tf", "--chief=maybe", "x"], "--chief: 'maybe' is neither true nor false", id="switch"
        ),
        pytest.param(["submit", "tf", "--name"], "--name: requires a value", id="nothing behind a flag"),
        pytest.param(["submit", "mpi", "--name", "x"], "arena mpi: only TensorFlow jobs", id="another kind"),
        pytest.param(
            ["serve", "list", "-A"], "arena serve: model serving is not supported", id="another command"
        ),
        pytest.param(
            ["--config", "f", "list"],
            "--config: jobs are submitted to a launcher",
            id="a flag of all commands",
        ),
        pytest.param(["top", "node", "-d"], "--details: GPU metrics are not supported", id="a flag of one"),
        pytest.param(["nothing"], "arena: ", id="no such command"),
        pytest.param(
            ["submit", "tf", "--config-file=/nowhere", "x"],
            "--config-file: /nowhere: No such file",
            id="no file",
        ),
    ],
)
def test_unsupported_commands_and_flags_exit_with_2(
    arguments: list[str], error: str, server: InMemoryLauncher, capsys: Capture
) -> None:
    assert main(["arena", *arguments]) == 2

    printed = capsys.readouterr()
    assert printed.out == ""
    assert error in printed.err
    assert "Traceback" not in printed.err


def test_flags_without_effect_are_reported(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "list", "--arena-namespace=kube-system"]) == 0

    assert "--arena-namespace: ignored: the launcher has no operator" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["usual", "named"])
def test_6_the_config_file_names_sequence_and_namespace(
    where: str, home: Path, server: InMemoryLauncher, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / (".arena/config" if where == "usual" else "mine")
    path.parent.mkdir(exist_ok=True)
    path.write_text("tfjob_role_sequence = w,p\nnamespace = team\n")
    if where == "named":
        monkeypatch.setenv("ARENA_CONFIG", str(path))
    server.call(
        server.store.create(
            ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        )
    )

    assert main(["arena", "submit", *GANG]) == 0

    framework = server.call(server.store.get(FRAMEWORKS, "team", "tf-dist-git"))
    assert framework["metadata"]["annotations"]["job-role-sequence"] == "Worker,PS"


def test_loglevel_limits_the_messages(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["arena", "--loglevel=error", "submit", *GANG]) == 0

    assert all(line.startswith("Flag ") for line in capsys.readouterr().err.splitlines())


def test_29_ports_in_use_are_avoided(server: InMemoryLauncher, capsys: Capture) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 20000}]},
    }
    server.call(server.store.create(SERVICES, service))

    assert main(["arena", "submit", *GANG]) == 0

    ports = {
        role["name"]: role["task"]["pod"]["spec"]["containers"][0]["ports"][0]["containerPort"]
        for role in server.get("tf-dist-git")["spec"]["taskRoles"]
    }
    assert (ports["worker"], ports["ps"]) == (20001, 20002)


def test_a_link_called_arena_runs_the_arena_command(tmp_path: Path) -> None:
    (tmp_path / "arena").write_text("import sys\nfrom launcher.cli.main import main\nsys.exit(main())\n")

    done = subprocess.run(
        [sys.executable, str(tmp_path / "arena"), "submit", *GANG, "--dry-run"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )

    assert done.returncode == 0, done.stderr
    assert next(yaml.safe_load_all(done.stdout))["metadata"]["name"] == "tf-dist-git"


@pytest.mark.parametrize(
    "arguments", [[], ["--help"], ["submit", "--help"], ["submit", "tf", "-h"], ["top", "job", "-h"]]
)
def test_every_command_has_help(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["arena", *arguments])

    assert exited.value.code == 0
    assert capsys.readouterr().out.startswith("usage: arena")


def test_whoami_and_version_print_one_line(capsys: Capture) -> None:
    assert main(["arena", "whoami"]) == 0
    assert main(["arena", "version"]) == 0

    assert "arena: launcher " in capsys.readouterr().out


def test_11_the_role_sequence_is_logged_as_in_the_guide(
    server: InMemoryLauncher, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    assert main(["arena", "submit", *ROLE_SEQUENCE]) == 0

    server.until("tf-distributed-test", "AttemptPreparing")
    line = "the Role Sequence of job tf-distributed-test is: [Worker Chief PS Evaluator]"
    assert line in [record.getMessage() for record in caplog.records]


def test_errors_of_the_flags_are_reported_without_a_server(free_port: int, capsys: Capture) -> None:
    server = f"http://127.0.0.1:{free_port}"

    assert main(["arena", "--server", server, "submit", "tfjob", "--name=mnist", "--image=tf"]) == 2

    assert capsys.readouterr().err.startswith("COMMAND: Required value")
