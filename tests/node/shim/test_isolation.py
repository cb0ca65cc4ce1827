"""The isolation modes of the shim: what each does, and what the supervisor does for all of them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.node.container_runtime import StartFailed
from launcher.node.runtime.process_runtime import ProcessRuntime
from launcher.node.shim import container_init, linux, run_records
from launcher.node.shim.bubblewrap import BubblewrapIsolation
from launcher.node.shim.cgroups import Cgroups
from launcher.node.shim.event_loop import Loop
from launcher.node.shim.isolation import Isolation, PlainIsolation, UnshareIsolation
from launcher.node.shim.run import ShimRun
from launcher.node.shim.supervisor import Supervisor
from tests.node.logs.test_container_logs import log_options
from tests.node.runtimes import (
    ISOLATION_MODES,
    a_config,
    a_runtime,
    kill_shim,
    log_text,
    run_to_end,
    shell,
    use_isolation,
    wait_until_ended,
)

MODES = {
    "unshare": UnshareIsolation(None),
    "bwrap": BubblewrapIsolation(),
    "plain": PlainIsolation(),
}


def a_run(
    directory: Path, isolation: Isolation, pid: int = 0, lines: tuple[dict[str, Any], ...] = ()
) -> ShimRun:
    """A run of the process *pid*, with *lines* in its end file."""
    run = ShimRun("pod.main.0", str(directory), isolation.name)
    run.pid = run.group = run.kill = pid
    run.started = time.time()
    (directory / run_records.END).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("name", MODES)
def test_a_run_is_recorded_with_the_name_of_its_mode(tmp_path: Path, name: str) -> None:
    a_run(tmp_path, MODES[name], os.getpid()).record()

    record = run_records.read(str(tmp_path), run_records.RECORD)
    assert record is not None
    assert record["way"] == name


@pytest.mark.parametrize("name", ["unshare", "plain"])
def test_a_run_has_started_when_its_init_has_closed_the_socket(tmp_path: Path, name: str) -> None:
    run = a_run(tmp_path, MODES[name])

    assert MODES[run.mode].has_started(run)
    assert MODES[run.mode].start_failure(run) is None
    assert MODES[run.mode].kill_remaining(run) is None


def test_only_plain_isolation_waits_for_the_main_process_before_the_run_is_recorded() -> None:
    assert [name for name, mode in MODES.items() if mode.reports_main_process] == ["plain"]


def test_plain_isolation_enters_no_namespaces() -> None:
    before = os.readlink("/proc/self/ns/mnt")

    PlainIsolation().enter_sandbox({}, "", "")
    PlainIsolation().enter_namespaces(1)

    assert os.readlink("/proc/self/ns/mnt") == before


def test_a_bubblewrap_run_has_not_started_before_its_namespace_has_a_process(tmp_path: Path) -> None:
    run = a_run(tmp_path, BubblewrapIsolation(), 1234)

    assert not MODES[run.mode].has_started(run)
    assert run.kill == 1234


def test_a_bubblewrap_run_has_started_when_the_child_of_its_first_process_is_another_program(
    tmp_path: Path,
) -> None:
    # The first process of the namespace is this one, and its child is no longer called bwrap.
    program = subprocess.Popen(["sleep", "1000"])
    try:
        run = a_run(tmp_path, BubblewrapIsolation(), 1234, ({"child-pid": os.getpid()},))

        assert MODES[run.mode].has_started(run)
        assert run.group == run.kill == os.getpid()
        record = run_records.read(str(tmp_path), run_records.RECORD)
        assert record is not None
        assert record["kill"] == os.getpid()
    finally:
        program.kill()
        program.wait()


def test_a_bubblewrap_run_that_was_killed_early_is_killed_when_its_first_process_is_known(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    run = a_run(tmp_path, BubblewrapIsolation(), 1234, ({"child-pid": child.pid},))
    run.killed = True

    MODES[run.mode].has_started(run)

    assert child.wait(20) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("output", "reason", "message"),
    [
        pytest.param(
            b"bwrap: execvp nothing: No such file or directory\n",
            "StartError",
            'exec: "nothing": executable file not found in $PATH',
            id="a program that does not exist",
        ),
        pytest.param(
            b"bwrap: Can't chdir to /x: No such file or directory\n",
            "CreateContainerError",
            'chdir to cwd ("/x") failed: no such file or directory',
            id="a working directory that does not exist",
        ),
        pytest.param(
            b"bwrap: Creating new namespace failed\n",
            "CreateContainerError",
            "bubblewrap: Creating new namespace failed",
            id="any other failure",
        ),
    ],
)
def test_a_bubblewrap_run_that_ends_without_an_exit_code_has_failed_to_start(
    tmp_path: Path, output: bytes, reason: str, message: str
) -> None:
    run = a_run(tmp_path, BubblewrapIsolation())
    reading, writing = os.pipe()
    os.write(writing, output)
    os.close(writing)
    run.outputs = {reading: b"stderr"}

    assert MODES[run.mode].start_failure(run) == {"reason": reason, "message": message}
    run.close()


def test_a_bubblewrap_run_with_an_exit_code_has_started(tmp_path: Path) -> None:
    run = a_run(tmp_path, BubblewrapIsolation(), 0, ({"exit-code": 0},))

    assert MODES[run.mode].start_failure(run) is None


def test_bubblewraps_first_process_is_killed_when_it_outlives_the_outer_one(
    tmp_path: Path, child: subprocess.Popen[bytes]
) -> None:
    run = a_run(tmp_path, BubblewrapIsolation(), 1234)
    run.group = run.kill = child.pid

    assert MODES[run.mode].kill_remaining(run) == child.pid
    assert child.wait(20) == -signal.SIGKILL
    assert MODES[run.mode].kill_remaining(run) is None


def test_a_recovered_bubblewrap_run_is_signalled_through_its_first_process(tmp_path: Path) -> None:
    run = a_run(tmp_path, BubblewrapIsolation(), 1234, ({"child-pid": 5678},))

    MODES[run.mode].recover(run)

    assert (run.pid, run.group, run.kill) == (1234, 5678, 5678)


@pytest.mark.parametrize("is_same_namespace", [True, False])
def test_an_orphan_of_bubblewrap_is_killed_only_if_it_is_in_the_runs_namespace(
    tmp_path: Path, child: subprocess.Popen[bytes], is_same_namespace: bool
) -> None:
    namespace = int(os.readlink(f"/proc/{child.pid}/ns/pid").removeprefix("pid:[").removesuffix("]"))
    line = {"pid-namespace": namespace if is_same_namespace else 1}
    run = a_run(tmp_path, BubblewrapIsolation(), child.pid, (line,))

    MODES[run.mode].kill_orphans(run)

    assert run.killed is is_same_namespace


class PollingIsolation(Isolation):
    """Reports the start of its run at the third poll; its first process ends at once."""

    name = "plain"

    def __init__(self, failure: dict[str, str] | None = None) -> None:
        self.polls, self.failure = 0, failure

    def has_started(self, run: ShimRun) -> bool:
        self.polls += 1
        return self.polls == 3

    def start_failure(self, run: ShimRun) -> dict[str, str] | None:
        return self.failure

    def run_first_process(self, *_: object) -> None:  # type: ignore[override]  # it exits
        os._exit(7)


def a_supervisor(data: Path, isolation: Isolation) -> Supervisor:
    supervisor = Supervisor(str(data), Loop(), Cgroups("test", "", ""), None, log_options())
    supervisor._isolations = {"plain": isolation}
    return supervisor


def a_shim_config(data: Path) -> dict[str, Any]:
    limits = dict.fromkeys(("memory", "cpu", "pids", "user"))
    return {"id": "pod.main.0", "way": "plain", "log": f"{data}/log", "log_group": "", **limits}


def test_the_supervisor_polls_the_isolation_until_the_run_has_started(tmp_path: Path) -> None:
    isolation, responses = PollingIsolation(), list[dict[str, Any]]()
    supervisor = a_supervisor(tmp_path, isolation)
    supervisor.start(a_shim_config(tmp_path), responses.append)
    run = supervisor.runs["pod.main.0"]
    os.set_blocking(run.socket, True)
    supervisor._read_socket(run)

    assert supervisor.poll_starting()
    assert supervisor.poll_starting()
    assert not responses
    assert not supervisor.poll_starting()
    assert [response["run"]["id"] for response in responses] == ["pod.main.0"]
    os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)
    supervisor.reap()
    assert run.ended is not None
    assert run.ended["exit_code"] == 7


@pytest.mark.parametrize("failure", [None, {"reason": "StartError", "message": "missing"}])
def test_a_run_that_ends_while_it_is_polled_has_started_or_failed_as_its_isolation_decides(
    tmp_path: Path, failure: dict[str, str] | None
) -> None:
    responses = list[dict[str, Any]]()
    supervisor = a_supervisor(tmp_path, PollingIsolation(failure))
    supervisor.start(a_shim_config(tmp_path), responses.append)
    os.waitid(os.P_PID, supervisor.runs["pod.main.0"].pid, os.WEXITED | os.WNOWAIT)

    supervisor.reap()

    if failure is None:
        assert [response["run"]["id"] for response in responses] == ["pod.main.0"]
        assert supervisor.runs["pod.main.0"].ended is not None
    else:
        assert responses == [{"cannot": failure}]
        assert not supervisor.runs
    assert not supervisor.poll_starting()


#: Reports its processes and the exit code like bwrap, without namespaces.
FAKE_BWRAP = """#!{python} -IS
import json, os, signal, sys

divider = sys.argv.index("--")
options, command = sys.argv[1:divider], sys.argv[divider + 1 :]
status = int(options[options.index("--json-status-fd") + 1])
if command[0] == "missing":
    sys.exit("bwrap: execvp missing: No such file or directory")
first = os.fork()
if not first:
    os.setsid()
    signal.signal(signal.SIGTERM, lambda *_: None)
    program = os.fork()
    if not program:
        os.execvp(command[0], command)
    code = os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])
    os._exit(code if code >= 0 else 128 - code)
os.write(status, json.dumps({{"child-pid": first}}).encode() + b"\\n")
code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
os.write(status, json.dumps({{"exit-code": code}}).encode() + b"\\n")
os._exit(code)
"""


@pytest.fixture
async def bubblewrap_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[ProcessRuntime]:
    """A runtime whose shim uses the fake bwrap."""
    program = tmp_path / "bin" / "bwrap"
    program.parent.mkdir()
    program.write_text(FAKE_BWRAP.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setitem(ISOLATION_MODES, "bwrap", "")
    use_isolation("bwrap", tmp_path, monkeypatch)
    async with a_runtime(tmp_path / "data") as runtime:
        yield runtime


async def test_a_bubblewrap_run_is_logged_and_ends_with_the_exit_code_of_its_program(
    bubblewrap_runtime: ProcessRuntime, tmp_path: Path
) -> None:
    config = shell(tmp_path / "data", "echo output; sleep 0.1; exit 3")

    assert await run_to_end(bubblewrap_runtime, config) == 3
    assert log_text(tmp_path / "data") == "output\n"


async def test_a_bubblewrap_run_receives_sigterm(bubblewrap_runtime: ProcessRuntime, tmp_path: Path) -> None:
    run = await bubblewrap_runtime.start_container(a_config(tmp_path / "data", "sleep", "1000"))

    await bubblewrap_runtime.signal(run.id, signal.SIGTERM)

    result = await wait_until_ended(bubblewrap_runtime)
    assert result.ended is not None
    assert result.ended.exit_code == 143


async def test_a_bubblewrap_run_without_its_program_fails_to_start(
    bubblewrap_runtime: ProcessRuntime, tmp_path: Path
) -> None:
    with pytest.raises(StartFailed, match="executable file not found") as error:
        await bubblewrap_runtime.start_container(a_config(tmp_path / "data", "missing"))

    assert error.value.reason == "StartError"
    assert not bubblewrap_runtime.list_containers()


async def test_a_bubblewrap_run_of_a_killed_shim_is_recovered_with_its_exit_code(
    bubblewrap_runtime: ProcessRuntime, tmp_path: Path
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    await bubblewrap_runtime.start_container(shell(tmp_path / "data", f"read line <{fifo}; exit 5"))

    await kill_shim(bubblewrap_runtime)
    await asyncio.to_thread(fifo.write_text, "continue\n")

    result = await wait_until_ended(bubblewrap_runtime)
    assert result.ended is not None
    assert (result.ended.exit_code, result.ended.is_unknown) == (5, False)


def test_an_exit_code_after_a_signal_is_128_and_its_number() -> None:
    assert linux.exit_code(signal.SIGKILL) == 137
    assert linux.exit_code(3 << 8) == 3
    assert container_init.NEVER_RAN == 128
