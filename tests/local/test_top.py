"""``launcher top`` with a real launcher, whose nodes have GPUs."""

import pytest

from launcher.cli.main import main
from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.cli.terminals import Terminal, launcher
from tests.eventually import until
from tests.local.conftest import Serve
from tests.local.server import FRAMEWORKS, Server

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def server(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A launcher, set as the server of all commands, with a Framework that is busy and one that is not."""
    server = serve("--node", "one,nvidia.com/gpu=4")
    monkeypatch.setenv("LAUNCHER_SERVER", server.url)
    for name, script, gpus in (("busy", "while :; do :; done", 1), ("idle", "sleep 600", 0)):
        container = a_container(
            "sh",
            "-c",
            script,
            env=[{"name": "LAUNCHER_TEST", "value": str(server.data)}],
            resources={"limits": {"nvidia.com/gpu": gpus}},
        )
        role = a_role("worker", tasks=2 if gpus else 1, pod=a_pod_template(container))
        server.post(FRAMEWORKS, a_framework(role, name=name))
    for pod in ("busy-worker-0", "busy-worker-1", "idle-worker-0"):
        server.runs(pod)
    return server


def rows(capsys: Capture, *arguments: str) -> list[list[str]]:
    """The cells that ``launcher top`` prints."""
    assert main(["top", *arguments]) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.usefixtures("server")
def test_top_shows_who_uses_cpu_memory_and_gpus(capsys: Capture) -> None:
    def is_busy() -> bool:
        return int(rows(capsys)[1][2].removesuffix("m")) > 100

    until(is_busy, "the CPU is used")
    frameworks = rows(capsys)
    everything = rows(capsys, "-A", "--sort-by", "gpus")
    tasks = rows(capsys, "busy")

    assert frameworks[0] == ["NAME", "TASKS", "CPU", "MEMORY", "GPUS"]
    assert [(row[0], row[1], row[4]) for row in frameworks[1:]] == [("busy", "2", "2"), ("idle", "1", "0")]
    assert all(row[3].endswith("Mi") for row in frameworks[1:])
    assert everything[0][0] == "NAMESPACE"
    assert [row[:2] for row in everything[1:]] == [["default", "busy"], ["default", "idle"]]
    assert tasks[0] == ["TASK", "NODE", "CPU", "MEMORY", "GPUS"]
    assert sorted((row[0], row[1], row[4]) for row in tasks[1:]) == [
        ("worker-0", "one", "1"),
        ("worker-1", "one", "1"),
    ]


def test_top_fits_a_terminal_and_reports_what_does_not_run(server: Server, capsys: Capture) -> None:
    with Terminal(launcher("top"), columns=40) as terminal:
        assert terminal.end() == 0
        lines = terminal.seen.splitlines()
    assert len(lines) == 3
    assert all(len(line) <= 40 for line in lines)

    assert main(["top", "nosuch"]) == 1
    assert '"nosuch" not found' in capsys.readouterr().err
    server.delete(f"{FRAMEWORKS}/idle")
    until(lambda: "idle" not in str(rows(capsys)) or None, "it is deleted")
    assert main(["top", "-n", "empty"]) == 0
    assert capsys.readouterr().err == "No task is running.\n"
