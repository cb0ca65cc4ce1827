"""Commands that stay connected print what the Framework waits for, while nothing else is printed."""

from pathlib import Path

import pytest
import yaml

from launcher.cli.main import main
from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.cli.conftest import BackgroundCommand
from tests.cli.in_memory_launcher import InMemoryLauncher
from tests.cli.terminals import Piped, Terminal, launcher
from tests.eventually import until

Capture = pytest.CaptureFixture[str]

SUSPENDED = "mnist: FL-LIFE-01: suspended: executionType is Create"
REJECTION = "no nodes available to schedule pods"
NO_NODE = "mnist: FL-PEND-10: worker-0: the cluster has no nodes"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Findings are requested after some milliseconds, not seconds."""
    monkeypatch.setattr("launcher.cli.finding_reporter._QUIET_SECONDS", 0.05)
    monkeypatch.setattr("launcher.cli.finding_reporter._MAX_QUIET_SECONDS", 0.1)


class Printed:
    """The lines that commands have printed to stderr so far."""

    def __init__(self, capsys: Capture) -> None:
        self._capsys, self.lines = capsys, list[str]()
        self.output = ""

    def until(self, line: str) -> None:
        def is_printed() -> bool:
            captured = self._capsys.readouterr()
            self.lines += captured.err.splitlines()
            self.output += captured.out
            return line in self.lines

        until(is_printed, f"{line!r} is printed")


@pytest.mark.parametrize("command", [("logs", "-f", "mnist"), ("wait", "mnist")], ids=["logs -f", "wait"])
def test_a_finding_is_printed_once_and_again_when_it_changes(
    server: InMemoryLauncher, capsys: Capture, command: tuple[str, ...]
) -> None:
    server.create(a_framework(a_role(tasks=1), executionType="Create"))
    server.until("mnist", "AttemptCreationPending")
    running, printed = BackgroundCommand(*command), Printed(capsys)

    printed.until(SUSPENDED)
    assert main(["start", "mnist"]) == 0
    server.reject("mnist-worker-0", REJECTION)
    printed.until(NO_NODE)
    server.run("mnist-worker-0", "hello")
    server.end("mnist-worker-0")

    assert running.end() == 0
    assert [line for line in printed.lines if "FL-" in line] == [SUSPENDED, NO_NODE]


def test_a_framework_that_runs_is_not_diagnosed(
    server: InMemoryLauncher, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[str] = []
    monkeypatch.setattr(
        "launcher.cli.client.async_client.AsyncApiClient.diagnosis",
        lambda _, name: requests.append(name),
    )
    server.create(a_framework(a_role(tasks=1)))
    server.run("mnist-worker-0", "hello")
    server.until("mnist", "AttemptRunning")
    running, printed = BackgroundCommand("logs", "-f", "mnist"), Printed(capsys)
    until(lambda: "hello" in capsys.readouterr().out, "the log is followed")

    server.end("mnist-worker-0")

    assert running.end() == 0
    assert printed.lines == []
    assert requests == []


def test_submit_with_wait_prints_what_the_framework_waits_for(
    server: InMemoryLauncher, capsys: Capture
) -> None:
    running = BackgroundCommand("submit", "--wait", "examples/hello.yaml")
    printed = Printed(capsys)
    server.reject("hello-greeter-0", REJECTION)

    printed.until("hello: FL-PEND-10: greeter-0: the cluster has no nodes")
    for pod in ("hello-greeter-0", "hello-greeter-1"):
        server.run(pod)
        server.end(pod)

    assert running.end() == 0


#: No node has that many CPUs.
LARGE = a_framework(
    a_role(tasks=1, pod=a_pod_template(a_container(resources={"requests": {"cpu": "100000"}}))), name="large"
)


@pytest.mark.parametrize("columns", [80, 120])
def test_run_shows_what_the_framework_waits_for_below_its_state(tmp_path: Path, columns: int) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(yaml.safe_dump(LARGE))

    with Terminal(launcher("run", str(file)), columns=columns) as terminal:
        terminal.until("FL-PEND-02: worker-0: no node has 100000 cpu; the largest")
        shown = terminal.seen
        terminal.interrupt()
        terminal.end()

    assert "large: Preparing" in shown


def test_run_prints_what_the_framework_waits_for_to_stderr_without_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "large.yaml"
    file.write_text(yaml.safe_dump(LARGE))

    with Piped(tmp_path, "run", str(file)) as process:
        process.until("large: FL-PEND-02: worker-0: no node has 100000 cpu")
        process.interrupt()
        process.end()

    assert "FL-" not in process.out
