import pytest

from launcher.cli.main import main
from tests.cli.conftest import Command
from tests.cli.world import World
from tests.core.manifests import a_framework, a_role

Capture = pytest.CaptureFixture[str]


def test_stop_ends_a_framework_for_good(world: World, capsys: Capture) -> None:
    world.create(a_framework())

    assert main(["stop", "mnist"]) == 0
    assert capsys.readouterr().out == "framework/mnist stopping\n"
    assert world.get("mnist")["spec"]["executionType"] == "Stop"


def test_start_starts_one_that_was_held(world: World, capsys: Capture) -> None:
    world.create(a_framework(executionType="Create"))
    world.until("mnist", "AttemptCreationPending")

    assert main(["start", "mnist"]) == 0
    assert capsys.readouterr().out == "framework/mnist started\n"
    assert world.until("mnist", "AttemptPreparing")["spec"]["executionType"] == "Start"


def test_one_that_was_stopped_cannot_be_started_again(world: World, capsys: Capture) -> None:
    world.create(a_framework())
    main(["stop", "mnist"])

    assert main(["start", "mnist"]) == 2
    assert "Stop is final; make a new Framework to run it again" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "change"),
    [
        (["start", "mnist"], "started"),
        (["stop", "mnist"], "stopped"),
        (["scale", "mnist", "worker=5"], "scaled"),
    ],
)
def test_a_framework_that_has_ended_cannot_be_changed(
    world: World, command: list[str], change: str, capsys: Capture
) -> None:
    world.create(a_framework(a_role("worker", 1)))
    world.run("mnist-worker-0")
    world.end("mnist-worker-0")
    before = world.until("mnist", "Completed")["spec"]

    assert main(command) == 2
    assert capsys.readouterr().err == (
        f"framework/mnist has ended (Succeeded), so it cannot be {change}; delete it and submit it again to run it "
        "once more\n"
    )
    assert world.get("mnist")["spec"] == before


def test_starting_one_that_was_started_says_so(world: World, capsys: Capture) -> None:
    world.create(a_framework())

    assert main(["start", "mnist"]) == 0
    assert capsys.readouterr().out == "framework/mnist was started already\n"


def test_scale_changes_the_roles_that_are_named_and_no_other(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role("ps", 1), a_role("worker", 2), a_role("chief", 1)))

    assert main(["scale", "mnist", "worker=5", "ps=2"]) == 0

    roles = world.get("mnist")["spec"]["taskRoles"]
    assert capsys.readouterr().out == "framework/mnist scaled\n"
    assert {role["name"]: role["taskNumber"] for role in roles} == {"ps": 2, "worker": 5, "chief": 1}


def test_scale_says_both_numbers_where_there_are_two(world: World) -> None:
    world.create(a_framework(a_role("worker", 2), replicas=3))

    assert main(["scale", "mnist", "worker=5"]) == 0

    spec = world.get("mnist")["spec"]
    assert (spec["taskRoles"][0]["taskNumber"], spec["replicas"]) == (5, 5)


def test_a_role_that_is_not_there_is_told_with_those_that_are(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role("ps", 1), a_role("worker", 2)))

    assert main(["scale", "mnist", "wroker=5"]) == 1
    assert capsys.readouterr().err == "mnist has no role wroker; it has ps, worker\n"


def test_delete_asks_for_the_end_and_waits_for_it_when_asked(world: World, capsys: Capture) -> None:
    world.create(a_framework(name="one"))
    world.create(a_framework(name="two"))

    assert main(["delete", "one"]) == 0
    finalizers = world.get("one")["metadata"]["finalizers"]
    command = Command("delete", "two", "--wait")
    world.forget("two")

    assert finalizers == ["foregroundDeletion"]
    assert command.end() == 0
    assert (
        capsys.readouterr().out == "framework/one deleting\nframework/two deleting\nframework/two deleted\n"
    )


def test_all_deletes_every_framework_of_the_namespace(world: World, capsys: Capture) -> None:
    for name in ("one", "two"):
        world.create(a_framework(name=name))

    assert main(["delete", "--all"]) == 0
    assert capsys.readouterr().out == "framework/one deleting\nframework/two deleting\n"


@pytest.mark.parametrize("arguments", [[], ["one", "--all"]])
def test_delete_wants_names_or_all_and_not_both(arguments: list[str], capsys: Capture) -> None:
    assert main(["delete", *arguments]) == 2
    assert capsys.readouterr().err == (
        "name the Frameworks to delete, or choose them with --all or with -l SELECTOR\n"
    )


def test_what_is_not_there_is_told_and_the_rest_is_deleted(world: World, capsys: Capture) -> None:
    world.create(a_framework(name="one"))

    assert main(["delete", "none", "one"]) == 1

    told = capsys.readouterr()
    assert told.out == "framework/one deleting\n"
    assert '"none" not found' in told.err
