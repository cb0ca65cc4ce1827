import pytest

from launcher.cli.main import main
from tests.builders import a_framework, a_role
from tests.cli.conftest import BackgroundCommand
from tests.cli.in_memory_launcher import InMemoryLauncher

Capture = pytest.CaptureFixture[str]


def test_stop_sets_execution_type_stop(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework())

    assert main(["stop", "mnist"]) == 0
    assert capsys.readouterr().out == "framework/mnist stopping\n"
    assert server.get("mnist")["spec"]["executionType"] == "Stop"


def test_start_starts_a_suspended_framework(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(executionType="Create"))
    server.until("mnist", "AttemptCreationPending")

    assert main(["start", "mnist"]) == 0
    assert capsys.readouterr().out == "framework/mnist started\n"
    assert server.until("mnist", "AttemptPreparing")["spec"]["executionType"] == "Start"


def test_a_stopped_framework_cannot_be_started_again(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework())
    main(["stop", "mnist"])

    assert main(["start", "mnist"]) == 2
    assert "may not change from Stop; create a new Framework to run it again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (["start", "mnist"], "started"),
        (["stop", "mnist"], "stopped"),
        (["scale", "mnist", "worker=5"], "scaled"),
    ],
)
def test_a_completed_framework_cannot_be_changed(
    server: InMemoryLauncher, command: list[str], change: str, capsys: Capture
) -> None:
    server.create(a_framework(a_role("worker", 1)))
    server.run("mnist-worker-0")
    server.end("mnist-worker-0")
    before = server.until("mnist", "Completed")["spec"]

    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"framework/mnist has completed (Succeeded) and cannot be {change}; delete it and submit it again to run it "
        "once more\n"
    )
    assert server.get("mnist")["spec"] == before


def test_starting_a_started_framework_reports_that(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework())

    assert main(["start", "mnist"]) == 0
    assert capsys.readouterr().out == "framework/mnist already started\n"


def test_scale_changes_only_the_given_roles(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(a_role("ps", 1), a_role("worker", 2), a_role("chief", 1)))

    assert main(["scale", "mnist", "worker=5", "ps=2"]) == 0

    roles = server.get("mnist")["spec"]["taskRoles"]
    assert capsys.readouterr().out == "framework/mnist scaled\n"
    assert {role["name"]: role["taskNumber"] for role in roles} == {"ps": 2, "worker": 5, "chief": 1}


def test_scale_sets_replicas_and_task_number(server: InMemoryLauncher) -> None:
    server.create(a_framework(a_role("worker", 2), replicas=3))

    assert main(["scale", "mnist", "worker=5"]) == 0

    spec = server.get("mnist")["spec"]
    assert (spec["taskRoles"][0]["taskNumber"], spec["replicas"]) == (5, 5)


def test_an_unknown_role_is_reported_with_the_known_ones(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(a_role("ps", 1), a_role("worker", 2)))

    assert main(["scale", "mnist", "wroker=5"]) == 1
    assert capsys.readouterr().err == "mnist has no role wroker; roles: ps, worker\n"


def test_delete_waits_for_the_deletion_with_wait(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(name="one"))
    server.create(a_framework(name="two"))

    assert main(["delete", "one"]) == 0
    finalizers = server.get("one")["metadata"]["finalizers"]
    command = BackgroundCommand("delete", "two", "--wait")
    server.remove_framework("two")

    assert finalizers == ["foregroundDeletion"]
    assert command.end() == 0
    assert (
        capsys.readouterr().out == "framework/one deleting\nframework/two deleting\nframework/two deleted\n"
    )


def test_all_deletes_every_framework_of_the_namespace(server: InMemoryLauncher, capsys: Capture) -> None:
    for name in ("one", "two"):
        server.create(a_framework(name=name))

    assert main(["delete", "--all"]) == 0
    assert capsys.readouterr().out == "framework/one deleting\nframework/two deleting\n"


@pytest.mark.parametrize("arguments", [[], ["one", "--all"]])
def test_delete_requires_either_names_or_all(arguments: list[str], capsys: Capture) -> None:
    assert main(["delete", *arguments]) == 2
    assert capsys.readouterr().err == ("set one of NAME, --all and -l SELECTOR\n")


def test_a_missing_framework_is_reported_and_the_others_are_deleted(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(name="one"))

    assert main(["delete", "none", "one"]) == 1

    printed = capsys.readouterr()
    assert printed.out == "framework/one deleting\n"
    assert '"none" not found' in printed.err
