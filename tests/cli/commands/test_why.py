"""``launcher why``: the findings of a diagnosis, in any width and format."""

import orjson
import pytest
import yaml

from launcher.cli.main import main
from launcher.cli.output.diagnosis_text import diagnosis_text
from tests.builders import a_framework, a_role
from tests.cli.commands.test_get import wait_for_task_counts
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import Terminal, launcher

Capture = pytest.CaptureFixture[str]


def test_why_explains_a_suspended_framework(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(executionType="Create"))
    server.until("mnist", "AttemptCreationPending")

    assert main(["why", "mnist"]) == 0

    heading, empty, *lines = capsys.readouterr().out.splitlines()
    assert (heading, empty) == ("mnist: 1 finding", "")
    assert lines == [
        "FL-LIFE-01  Info, waiting does not help",
        "  suspended: executionType is Create",
        "  framework/mnist spec.executionType:",
        "    Create",
        "  next: launcher start mnist",
    ]


def test_why_of_a_framework_without_findings_reports_none(server: InMemoryLauncher, capsys: Capture) -> None:
    server.create(a_framework(a_role(tasks=1)))
    server.run("mnist-worker-0")
    server.until("mnist", "AttemptRunning")

    assert main(["why", "mnist"]) == 0

    assert capsys.readouterr().out.startswith("mnist: nothing wrong found. 1 of 1 tasks running.")


@pytest.mark.parametrize("task", ["worker/0", "worker-0"])
def test_why_of_one_task_names_only_that(server: InMemoryLauncher, capsys: Capture, task: str) -> None:
    policy = {"minFailedTaskCount": 2}
    server.create(a_framework(a_role(tasks=2, frameworkAttemptCompletionPolicy=policy)))
    for index in range(2):
        server.run(f"mnist-worker-{index}")
    server.end("mnist-worker-0", 3)
    wait_for_task_counts(server, AttemptRunning=1, Completed=1)

    assert main(["why", "mnist", task]) == 0
    of_the_failed_one = capsys.readouterr().out
    assert main(["why", "mnist", "worker/1"]) == 0
    of_the_other = capsys.readouterr().out

    assert "FL-RUN-10" in of_the_failed_one
    assert "worker-0: container main exited with code 3" in of_the_failed_one
    assert "FL-" not in of_the_other


@pytest.mark.parametrize(("output", "parse"), [("json", orjson.loads), ("yaml", yaml.safe_load)])
def test_why_prints_the_diagnosis_for_programs(
    server: InMemoryLauncher, capsys: Capture, output: str, parse: object
) -> None:
    assert callable(parse)
    server.create(a_framework(executionType="Create"))
    server.until("mnist", "AttemptCreationPending")

    assert main(["why", "mnist", "-o", output]) == 0

    diagnosis = parse(capsys.readouterr().out)
    assert (diagnosis["kind"], diagnosis["findings"][0]["id"]) == ("Diagnosis", "FL-LIFE-01")


def test_a_role_that_does_not_exist_is_an_error_that_lists_the_roles(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework())

    assert main(["why", "mnist", "chief"]) != 0

    assert "it has: worker" in capsys.readouterr().err


@pytest.mark.parametrize("task", ["", "Worker", "worker/", "worker/x", "worker/0/1"])
def test_a_malformed_task_is_rejected(capsys: Capture, task: str) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["why", "mnist", task])

    assert exit_.value.code == 2
    assert "for example worker/0" in capsys.readouterr().err


def test_findings_fit_80_columns_of_a_terminal(server: InMemoryLauncher) -> None:
    server.create(a_framework(executionType="Create", name="a" * 40))
    server.until("a" * 40, "AttemptCreationPending")

    with Terminal(launcher("why", "a" * 40)) as terminal:
        code, shown = terminal.end(), terminal.seen

    assert code == 0
    assert "FL-LIFE-01" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_many_tasks_are_listed_with_the_number_of_the_others() -> None:
    finding = {
        "id": "FL-PEND-01",
        "severity": "Warning",
        "waiting": "Helps",
        "summary": "20 of 20 tasks: no node has 3 cpu free",
        "tasks": 20,
        "taskNames": [f"worker-{index}" for index in range(20)],
        "evidence": [],
        "nextStep": "wait",
    }
    missing = [{"resource": "nodes", "reason": "nodes is forbidden"}]

    lines = list(
        diagnosis_text({"metadata": {"name": "mnist"}, "findings": [finding], "missingEvidence": missing})
    )

    assert (
        "  tasks: worker-0, worker-1, worker-2, worker-3, worker-4, worker-5, worker-6, worker-7 and 12 more"
        in lines
    )
    assert lines[-1] == "not read: nodes: nodes is forbidden"


@pytest.mark.parametrize(
    ("command", "line"),
    [
        pytest.param("get", "  FL-LIFE-01: suspended: executionType is Create", id="get"),
        pytest.param(
            "describe", "Finding:       FL-LIFE-01: suspended: executionType is Create", id="describe"
        ),
    ],
)
def test_other_commands_show_the_most_important_finding(
    server: InMemoryLauncher, capsys: Capture, command: str, line: str
) -> None:
    server.create(a_framework(executionType="Create"))
    server.until("mnist", "AttemptCreationPending")

    assert main([command, "mnist"]) == 0

    assert line in capsys.readouterr().out.splitlines()
