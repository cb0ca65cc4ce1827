"""``launcher run``, as a process with real tasks."""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from launcher.cli.main import main
from tests.builders import a_framework, a_role
from tests.cli.terminals import PROJECT, Piped, Terminal, launcher
from tests.eventually import until

#: Prints a line at its start, and another one on SIGTERM.
GRACEFUL = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
#: Ignores SIGTERM.
IGNORES_SIGTERM = "trap '' TERM; echo up; while :; do sleep 0.05; done"


def a_file(directory: Path, command: str, tasks: int = 1, grace: int = 30, **spec: Any) -> str:
    """A file with a Framework whose tasks run that command."""
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", command]}
    pod = {
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace, "containers": [container]}
    }
    path = directory / "f.json"
    path.write_bytes(orjson.dumps(a_framework(a_role("worker", tasks, pod=pod), **spec)))
    return str(path)


def test_an_example_runs_and_its_logs_are_printed(tmp_path: Path) -> None:
    with Piped(tmp_path, "run", str(PROJECT / "examples" / "hello.yaml")) as command:
        assert command.end() == 0

    assert sorted(command.out.splitlines()) == [
        "greeter-0 | hello from greeter 0 of hello",
        "greeter-1 | hello from greeter 1 of hello",
    ]
    assert re.search(r"^hello succeeded after \d+s: ", command.err, re.MULTILINE)


@pytest.mark.parametrize(
    ("command_line", "code"),
    [pytest.param("exit 3", 3, id="an exit code"), pytest.param("kill -9 $$$$", 137, id="a signal")],
)
def test_the_exit_code_is_that_of_the_task_that_completed_the_framework(
    command_line: str, code: int, tmp_path: Path
) -> None:
    with Piped(tmp_path, "run", a_file(tmp_path, f"echo out; echo err >&2; {command_line}")) as command:
        assert command.end() == code

    assert sorted(command.out.splitlines()) == ["worker-0 | err", "worker-0 | out"]
    assert re.search(
        rf"^mnist failed after \d+s: Task worker-0 failed: .* code {code}[).]", command.err, re.MULTILINE
    )


def test_a_completion_without_an_exit_code_exits_with_1(tmp_path: Path) -> None:
    with Piped(tmp_path, "run", a_file(tmp_path, GRACEFUL, activeDeadlineSeconds=4)) as command:
        assert command.end() == 1

    assert "activeDeadlineSeconds (4) exceeded" in command.err
    assert command.out.splitlines()[-1] == "worker-0 | bye"


def test_an_invalid_file_is_reported_with_line_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.yaml").write_text(
        (PROJECT / "examples" / "hello.yaml").read_text().replace("greeter", "Greeter")
    )

    assert main(["run", str(tmp_path / "f.yaml")]) == 2
    assert capsys.readouterr().err.startswith(
        f"{tmp_path}/f.yaml:10:7: spec.taskRoles[0].name: Invalid value"
    )


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("--node", "n1,ip=nowhere", "--node: "),
        ("--image", "busybox", "--image: 'busybox' is not KEY=DIR"),
        ("--workdir", "/nowhere", "--workdir: /nowhere is not a directory"),
        ("--keep", ".", "--keep: . is not empty; choose a new directory"),
    ],
)
def test_unsupported_options_are_rejected(
    option: str, value: str, error: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", a_file(tmp_path, "true"), option, value]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "lines"),
    [pytest.param([], 1, id="unknown"), pytest.param(["--image", "busybox=/"], 0, id="known")],
)
def test_one_line_reports_that_images_are_not_used(options: list[str], lines: int, tmp_path: Path) -> None:
    with Piped(tmp_path, "run", a_file(tmp_path, "true", tasks=2), *options) as command:
        assert command.end() == 0

    assert command.err.count("Images are not pulled: ") == lines
    assert command.err.count("--image busybox=DIR\n") == lines


@pytest.mark.parametrize(
    ("options", "field", "expected"),
    [
        pytest.param([], {}, str(PROJECT), id="where the command was started"),
        pytest.param(["--image", f"busybox={PROJECT}/examples"], {}, "/", id="the root of the image"),
        pytest.param(["--image", "busybox=/"], {}, str(PROJECT), id="an image without files of its own"),
        pytest.param(
            ["--image", f"busybox={PROJECT}/examples", "--workdir", "/usr"],
            {},
            "/usr",
            id="of the flag, in an image",
        ),
        pytest.param(["--workdir", "/usr"], {}, "/usr", id="of the flag"),
        pytest.param(["--workdir", "/usr"], {"workingDir": "/etc"}, "/etc", id="of the container"),
    ],
)
def test_the_working_directory_of_containers(
    options: list[str], field: dict[str, str], expected: str, tmp_path: Path
) -> None:
    path = Path(a_file(tmp_path, "pwd"))
    framework = orjson.loads(path.read_bytes())
    framework["spec"]["taskRoles"][0]["task"]["pod"]["spec"]["containers"][0] |= field
    path.write_bytes(orjson.dumps(framework))

    with Piped(tmp_path, "run", str(path), *options) as command:
        assert command.end() == 0

    assert command.out == f"worker-0 | {expected}\n"


def test_ctrl_c_terminates_tasks_gracefully_and_exits_with_130(tmp_path: Path) -> None:
    with Piped(tmp_path, "run", a_file(tmp_path, GRACEFUL, tasks=2)) as command:
        command.until("worker-0 | up")
        command.until("worker-1 | up")
        command.interrupt()

        assert command.end() == 130
    assert {"worker-0 | bye", "worker-1 | bye"} <= set(command.out.splitlines())
    assert "stopping mnist; press Ctrl-C again to kill it\n" in command.err
    assert re.search(r"^mnist was stopped after \d+s$", command.err, re.MULTILINE)


def test_a_second_ctrl_c_does_not_wait_for_the_grace_period(tmp_path: Path) -> None:
    with Piped(tmp_path, "run", a_file(tmp_path, f"{IGNORES_SIGTERM} # {tmp_path}", grace=3600)) as command:
        command.until("worker-0 | up")
        command.interrupt()
        command.until("stopping mnist")
        command.interrupt()

        assert command.end() == 130
    assert "killing mnist\n" in command.err
    assert not _processes_with(str(tmp_path))


def test_a_pod_that_its_policy_leaves_running_is_terminated_gracefully(tmp_path: Path) -> None:
    graceful = GRACEFUL.replace("echo bye", f"touch {tmp_path}/bye").replace(
        "echo up", f"touch {tmp_path}/up"
    )
    failing = (
        f'[ "$taskindex" = 1 ] || {{ until [ -e {tmp_path}/up ]; do sleep 0.05; done; exit 4; }}; {graceful}'
    )
    with Piped(tmp_path, "run", a_file(tmp_path, failing, tasks=2, cleanPodPolicy="None")) as command:
        assert command.end() == 4

    assert (tmp_path / "bye").exists()
    assert not _processes_with(str(tmp_path))


def test_keep_keeps_the_logs(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with Piped(tmp_path, "run", a_file(tmp_path, "echo remember me"), "--keep", str(kept)) as command:
        assert command.end() == 0

    assert command.err.endswith(f"Logs and data are kept in {kept}.\n")
    assert any("remember me" in path.read_text() for path in (kept / "logs").rglob("*.log"))


def test_a_suspended_framework_in_the_file_is_started(tmp_path: Path) -> None:
    with Piped(tmp_path, "run", a_file(tmp_path, "echo started", executionType="Create")) as command:
        assert command.end() == 0

    assert command.out == "worker-0 | started\n"


def test_warning_events_are_printed(tmp_path: Path) -> None:
    file = a_file(tmp_path, "true")
    with Piped(tmp_path, "run", file, "--node", "small,pods=0") as command:
        command.until("warning: worker-0: FailedScheduling: 0/1 nodes are available")
        command.interrupt()

        assert command.end() == 130


def test_a_retry_is_printed_without_the_reason_of_its_event(tmp_path: Path) -> None:
    path = Path(
        a_file(tmp_path, f"[ -e {tmp_path}/again ] || {{ touch {tmp_path}/again; exit 3; }}; sleep 60")
    )
    framework = orjson.loads(path.read_bytes())
    framework["spec"]["taskRoles"][0]["task"]["retryPolicy"] = {"maxRetryCount": 1}
    path.write_bytes(orjson.dumps(framework))

    with Piped(tmp_path, "run", str(path)) as command:
        command.until(
            "warning: mnist: Task worker-0: Container main exited with code 3. Retrying: attempt 2 of 2."
        )
        command.interrupt()

        assert command.end() == 130


def test_on_a_terminal_the_task_table_is_below_the_log_lines(tmp_path: Path) -> None:
    with Terminal(launcher("run", a_file(tmp_path, GRACEFUL, tasks=2))) as terminal:
        terminal.until(r"worker-1 +\x1b\[32mRunning\x1b")
        terminal.resize(50, 12)
        terminal.until(r"─{49}\n")
        terminal.interrupt()
        assert terminal.end() == 130

    assert re.search(r"\nTASK +STATE +ATTEMPT +NODE +EXIT +REASON *\nworker-0 +", terminal.seen)
    assert "\x1b[?25l" in terminal.seen
    assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[?25l")
    assert not terminal.seen.rpartition("\x1b[?25h")[2].startswith("TASK")


def test_tasks_terminate_when_run_is_killed(tmp_path: Path) -> None:
    marker = f"sleep 10{tmp_path.stat().st_ino}"
    with Piped(tmp_path, "run", a_file(tmp_path, f"trap '' TERM; echo up; {marker}")) as command:
        command.until("worker-0 | up")
        assert _processes_with(marker)
        command.process.kill()
        command.end()

    until(lambda: not _processes_with(marker), "the task terminates")


def _processes_with(text: str) -> list[str]:
    """The command lines of all running processes that contain *text*, except launchers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has just exited
        if text in line and "launcher" not in line and "pytest" not in line:
            found.append(line)
    return found
