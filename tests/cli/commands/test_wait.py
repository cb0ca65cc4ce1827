from pathlib import Path

import pytest

from launcher.cli.main import main
from tests.builders import a_framework, a_role
from tests.cli.conftest import BackgroundCommand
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import Piped

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def mnist(server: InMemoryLauncher) -> InMemoryLauncher:
    """A server with a Framework of one task, which has not been started."""
    server.create(a_framework(a_role(tasks=1)))
    return server


@pytest.mark.parametrize(
    ("condition", "exit_code", "expected"),
    [
        pytest.param("Succeeded", 0, 0, id="succeeded"),
        pytest.param("Succeeded", 1, 1, id="succeeded cannot be met after a failure"),
        pytest.param("Completed", 1, 0, id="completed by a failure"),
        pytest.param("Running", 1, 0, id="running"),
    ],
)
def test_wait_exits_when_the_condition_is_met_or_cannot_be_met(
    condition: str, exit_code: int, expected: int, mnist: InMemoryLauncher, capsys: Capture
) -> None:
    command = BackgroundCommand("wait", "mnist", "--for", condition)
    mnist.run("mnist-worker-0")
    if condition == "Running":
        mnist.until("mnist", "AttemptRunning")
    mnist.end("mnist-worker-0", exit_code)

    assert command.end() == expected
    printed = capsys.readouterr()
    assert printed.out == (f"framework/mnist {condition}\n" if expected == 0 else "")
    assert ("mnist failed: Task" in printed.err) == (expected == 1)


def test_a_condition_that_is_already_met_is_not_waited_for(mnist: InMemoryLauncher) -> None:
    mnist.run("mnist-worker-0")
    mnist.end("mnist-worker-0")
    mnist.until("mnist", "Completed")

    assert main(["wait", "mnist", "--timeout", "30s"]) == 0


def test_wait_has_a_timeout(mnist: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["wait", "mnist", "--timeout", "0.2s"]) == 1
    assert capsys.readouterr().err == "mnist: not Succeeded within 0s\n"


def test_a_timeout_is_explained_by_the_most_important_finding(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    server.create(a_framework(executionType="Create"))
    server.until("mnist", "AttemptCreationPending")

    assert main(["wait", "mnist", "--timeout", "0.2s"]) == 1

    assert capsys.readouterr().err.splitlines() == [
        "mnist: not Succeeded within 0s",
        "FL-LIFE-01: suspended: executionType is Create (launcher why mnist)",
    ]


def test_wait_ends_when_the_framework_is_deleted(mnist: InMemoryLauncher, capsys: Capture) -> None:
    for_deletion = BackgroundCommand("wait", "mnist", "--for", "deleted")
    for_success = BackgroundCommand("wait", "mnist")
    mnist.until_watched("frameworks", 2)
    main(["delete", "mnist"])
    mnist.remove_framework("mnist")

    assert (for_deletion.end(), for_success.end()) == (0, 1)
    assert "mnist was deleted\n" in capsys.readouterr().err


def test_waiting_for_a_framework_that_does_not_exist_fails(server: InMemoryLauncher, capsys: Capture) -> None:
    assert main(["wait", "mnist"]) == 1
    assert capsys.readouterr().err == 'no Framework "mnist" in namespace default; see: launcher list\n'
    assert main(["wait", "mnist", "--for", "deleted"]) == 0


def test_wait_continues_after_a_restart_of_the_server(mnist: InMemoryLauncher, tmp_path: Path) -> None:
    with Piped(tmp_path, "wait", "mnist") as command:
        mnist.run("mnist-worker-0")
        mnist.until_watched("frameworks", 1)
        mnist.stop()
        command.until("lost, retrying")
        mnist.end("mnist-worker-0")
        mnist.start()

        assert command.end() == 0
        assert command.out == "framework/mnist Succeeded\n"
        assert "reconnected to " in command.err
