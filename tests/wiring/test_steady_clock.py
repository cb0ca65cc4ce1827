"""Durations do not depend on changes of the machine's clock while the launcher runs."""

import re
from pathlib import Path

import pytest

import launcher
from launcher.core.planning.retry import due
from launcher.node.container_runtime import ExitStatus
from launcher.node.pods.container_state import with_plausible_time
from launcher.node.pods.pod_lifecycle import RestartBackoff
from launcher.wiring.steady_clock import SteadyClock

HOUR = 3600.0
#: Modules that measure durations.
MODULES = (
    "controller/**/*.py",
    "core/**/*.py",
    "node/garbage_collector/*.py",
    "node/pods/*.py",
    "node/scheduler.py",
    "rendezvous/**/*.py",
    "scheduling/*.py",
    "store/**/*.py",
)
#: Credentials of a cluster expire by the wall clock.
WALL = ("store/kubernetes/",)


class MachineClocks:
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        self.wall, self.elapsed = 1_800_000_000.0, 500.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.elapsed)

    def advance(self, seconds: float) -> None:
        self.wall, self.elapsed = self.wall + seconds, self.elapsed + seconds


@pytest.mark.parametrize("jump", [-HOUR, HOUR, -1e9], ids=["set back", "set forward", "set back for years"])
def test_a_pause_keeps_its_length_when_the_clock_is_set(jump: float) -> None:
    machine = MachineClocks()
    clock = machine.clock()
    due = clock() + 30.0

    machine.wall += jump
    machine.advance(29.0)
    assert clock() < due
    machine.advance(1.0)

    assert clock() == due


def test_the_first_time_is_that_of_the_machine() -> None:
    machine = MachineClocks()

    assert machine.clock()() == machine.wall


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["set back", "set forward"])
def test_the_back_off_of_a_container_starts_when_its_exit_is_observed(jump: float) -> None:
    machine = MachineClocks()
    clock = machine.clock()
    machine.wall += jump
    # The shim is a process of its own and reads the wall clock.
    end = with_plausible_time(ExitStatus(1, "Error", machine.wall), clock())

    pause = RestartBackoff().first_seconds

    assert end.finished_at + pause - clock() == pytest.approx(pause)


def test_an_exit_that_is_observed_at_once_keeps_its_own_time() -> None:
    assert with_plausible_time(ExitStatus(0, "Completed", 999.5), 1000.0).finished_at == 999.5


def test_no_component_that_measures_durations_reads_the_wall_clock() -> None:
    root = Path(launcher.__file__).parent
    reads = re.compile(r"\btime\.time\b|\bdatetime\.now\b")
    paths = {pattern: list(root.glob(pattern)) for pattern in MODULES}
    found = [
        str(path.relative_to(root))
        for each in paths.values()
        for path in each
        if reads.search(path.read_text())
    ]

    assert all(paths.values())
    assert [path for path in found if not path.startswith(WALL)] == []
    assert not reads.search((root / "wiring" / "local.py").read_text())


@pytest.mark.parametrize(
    ("since", "due_at"),
    [
        pytest.param(1000, 1030, id="the clock was left alone"),
        pytest.param(990, 1020, id="part of the pause has passed"),
        pytest.param(1002, 1032, id="the clock of a node is a little ahead"),
        pytest.param(1000 + 3600, 1000, id="the clock was set back while no launcher ran"),
    ],
)
def test_a_retry_delay_ends_although_the_clock_was_set_back(since: int, due_at: int) -> None:
    assert due(since, 30, now=1000) == due_at
