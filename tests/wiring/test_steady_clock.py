"""Durations do not depend on what is done to the machine's clock while the launcher runs."""

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
PACKAGES = ("controller", "core", "node/collecting", "node/pods", "node/scheduling", "discovery", "store")
#: Credentials of a cluster expire by the wall clock.
WALL = ("store/kube/",)


class Machine:
    """A machine whose wall clock can be set."""

    def __init__(self) -> None:
        self.wall, self.elapsed = 1_800_000_000.0, 500.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.wall, lambda: self.elapsed)

    def pass_by(self, seconds: float) -> None:
        self.wall, self.elapsed = self.wall + seconds, self.elapsed + seconds


@pytest.mark.parametrize("jump", [-HOUR, HOUR, -1e9], ids=["set back", "set forward", "set back for years"])
def test_a_pause_lasts_as_long_as_it_should_when_the_clock_is_set(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    due = clock() + 30.0

    machine.wall += jump
    machine.pass_by(29.0)
    assert clock() < due
    machine.pass_by(1.0)

    assert clock() == due


def test_it_begins_with_the_time_of_the_machine() -> None:
    machine = Machine()

    assert machine.clock()() == machine.wall


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["set back", "set forward"])
def test_the_back_off_of_a_container_is_counted_from_when_its_end_was_seen(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += jump
    # The shim is a process of its own and reads the wall clock.
    end = with_plausible_time(ExitStatus(1, "Error", machine.wall), clock())

    pause = RestartBackoff().first_seconds

    assert end.finished_at + pause - clock() == pytest.approx(pause)


def test_an_end_that_was_just_seen_keeps_its_own_time() -> None:
    assert with_plausible_time(ExitStatus(0, "Completed", 999.5), 1000.0).finished_at == 999.5


def test_no_part_that_measures_durations_reads_the_wall_clock_itself() -> None:
    root = Path(launcher.__file__).parent
    reads = re.compile(r"\btime\.time\b|\bdatetime\.now\b")
    found = [
        str(path.relative_to(root))
        for package in PACKAGES
        for path in (root / package).rglob("*.py")
        if reads.search(path.read_text())
    ]

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
def test_a_retry_pause_is_over_when_the_clock_was_set_back_since(since: int, due_at: int) -> None:
    assert due(since, 30, now=1000) == due_at
