from pathlib import Path

import pytest

from launcher.cli.main import main
from tests.cli.conftest import Command
from tests.cli.terminals import Piped
from tests.cli.world import World
from tests.core.manifests import a_framework, a_role

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def mnist(world: World) -> World:
    """A world with a Framework of one task, which has not been started."""
    world.create(a_framework(a_role(tasks=1)))
    return world


@pytest.mark.parametrize(
    ("wish", "exit_code", "expected"),
    [
        pytest.param("Succeeded", 0, 0, id="success comes true"),
        pytest.param("Succeeded", 1, 1, id="success cannot come any more after a failure"),
        pytest.param("Completed", 1, 0, id="a failure is an end too"),
        pytest.param("Running", 1, 0, id="it has run"),
    ],
)
def test_wait_ends_when_it_is_decided(
    wish: str, exit_code: int, expected: int, mnist: World, capsys: Capture
) -> None:
    command = Command("wait", "mnist", "--for", wish)
    mnist.run("mnist-worker-0")
    if wish == "Running":
        mnist.until("mnist", "AttemptRunning")
    mnist.end("mnist-worker-0", exit_code)

    assert command.end() == expected
    told = capsys.readouterr()
    assert told.out == (f"framework/mnist {wish}\n" if expected == 0 else "")
    assert ("mnist: Failed, so never Succeeded: Cont" in told.err) == (expected == 1)


def test_what_is_true_already_is_not_waited_for(mnist: World) -> None:
    mnist.run("mnist-worker-0")
    mnist.end("mnist-worker-0")
    mnist.until("mnist", "Completed")

    assert main(["wait", "mnist", "--timeout", "30s"]) == 0


def test_the_time_can_be_out(mnist: World, capsys: Capture) -> None:
    assert main(["wait", "mnist", "--timeout", "0.2s"]) == 1
    assert capsys.readouterr().err == "mnist: not Succeeded within 0s\n"


def test_an_end_by_deletion_is_seen(mnist: World, capsys: Capture) -> None:
    waiting, hoping = Command("wait", "mnist", "--for", "deleted"), Command("wait", "mnist")
    mnist.until_watched("frameworks", 2)
    main(["delete", "mnist"])
    mnist.forget("mnist")

    assert (waiting.end(), hoping.end()) == (0, 1)
    assert "mnist: deleted, so never Succeeded\n" in capsys.readouterr().err


def test_nobody_waits_for_a_framework_that_is_not_there(world: World, capsys: Capture) -> None:
    assert main(["wait", "mnist"]) == 1
    assert (
        capsys.readouterr().err == 'there is no Framework "mnist" in namespace default; see: launcher list\n'
    )
    assert main(["wait", "mnist", "--for", "deleted"]) == 0


def test_a_restart_of_the_server_is_survived(mnist: World, tmp_path: Path) -> None:
    with Piped(tmp_path, "wait", "mnist") as command:
        mnist.run("mnist-worker-0")
        mnist.until_watched("frameworks", 1)
        mnist.stop()
        command.until("does not answer any more; waiting until it does")
        mnist.end("mnist-worker-0")
        mnist.start()

        assert command.end() == 0
        assert command.out == "framework/mnist Succeeded\n"
        assert command.err.endswith("answers again\n")
