"""The processes of the test bed end with the tests."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import Guard, RunningProcess
from tests.cluster.versions import PROJECT

SLEEP = ["/bin/sleep", "600"]
#: A test run that does not end.
TESTS = f"""
import pathlib, sys, time
from tests.cluster.processes import Guard
started = Guard().start({SLEEP}, log=pathlib.Path(sys.argv[1]), directory=pathlib.Path("/"))
print(started.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def guard() -> Iterator[Guard]:
    guard = Guard()
    yield guard
    guard.end()


def test_a_process_writes_its_log_and_its_exit_is_observed(guard: Guard, tmp_path: Path) -> None:
    process = guard.start(["/bin/echo", "hello"], log=tmp_path / "log", directory=tmp_path)

    assert process.ended(within=10)
    assert process.log_tail() == "hello"
    process.close()


def test_a_missing_program_is_reported_in_the_log(guard: Guard, tmp_path: Path) -> None:
    process = guard.start(["/nonexistent"], log=tmp_path / "log", directory=tmp_path)

    assert process.ended(within=10)
    assert "/nonexistent" in process.log_tail()
    process.close()


def test_a_process_gets_signals(guard: Guard, tmp_path: Path) -> None:
    process = guard.start(SLEEP, log=tmp_path / "log", directory=tmp_path)
    assert not process.ended()

    process.send(signal.SIGTERM)

    assert process.ended(within=10)
    process.close()


def test_processes_end_with_the_guard(tmp_path: Path) -> None:
    guard = Guard()
    process = guard.start(SLEEP, log=tmp_path / "log", directory=tmp_path)

    guard.end()

    assert process.ended(within=10)
    process.close()


def test_processes_end_with_tests_that_are_killed(tmp_path: Path) -> None:
    tests = subprocess.Popen(
        [sys.executable, "-c", TESTS, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    with tests:
        assert tests.stdout is not None
        process = RunningProcess(int(tests.stdout.readline()), tmp_path / "log")
        assert not process.ended()

        tests.kill()

        assert process.ended(within=10)
        process.close()
