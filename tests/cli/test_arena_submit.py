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
from tests.cli.terminals import PATIENCE, PROJECT
from tests.cli.world import World

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]

#: As the guides to the role sequence and to gang scheduling print them.
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
    """A home without any config file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("ARENA_CONFIG", raising=False)
    return tmp_path


def objects(world: World, kind: ResourceKind) -> dict[str, Json]:
    page = world._call(world.store.list(kind))
    return {item["metadata"]["name"]: item for item in page.items}


def made(capsys: Capture, *words: str) -> list[Json]:
    """What a dry run says would be made."""
    kind, *flags = words
    assert main(["arena", "submit", kind, "--dry-run", *flags]) == 0
    return list(yaml.safe_load_all(capsys.readouterr().out))


def test_14_the_guide_to_the_role_sequence_makes_its_pods_the_first_role_first(
    world: World, capsys: Capture
) -> None:
    assert main(["arena", "submit", *ROLE_SEQUENCE]) == 0

    pods = world._call(world._until(lambda: _pods(world, 5), "there are no five pods"))
    assert {pod["metadata"]["name"] for pod in pods if "tf-job-name" in pod["metadata"]["labels"]} == {
        f"tf-distributed-test-{role}-0" for role in ("chief", "evaluator", "ps", "worker")
    }
    first = min(pods, key=lambda pod: int(pod["metadata"]["resourceVersion"]))
    assert first["metadata"]["name"] == "tf-distributed-test-worker-0"
    marks = first["metadata"]["annotations"]
    assert (marks["job-role-sequence"], marks["requestGPUsOfJobOwner"]) == ("Worker,Chief,PS,Evaluator", "3")


async def _pods(world: World, number: int) -> list[Json] | None:
    items = list((await world.store.list(PODS)).items)
    return items if len(items) == number else None


def test_a_job_is_told_of_as_arena_tells_of_it(world: World, capsys: Capture) -> None:
    assert main(["arena", "submit", *GANG]) == 0

    told = capsys.readouterr()
    assert told.out == "framework.launcher.microsoft.com/tf-dist-git created\n"
    lines = told.err.splitlines()
    assert "Flag --workerImage has been deprecated, use --worker-image instead" in lines
    assert lines[-2:] == [
        "INFO[0000] The Job tf-dist-git has been submitted successfully",
        "INFO[0000] You can run `arena get tf-dist-git --type tfjob` to check the job status",
    ]


def test_the_service_of_tensorboard_is_reported_when_the_launcher_has_created_it(
    world: World, capsys: Capture
) -> None:
    assert main(["arena", "submit", *GANG, "--tensorboard"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "framework.launcher.microsoft.com/tf-dist-git created",
        "service/tf-dist-git-tensorboard created",
    ]
    assert "tf-dist-git-tensorboard" in objects(world, SERVICES)


def test_a_service_that_is_not_created_is_not_reported(world: World, capsys: Capture) -> None:
    assert main(["arena", "submit", *GANG, "--tensorboard", "--queue"]) == 0

    assert capsys.readouterr().out == "framework.launcher.microsoft.com/tf-dist-git created\n"


def test_another_namespace_is_part_of_the_hint(world: World, capsys: Capture) -> None:
    world._call(
        world.store.create(
            ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        )
    )

    assert main(["arena", "-n", "team", "submit", *GANG]) == 0

    assert "`arena get tf-dist-git --type tfjob -n team`" in capsys.readouterr().err


def test_32_a_gang_is_accepted_without_a_word_of_doubt_and_waits_for_all(
    world: World, capsys: Capture
) -> None:
    assert main(["arena", "submit", *GANG, "--gang"]) == 0

    assert "gang" not in capsys.readouterr().err.lower()
    world.until("tf-dist-git", "AttemptPreparing")
    framework = world.get("tf-dist-git")
    (told,) = [each for each in framework["status"]["conditions"] if each["type"] == "GangPlaced"]
    assert framework["spec"]["gang"] == {"minTasks": 3}
    assert (told["status"], told["message"]) == ("False", framework["status"]["message"])
    assert told["message"].startswith("the gang waits: 0 of 3 tasks placed")


def test_what_a_job_owns_goes_with_it(world: World, capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "conf").write_text("x")

    words = ["--config-file", "~/conf:/etc/conf", "--tensorboard"]
    assert main(["arena", "submit", *GANG, *words]) == 0

    uid = world.get("tf-dist-git")["metadata"]["uid"]
    owned = objects(world, CONFIG_MAPS)
    assert len(owned) == 1
    assert {each["metadata"]["ownerReferences"][0]["uid"] for each in owned.values()} == {uid}


def test_34_a_second_job_of_a_name_is_refused_and_the_first_untouched(world: World, capsys: Capture) -> None:
    main(["arena", "submit", *GANG])
    before = world.get("tf-dist-git")["metadata"]["uid"]
    capsys.readouterr()

    assert main(["arena", "submit", *GANG, "--workers=5"]) == 1

    told = capsys.readouterr()
    assert told.out == ""
    assert "delete it first (arena delete tf-dist-git)" in told.err
    assert world.get("tf-dist-git")["metadata"]["uid"] == before


def test_a_job_whose_companions_cannot_be_made_is_taken_back(
    world: World, capsys: Capture, tmp_path: Path
) -> None:
    (tmp_path / "conf").write_text("x")
    words = [*GANG, "--config-file", "~/conf:/etc/conf"]
    (_, taken) = made(capsys, *words)
    taken["metadata"]["namespace"] = "default"
    world._call(world.store.create(CONFIG_MAPS, taken))

    assert main(["arena", "submit", *words]) == 1

    assert "the job tf-dist-git has been taken back" in capsys.readouterr().err
    world._call(world._until(lambda: _gone(world, "tf-dist-git"), "the job stays"))


async def _gone(world: World, name: str) -> bool | None:
    found = [each for each in (await world.store.list(FRAMEWORKS)).items if each["metadata"]["name"] == name]
    return True if not found or found[0]["metadata"].get("deletionTimestamp") else None


def test_20_old_spellings_mean_the_same(capsys: Capture) -> None:
    new = [
        word.replace("workerImage", "worker-image")
        .replace("psImage", "ps-image")
        .replace("syncMode", "sync-mode")
        .replace("syncSource", "sync-source")
        for word in GANG
    ]

    assert made(capsys, *GANG) == made(capsys, *new)


@pytest.mark.parametrize("shape", [["--chief"], ["--chief=true"], ["--chief=false", "--chief=1"]])
def test_switches_may_be_told_true(shape: list[str], capsys: Capture) -> None:
    framework = made(capsys, *GANG, *shape)[0]

    assert "chief" in [role["name"] for role in framework["spec"]["taskRoles"]]


def test_switches_may_be_told_false(capsys: Capture) -> None:
    assert made(capsys, *GANG, "--chief", "--chief=false") == made(capsys, *GANG)


def test_words_of_the_command_are_joined_wherever_they_stand(capsys: Capture) -> None:
    words = ["tf", "python", "--name", "a", "main.py", "--image=i", "-e", "A=-b", "--", "--steps", "5"]
    framework = made(capsys, *words)[0]

    (container,) = framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"]
    assert container["command"] == ["sh", "-c", "python main.py --steps 5"]
    assert {"name": "A", "value": "-b"} in container["env"]


def test_everything_wrong_is_told_at_once_and_nothing_made(world: World, capsys: Capture) -> None:
    assert (
        main(["arena", "submit", "tf", "--name", "A", "--image=i", "-e", "X", "--model-name=m", "run"]) == 2
    )

    told = capsys.readouterr()
    assert told.out == ""
    assert [line.partition(":")[0] for line in told.err.splitlines()] == ["--model-name", "--name", "--env"]
    assert world.names() == []


@pytest.mark.parametrize(
    ("words", "complaint"),
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
        pytest.param(["submit", "tf", "--name"], "--name: a value has to follow", id="nothing behind a flag"),
        pytest.param(["submit", "mpi", "--name", "x"], "arena mpi: only TensorFlow jobs", id="another kind"),
        pytest.param(
            ["serve", "list", "-A"], "arena serve: models are not served here", id="another command"
        ),
        pytest.param(
            ["--config", "f", "list"], "--config: jobs go to a launcher", id="a flag of all commands"
        ),
        pytest.param(["top", "node", "-d"], "--details: GPUs are counted", id="a flag of one"),
        pytest.param(["nothing"], "arena: ", id="no such command"),
        pytest.param(
            ["submit", "tf", "--config-file=/nowhere", "x"],
            "--config-file: /nowhere: No such file",
            id="no file",
        ),
    ],
)
def test_what_cannot_be_had_is_told_and_ends_with_2(
    words: list[str], complaint: str, world: World, capsys: Capture
) -> None:
    assert main(["arena", *words]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert complaint in told.err
    assert "Traceback" not in told.err


def test_flags_that_change_nothing_are_told_of(world: World, capsys: Capture) -> None:
    assert main(["arena", "list", "--arena-namespace=kube-system"]) == 0

    assert "--arena-namespace: there is no operator to look for" in capsys.readouterr().err


@pytest.mark.parametrize("where", ["usual", "named"])
def test_6_the_config_file_names_sequence_and_namespace(
    where: str, home: Path, world: World, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / (".arena/config" if where == "usual" else "mine")
    path.parent.mkdir(exist_ok=True)
    path.write_text("tfjob_role_sequence = w,p\nnamespace = team\n")
    if where == "named":
        monkeypatch.setenv("ARENA_CONFIG", str(path))
    world._call(
        world.store.create(
            ResourceKind("", "v1", "namespaces", "Namespace", namespaced=False),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}},
        )
    )

    assert main(["arena", "submit", *GANG]) == 0

    framework = world._call(world.store.get(FRAMEWORKS, "team", "tf-dist-git"))
    assert framework["metadata"]["annotations"]["job-role-sequence"] == "Worker,PS"


def test_less_is_told_when_less_is_wanted(world: World, capsys: Capture) -> None:
    assert main(["arena", "--loglevel=error", "submit", *GANG]) == 0

    assert all(line.startswith("Flag ") for line in capsys.readouterr().err.splitlines())


def test_29_ports_in_use_are_left_to_who_uses_them(world: World, capsys: Capture) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {"type": "NodePort", "ports": [{"port": 1, "nodePort": 20000}]},
    }
    world._call(world.store.create(SERVICES, service))

    assert main(["arena", "submit", *GANG]) == 0

    ports = {
        role["name"]: role["task"]["pod"]["spec"]["containers"][0]["ports"][0]["containerPort"]
        for role in world.get("tf-dist-git")["spec"]["taskRoles"]
    }
    assert (ports["worker"], ports["ps"]) == (20001, 20002)


def test_it_may_be_called_by_the_name_of_arena(tmp_path: Path) -> None:
    (tmp_path / "arena").write_text("import sys\nfrom launcher.cli.main import main\nsys.exit(main())\n")

    done = subprocess.run(
        [sys.executable, str(tmp_path / "arena"), "submit", *GANG, "--dry-run"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )

    assert done.returncode == 0, done.stderr
    assert next(yaml.safe_load_all(done.stdout))["metadata"]["name"] == "tf-dist-git"


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["submit", "--help"], ["submit", "tf", "-h"], ["top", "job", "-h"]]
)
def test_help_is_there_for_everything(words: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["arena", *words])

    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: arena")


def test_whoami_and_version_are_answered(capsys: Capture) -> None:
    assert main(["arena", "whoami"]) == 0
    assert main(["arena", "version"]) == 0

    assert "arena: launcher " in capsys.readouterr().out


def test_11_the_role_sequence_is_logged_as_the_guide_says(
    world: World, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    assert main(["arena", "submit", *ROLE_SEQUENCE]) == 0

    world.until("tf-distributed-test", "AttemptPreparing")
    line = "the Role Sequence of job tf-distributed-test is: [Worker Chief PS Evaluator]"
    assert line in [record.getMessage() for record in caplog.records]


def test_what_is_wrong_with_the_flags_is_told_also_without_a_server(free_port: int, capsys: Capture) -> None:
    server = f"http://127.0.0.1:{free_port}"

    assert main(["arena", "--server", server, "submit", "tfjob", "--name=mnist", "--image=tf"]) == 2

    assert capsys.readouterr().err.startswith("COMMAND: Required value")
