"""Simulated machines leave nothing behind, and two test runs do not conflict."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.processes import RunningProcess
from tests.cluster.versions import PROJECT
from tests.eventually import until
from tests.realnodes import cgroups
from tests.realnodes.machine import NodeMachine
from tests.realnodes.networks import Network
from tests.realnodes.prepare import missing_requirement

#: A test run that never ends: a network, a machine, and an orphaned process in it.
TESTS = """
import pathlib, sys, time
from tests.realnodes.machine import NodeMachine
from tests.realnodes.networks import Network
directory = pathlib.Path(sys.argv[1])
network = Network(directory / "switch")
machine = NodeMachine("box", directory / "box")
network.add_node(machine, 1)
machine.run("sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &")
sleeping = machine.start(["/bin/sleep", "600"], log=directory / "log")
print(sleeping.pid, machine.pid, machine.cgroup, network.block.interface, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _possible() -> None:
    if reason := missing_requirement():
        pytest.skip(f"left out the tests on real nodes: {reason}")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[NodeMachine]:
    (tmp_path / "data").mkdir()
    (tmp_path / "panic").write_text("0\n")
    machine = NodeMachine(
        "box",
        tmp_path / "box",
        shown={"/data": tmp_path / "data"},
        replaced={"/proc/sys/kernel/panic": tmp_path / "panic"},
    )
    yield machine
    machine.switch_off()


def test_a_machine_has_its_own_processes_network_and_name(machine: NodeMachine) -> None:
    assert machine.run("hostname") == "box\n"
    assert machine.run("cat", "/proc/1/comm") == Path(f"/proc/{machine.pid}/comm").read_text()
    assert [line.split(":")[1].strip() for line in machine.run("ip", "-o", "link").splitlines()] == ["lo"]
    assert machine.run("ls", "/run") == ""


def test_a_directory_is_mounted_only_at_its_target(machine: NodeMachine, tmp_path: Path) -> None:
    machine.run("sh", "-c", "echo hello >/data/file")

    assert (tmp_path / "data" / "file").read_text() == "hello\n"


def test_kernel_wide_settings_cannot_be_changed_in_a_machine(machine: NodeMachine, tmp_path: Path) -> None:
    before = Path("/proc/sys/kernel/panic").read_text()

    machine.run("sh", "-c", "echo 12 >/proc/sys/kernel/panic")

    assert (tmp_path / "panic").read_text() == "12\n"
    assert Path("/proc/sys/kernel/panic").read_text() == before


def test_a_process_in_a_machine_has_an_id_outside(machine: NodeMachine, tmp_path: Path) -> None:
    process = machine.start(["/bin/sleep", "600"], log=tmp_path / "log")
    name = Path(f"/proc/{process.pid}/comm")
    until(lambda: name.read_text() == "sleep\n" or None, "it sleeps")

    process.send(signal.SIGKILL)

    assert process.ended(within=10)
    process.close()


def test_two_test_runs_have_two_networks(tmp_path: Path) -> None:
    first, second = Network(tmp_path / "first"), Network(tmp_path / "second")
    try:
        assert first.block != second.block
        assert first.block.host_address != second.block.host_address
    finally:
        first.end()
        second.end()

    until(
        lambda: not Path("/sys/class/net", first.block.interface).exists() or None, "its interface is removed"
    )


def test_killed_tests_leave_no_processes(tmp_path: Path) -> None:
    mounts = Path("/proc/mounts").read_text()
    tests = subprocess.Popen(
        [sys.executable, "-c", TESTS, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    with tests:
        assert tests.stdout is not None
        sleeping, first, group, interface = tests.stdout.readline().split()
        processes = [RunningProcess(int(pid), tmp_path / "log") for pid in (sleeping, first)]
        assert cgroups.exists(group)

        tests.kill()

        for process in processes:
            assert process.ended(within=10)
            process.close()
    until(lambda: not cgroups.exists(group) or None, "its control groups are removed")
    until(lambda: not Path("/sys/class/net", interface).exists() or None, "its interface is removed")
    until(lambda: not (tmp_path / "box").exists() or None, "its directory is removed")
    assert Path("/proc/mounts").read_text() == mounts
