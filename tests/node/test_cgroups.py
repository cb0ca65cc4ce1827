"""Limits by control groups, of both versions, on directories that look like the kernel's."""

import os
from pathlib import Path

import pytest

from launcher.node.shim import cgroups
from launcher.node.shim.cgroups import Cgroups, oom_kills


@pytest.fixture
def first(tmp_path: Path) -> Cgroups:
    """Version 1, each controller mounted by itself, and this process in /user."""
    for controller in ("memory", "cpu", "pids"):
        (tmp_path / controller / "user").mkdir(parents=True)
    mounts = "".join(
        f"30 20 0:{number} / {tmp_path}/{name} rw - cgroup cgroup rw,{name}\n"
        for number, name in enumerate(("memory", "cpu", "pids"))
    )
    return Cgroups("x", mounts, "3:pids:/user\n2:memory:/user\n1:cpu:/user\n0::/\n")


def second(tmp_path: Path, own: str = "/", *, controllers: str = "cpuset cpu io memory pids") -> Cgroups:
    """Version 2, with this process in *own*."""
    (tmp_path / "cgroup.controllers").write_text(controllers)
    here = tmp_path / own.strip("/")
    for folder in (tmp_path, here, *(here / name for name in ("launcher", "framework-launcher-x"))):
        folder.mkdir(exist_ok=True, parents=True)
        for name in ("cgroup.subtree_control", "cgroup.procs"):
            (folder / name).touch()
    return Cgroups("x", f"30 20 0:1 / {tmp_path} rw - cgroup2 cgroup rw\n", f"0::{own}\n")


def with_files(folder: Path, *names: str) -> None:
    """What the kernel puts into a new group."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def test_the_first_version_has_a_group_for_each_limit(first: Cgroups, tmp_path: Path) -> None:
    memory, cpu, pids = (
        tmp_path / name / "user" / "framework-launcher-x" / "run" for name in ("memory", "cpu", "pids")
    )
    with_files(pids, "pids.max")
    with_files(memory, "memory.limit_in_bytes")
    with_files(cpu, "cpu.cfs_period_us", "cpu.cfs_quota_us")

    made = first.make("run", 1 << 30, 1.5, 100)

    assert made == [str(memory), str(cpu), str(pids)]
    assert (pids / "pids.max").read_text() == "100"
    assert (memory / "memory.limit_in_bytes").read_text() == str(1 << 30)
    assert (cpu / "cpu.cfs_period_us").read_text() == "100000"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"
    assert not first.cannot


def test_the_second_version_has_one_group_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    groups = second(tmp_path)
    run = tmp_path / "framework-launcher-x" / "run"
    with_files(run, "memory.max", "memory.swap.max", "cpu.max", "pids.max")

    made = groups.make("run", 1 << 30, 0.001, 100)

    assert made == [str(run)]
    assert (run / "memory.max").read_text() == str(1 << 30)
    assert (run / "memory.swap.max").read_text() == "0"
    # The kernel takes nothing smaller.
    assert (run / "cpu.max").read_text() == "1000 100000"
    assert (run / "pids.max").read_text() == "100"
    assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+pids")


def test_without_limits_there_is_no_group(first: Cgroups) -> None:
    assert first.make("run", None, None) == []


def test_where_systemd_has_left_us_a_part_its_processes_move_to_a_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getxattr", lambda path, _: b"1" if path.endswith("/unit") else b"0")
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "cgroup.procs").write_text("17\n18\n")

    groups = second(tmp_path, "/unit")

    assert not groups.cannot
    assert (tmp_path / "unit" / "launcher" / "cgroup.procs").read_text() == "18"
    # The next keeper starts in the leaf, and finds the same place.
    assert not second(tmp_path, "/unit/launcher").cannot


@pytest.mark.parametrize(
    ("controllers", "user", "sentence"),
    [
        pytest.param("cpu", 0, "Memory limits are not enforced: this kernel", id="no controller"),
        pytest.param("cpu memory", 1000, "Memory limits are not enforced: no right", id="no right"),
    ],
)
def test_what_cannot_be_limited_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, controllers: str, user: int, sentence: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)

    groups = second(tmp_path, controllers=controllers)

    assert groups.cannot["memory"].startswith(sentence)
    assert groups.make("run", 1 << 30, None) == []


def test_without_any_control_groups_that_is_told() -> None:
    groups = Cgroups("x", "", "")

    assert groups.cannot == {
        "memory": "Memory limits are not enforced: no control groups are mounted.",
        "cpu": "CPU limits are not enforced: no control groups are mounted.",
        "pids": "Process limits are not enforced: no control groups are mounted.",
    }


@pytest.mark.parametrize("file", ["memory.events", "memory.oom_control"])
def test_a_kill_for_memory_is_seen(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    before = oom_kills([str(tmp_path)])

    path.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")

    assert (before, oom_kills([str(tmp_path)])) == (0, 2)


def test_a_group_that_is_still_busy_goes_later(first: Cgroups, tmp_path: Path) -> None:
    busy = tmp_path / "memory" / "user" / "framework-launcher-x" / "run"
    (busy / "process").mkdir(parents=True)
    first.remove([str(busy)])
    (busy / "process").rmdir()

    first.remove(())

    assert not busy.exists()


def test_at_the_end_nothing_is_left(first: Cgroups, tmp_path: Path) -> None:
    first.close()

    assert not os.listdir(tmp_path / "memory" / "user")
    assert not os.listdir(tmp_path / "cpu" / "user")


def test_groups_of_runs_that_nobody_knows_go(first: Cgroups, tmp_path: Path) -> None:
    place = tmp_path / "memory" / "user" / "framework-launcher-x"
    for name in ("known", "unknown"):
        (place / name).mkdir()

    first.remove_all_but({str(place / "known")})

    assert os.listdir(place) == ["known"]
    assert cgroups.oom_kills([str(place / "unknown")]) == 0
