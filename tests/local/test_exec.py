"""``launcher exec`` in tasks of a real launcher."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.cli.main import main
from tests.builders import a_container, a_framework, a_pod_template, a_role
from tests.cli.terminals import PROJECT, Terminal, launcher
from tests.eventually import TIMEOUT_SECONDS, until
from tests.local.server import FRAMEWORKS, PODS, Server

Capture = pytest.CaptureFixture[bytes]


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A launcher with a Framework: two workers of two containers, and one ps."""
    server = Server(tmp_path_factory.mktemp("server"))
    env = [{"name": "LAUNCHER_TEST", "value": str(server.data)}]
    first = a_container("sleep", "600", name="first", env=env, workingDir="/usr")
    second = a_container("sleep", "600", name="second", env=env)
    annotations = {"kubectl.kubernetes.io/default-container": "second"}
    server.post(
        FRAMEWORKS,
        a_framework(
            a_role("worker", tasks=2, pod=a_pod_template(first, second)),
            a_role("ps", tasks=1, pod=a_pod_template(first, second, metadata={"annotations": annotations})),
            a_role("done", tasks=1, pod=a_pod_template(a_container("true", env=env))),
        ),
    )
    for pod in ("mnist-worker-0", "mnist-worker-1", "mnist-ps-0"):
        server.runs(pod)
    until(
        lambda: server.get(f"{PODS}/mnist-done-0").get("status", {}).get("phase") == "Succeeded",
        "done has ended",
    )
    yield server
    server.end()


@pytest.fixture
def server(shared_server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The launcher, set as the server of all commands."""
    monkeypatch.setenv("LAUNCHER_SERVER", shared_server.url)
    return shared_server


def test_exec_prints_the_output_and_returns_the_exit_code(server: Server, capfdbinary: Capture) -> None:
    script = "pwd; echo $FC_TASKROLE_NAME $FC_TASK_INDEX; echo bad >&2; exit 7"

    assert main(["exec", "mnist", "worker/1", "-c", "first", "--", "sh", "-c", script]) == 7

    assert capfdbinary.readouterr() == (b"/usr\nworker 1\n", b"bad\n")


def test_exec_chooses_the_container_as_kubectl_does(server: Server, capfdbinary: Capture) -> None:
    assert main(["exec", "mnist", "worker-0", "pwd"]) == 0
    assert capfdbinary.readouterr() == (
        b"/usr\n",
        b"container first of: first, second; -c chooses another one\n",
    )

    assert main(["exec", "mnist", "ps", "pwd"]) == 0
    assert capfdbinary.readouterr() == (b"/\n", b"")


def test_exec_passes_on_its_input(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(os.urandom(5_000_000))

    with file.open("rb") as stdin:
        done = subprocess.run(
            launcher("exec", "mnist", "ps/0", "-i", "--", "cat"),
            stdin=stdin,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            cwd=PROJECT,
        )

    assert (done.returncode, done.stdout == file.read_bytes(), done.stderr) == (0, True, b"")


def test_exec_with_a_terminal_is_a_shell_of_the_same_size(server: Server) -> None:
    with Terminal(launcher("exec", "mnist", "ps/0", "-it", "--", "sh"), columns=91, rows=17) as terminal:
        terminal.until(r"[#$] $")
        terminal.type("stty size; echo $((40+2))\n")
        terminal.until("17 91\n42\n")
        terminal.resize(77, 33)
        # A terminal sends it to its foreground processes.
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.type("until stty size | grep '33 77'; do sleep 0.05; done\n")
        terminal.until(r"\n([#$] )?33 77\n")
        # Keys are passed on, also those that would interrupt the launcher.
        # Printed by a child, which then is in the foreground: a shell that starts one may miss the signal.
        terminal.type("sh -c 'echo begun$((1)); exec sleep 600'\n")
        terminal.until("begun1")
        terminal.type("\x03")
        terminal.until(r"begun1\n[^$#]*[#$] $")
        terminal.type("exit $((3+3))\n")

        assert terminal.end() == 6


def test_a_terminal_is_ignored_without_one(server: Server, capfdbinary: Capture) -> None:
    assert main(["exec", "mnist", "ps", "-t", "--", "test", "-t", "1"]) == 1

    assert b"-t is ignored" in capfdbinary.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        pytest.param(
            ["mnist", "worker", "ls"],
            2,
            b"2 tasks worker; name one of them, such as worker/0",
            id="two tasks",
        ),
        pytest.param(
            ["mnist", "worker/2", "ls"], 1, b"no task worker/2; the last one is worker/1", id="no task"
        ),
        pytest.param(
            ["mnist", "chief", "ls"], 1, b"has no role chief; roles: worker, ps, done", id="no role"
        ),
        pytest.param(["nosuch", "worker/0", "ls"], 1, b'"nosuch" not found', id="no Framework"),
        pytest.param(["mnist", "done", "ls"], 1, b"mnist-done-0 is not running: Succeeded", id="completed"),
        pytest.param(["mnist", "ps", "-c", "x", "ls"], 2, b"container x is not valid", id="no container"),
        pytest.param(
            ["mnist", "ps", "nosuch"], 127, b'exec: "nosuch": executable file not found', id="no program"
        ),
    ],
)
def test_exec_reports_an_error_for(
    server: Server, arguments: list[str], code: int, text: bytes, capfdbinary: Capture
) -> None:
    assert main(["exec", *arguments]) == code

    assert text in capfdbinary.readouterr().err


def test_the_command_ends_with_launcher_exec(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "hung-up"
    script = f"exec 2>/dev/null; trap 'touch {file}; exit' HUP; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen(
        launcher("exec", "mnist", "ps", "--", "sh", "-c", script), stdout=subprocess.PIPE, cwd=PROJECT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()

    until(file.exists, "the command received SIGHUP")
