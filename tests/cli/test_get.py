import re
from dataclasses import replace
from typing import Any

import orjson
import pytest
import yaml

from launcher.cli.main import main
from launcher.cli.output.framework_summary import summary
from launcher.core.spec import RoleName
from launcher.core.status import RoleStatus, new_task
from launcher.store.interface import FRAMEWORKS
from tests.cli.terminals import Terminal, launcher
from tests.cli.world import World
from tests.core.manifests import a_framework, a_role

Capture = pytest.CaptureFixture[str]
Json = dict[str, Any]
LONG = "a-framework-with-a-name-that-is-as-long-as-names-can-be-55"


def one_is_over(world: World) -> None:
    """Return when the status of mnist says that one task runs and another one is over."""

    async def look() -> bool | None:
        framework = await world.store.get(FRAMEWORKS, "default", "mnist")
        counts = framework.get("status", {}).get("taskCounts", {})
        return True if (counts.get("AttemptRunning"), counts.get("Completed")) == (1, 1) else None

    world._call(world._until(look, "mnist has no task that is over"))


def test_frameworks_are_listed_with_their_state_and_progress(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role(tasks=2, frameworkAttemptCompletionPolicy={"minFailedTaskCount": 2})))
    world.create(a_framework(a_role(tasks=1), name="other"))
    world.run("mnist-worker-0")
    world.end("mnist-worker-0", 1)
    world.run("other-worker-0")
    world.end("other-worker-0", 0)
    world.until("other", "Completed")
    world.run("mnist-worker-1")
    one_is_over(world)

    assert main(["list"]) == 0

    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "STATE", "TASKS", "RETRIES", "AGE"]
    assert [line.split()[:4] for line in lines] == [
        ["mnist", "Running", "1/2", "0"],
        ["other", "Succeeded", "1/1", "0"],
    ]


def test_a_list_has_every_namespace_when_asked(world: World, capsys: Capture) -> None:
    framework = a_framework(name="far")
    framework["metadata"]["namespace"] = "team"
    world.create(a_framework(name="near"))
    world.create(framework)

    main(["list"])
    near = capsys.readouterr().out
    main(["list", "-A"])
    everywhere = capsys.readouterr().out

    assert "far" not in near
    assert [line.split()[:2] for line in everywhere.splitlines()[1:]] == [
        ["default", "near"],
        ["team", "far"],
    ]


def test_an_empty_list_says_what_to_do(world: World, capsys: Capture) -> None:
    assert main(["list"]) == 0

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "there are no Frameworks in namespace default; make one with: launcher submit FILE\n"


def test_lists_and_objects_are_printed_for_programs(world: World, capsys: Capture) -> None:
    world.create(a_framework())
    stored = world.get("mnist")["metadata"]["uid"]

    def asked(*arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    assert orjson.loads(asked("list", "-o", "json"))["items"][0]["metadata"]["uid"] == stored
    assert yaml.safe_load(asked("list", "-o", "yaml"))["items"][0]["metadata"]["uid"] == stored
    assert orjson.loads(asked("get", "mnist", "-o", "json"))["metadata"]["uid"] == stored
    assert yaml.safe_load(asked("get", "mnist", "-o", "yaml"))["metadata"]["uid"] == stored
    assert asked("list", "-o", "name") == asked("get", "mnist", "-o", "name") == "framework/mnist\n"


def test_names_are_whole_in_a_pipe_and_cut_on_a_terminal(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role("w", 1), name=LONG))

    main(["list"])
    piped = capsys.readouterr().out
    with Terminal(launcher("list")) as terminal:
        assert terminal.end() == 0

    assert LONG in piped
    assert LONG not in terminal.seen
    assert re.search(rf"{LONG[:20]}\S*…   \S+   0/1     0 ", terminal.seen)
    assert all(len(line) <= 80 for line in terminal.seen.splitlines())


def test_one_framework_is_shown_with_its_tasks(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role(tasks=2), a_role("ps", 1)))
    world.run("mnist-worker-1")
    world.end("mnist-worker-1", 7)
    world.until("mnist", "Completed")

    assert main(["get", "mnist"]) == 0

    headline, message, blank, header, *tasks = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"mnist: Failed after \d+s, 3/3 tasks over", headline)
    assert "role worker: 1 task failed, and minFailedTaskCount is 1" in message
    assert blank == ""
    assert header.split() == ["TASK", "STATE", "ATTEMPT", "NODE", "EXIT", "REASON"]
    assert [line.split()[:2] for line in tasks] == [
        ["worker-0", "Failed"],
        ["worker-1", "Failed"],
        ["ps-0", "Failed"],
    ]
    assert tasks[1].split()[2:6] == ["0", "node-1", "7", "ContainerUnrecognizedFailed"]


def test_many_tasks_are_summed_up_with_those_that_are_not_as_the_rest(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role(tasks=400, frameworkAttemptCompletionPolicy={"minFailedTaskCount": -1})))
    world.run("mnist-worker-123")
    world.end("mnist-worker-123", 7)
    world.run("mnist-worker-0")
    one_is_over(world)

    main(["get", "mnist"])
    summed = capsys.readouterr().out.splitlines()[4:]
    main(["get", "mnist", "--all"])
    every = capsys.readouterr().out.splitlines()[4:]

    assert summed[0].split(maxsplit=2)[:2] == ["worker", "(400)"]
    assert "1 Failed" in summed[0]
    assert any(line.startswith("worker-123 ") for line in summed[1:])
    assert len(summed) <= 22
    assert [line.split()[0] for line in every] == [f"worker-{index}" for index in range(400)]


def test_a_description_has_conditions_roles_tasks_and_events(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role(tasks=1), description="digits"))
    world.run("mnist-worker-0")
    world.until("mnist", "AttemptRunning")
    world.happen("Pod", "mnist-worker-0", "Scheduled", "assigned to node-1")
    world.happen("Pod", "mnist-2-worker-0", "Scheduled", "of another Framework")

    assert main(["describe", "mnist"]) == 0

    told = capsys.readouterr().out
    assert re.search(r"^Description: +digits$", told, re.MULTILINE)
    for title in ("Conditions", "Roles", "Tasks", "Events"):
        assert f"\n{title}:\n" in told
    assert re.search(r"Scheduled +pod/mnist-worker-0 +assigned to node-1", told)
    assert "another" not in told


def test_everything_fits_a_terminal_of_80_columns(world: World) -> None:
    world.create(a_framework(a_role(tasks=3)))
    world.run("mnist-worker-0")
    world.end("mnist-worker-0", 1)
    world.until("mnist", "Completed")

    for command in (["get", "mnist"], ["list", "-o", "wide"], ["describe", "mnist"], ["events", "mnist"]):
        with Terminal(launcher(*command)) as terminal:
            assert terminal.end() == 0
            assert all(len(line) <= 80 for line in terminal.seen.splitlines()), terminal.seen


def test_events_are_those_of_the_framework_and_its_pods(world: World, capsys: Capture) -> None:
    world.happen("Framework", "mnist", "Started", "it starts")
    world.happen("Pod", "mnist-worker-0", "Pulled", "twice\nas long")
    world.happen("Pod", "mnistworker-0", "Other", "not ours")
    world.happen("Framework", "mnist-2", "Other", "not ours either")

    main(["events", "mnist"])
    ours = capsys.readouterr().out.splitlines()
    main(["events"])
    everything = capsys.readouterr().out.splitlines()

    assert [line.split()[1:4] for line in ours[1:]] == [
        ["Normal", "Started", "framework/mnist"],
        ["Normal", "Pulled", "pod/mnist-worker-0"],
    ]
    assert ours[2].endswith("twice as long")
    assert len(everything) == 5


@pytest.mark.parametrize("command", ["describe", "events"])
def test_events_of_a_deleted_framework_of_the_same_name_are_left_out(
    command: str, world: World, capsys: Capture
) -> None:
    world.happen("Framework", "mnist", "OldFramework", "before", uid="old-1", age=60)
    world.happen("Pod", "mnist-worker-0", "OldPod", "before", uid="old-2", age=60)
    world.create(a_framework())
    world.run("mnist-worker-0")
    world.happen("Framework", "mnist", "NewFramework", "now", uid=world.get("mnist")["metadata"]["uid"])
    world.happen("Pod", "mnist-worker-0", "NewPod", "now", uid=world.uid("mnist-worker-0"))
    world.happen("Pod", "mnist-worker-0", "EarlierAttempt", "now", uid="earlier", age=-2)
    world.until("mnist", "AttemptRunning")

    assert main([command, "mnist"]) == 0
    shown = capsys.readouterr().out
    assert all(reason in shown for reason in ("NewFramework", "NewPod", "EarlierAttempt"))
    assert "OldFramework" not in shown
    assert "OldPod" not in shown


def test_events_outlive_their_framework(world: World, capsys: Capture) -> None:
    world.happen("Framework", "mnist", "OldFramework", "before", uid="old-1", age=60)

    assert main(["events", "mnist"]) == 0
    assert "OldFramework" in capsys.readouterr().out


def a_role_of(*messages: str) -> RoleStatus:
    """A role with a waiting task for each message."""
    tasks = (replace(new_task(at, 0), message=message) for at, message in enumerate(messages))
    return RoleStatus(RoleName("worker"), tuple(tasks))


def test_of_many_tasks_each_reason_is_shown_once() -> None:
    rows = list(summary(a_role_of(*["no node fits"] * 60, "", *["the volume is missing"] * 2), 20))

    assert [(row.task, row.reason) for row in rows] == [
        ("worker (63)", ""),
        ("worker-0 … 59 (60)", "no node fits"),
        ("worker-61 … 62 (2)", "the volume is missing"),
    ]


def test_of_many_reasons_only_some_are_shown() -> None:
    rows = list(summary(a_role_of(*(f"reason {number}" for number in range(60))), 20))

    assert len(rows) == 22
    assert (rows[-1].task, rows[-1].state) == ("worker-…", "40 more")


def test_a_framework_that_is_scaled_to_nothing_says_so(world: World, capsys: Capture) -> None:
    world.create(a_framework(a_role("worker", 1)))
    world.run("mnist-worker-0")
    world.until("mnist", "AttemptRunning")

    assert main(["scale", "mnist", "worker=0"]) == 0
    world.remove("mnist-worker-0")
    world.until_message("mnist", "scaled to 0 tasks: nothing runs until a role is scaled up")
    capsys.readouterr()
    assert main(["get", "mnist"]) == 0
    assert "scaled to 0 tasks" in capsys.readouterr().out
    assert main(["scale", "mnist", "worker=1"]) == 0
    world.run("mnist-worker-0")
    world.until_message("mnist", "a task runs")
