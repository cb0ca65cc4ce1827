"""Cgroups of both versions, on directories with the kernel's layout."""

import os
from pathlib import Path

import pytest

from launcher.node.shim import cgroups
from launcher.node.shim.cgroups import Cgroups, oom_kills


@pytest.fixture
def version_1(tmp_path: Path) -> Cgroups:
    """Version 1, each controller mounted by itself, and this process in /user."""
    for controller in ("memory", "cpu", "pids"):
        (tmp_path / controller / "user").mkdir(parents=True)
    mounts = "".join(
        f"30 20 0:{number} / {tmp_path}/{name} rw - cgroup cgroup rw,{name}\n"
        for number, name in enumerate(("memory", "cpu", "pids"))
    )
    return Cgroups("x", mounts, "3:pids:/user\n2:memory:/user\n1:cpu:/user\n0::/\n")


def version_2(tmp_path: Path, own: str = "/", *, controllers: str = "cpuset cpu io memory pids") -> Cgroups:
    """Version 2, with this process in *own*."""
    (tmp_path / "cgroup.controllers").write_text(controllers)
    here = tmp_path / own.strip("/")
    for folder in (tmp_path, here, *(here / name for name in ("launcher", "framework-launcher-x"))):
        folder.mkdir(exist_ok=True, parents=True)
        for name in ("cgroup.subtree_control", "cgroup.procs"):
            (folder / name).touch()
    return Cgroups("x", f"30 20 0:1 / {tmp_path} rw - cgroup2 cgroup rw\n", f"0::{own}\n")


def with_files(folder: Path, *names: str) -> None:
    """Creates the files that the kernel creates in a new cgroup."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()


def test_version_1_has_a_cgroup_for_each_limit(version_1: Cgroups, tmp_path: Path) -> None:
    memory, cpu, pids = (
        tmp_path / name / "user" / "framework-launcher-x" / "run" for name in ("memory", "cpu", "pids")
    )
    with_files(pids, "pids.max")
    with_files(memory, "memory.limit_in_bytes")
    with_files(cpu, "cpu.cfs_period_us", "cpu.cfs_quota_us")

    made = version_1.create("run", 1 << 30, 1.5, 100)

    assert made == [str(memory), str(cpu), str(pids)]
    assert (pids / "pids.max").read_text() == "100"
    assert (memory / "memory.limit_in_bytes").read_text() == str(1 << 30)
    assert (cpu / "cpu.cfs_period_us").read_text() == "100000"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "150000"
    assert not version_1.unsupported


def test_version_2_has_one_cgroup_for_all_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    groups = version_2(tmp_path)
    run = tmp_path / "framework-launcher-x" / "run"
    with_files(run, "memory.max", "memory.swap.max", "cpu.max", "pids.max")

    made = groups.create("run", 1 << 30, 0.001, 100)

    assert made == [str(run)]
    assert (run / "memory.max").read_text() == str(1 << 30)
    assert (run / "memory.swap.max").read_text() == "0"
    # The kernel's minimum.
    assert (run / "cpu.max").read_text() == "1000 100000"
    assert (run / "pids.max").read_text() == "100"
    assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+pids")


def test_a_run_without_limits_has_no_cgroup(version_1: Cgroups) -> None:
    assert version_1.create("run", None, None) == []


def test_in_a_delegated_cgroup_the_processes_move_to_a_leaf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getxattr", lambda path, _: b"1" if path.endswith("/unit") else b"0")
    (tmp_path / "unit").mkdir()
    (tmp_path / "unit" / "cgroup.procs").write_text("17\n18\n")

    groups = version_2(tmp_path, "/unit")

    assert not groups.unsupported
    assert (tmp_path / "unit" / "launcher" / "cgroup.procs").read_text() == "18"
    # The next shim starts in the leaf and uses the same directory.
    assert not version_2(tmp_path, "/unit/launcher").unsupported


@pytest.mark.parametrize(
    ("controllers", "user", "sentence"),
    [
        pytest.param("cpu", 0, "Memory limits are not enforced: this kernel", id="no controller"),
        pytest.param("cpu memory", 1000, "Memory limits are not enforced: no permission", id="no permission"),
    ],
)
def test_a_limit_that_cannot_be_enforced_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, controllers: str, user: int, sentence: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)

    groups = version_2(tmp_path, controllers=controllers)

    assert groups.unsupported["memory"].startswith(sentence)
    assert groups.create("run", 1 << 30, None) == []


def test_missing_cgroups_are_reported() -> None:
    groups = Cgroups("x", "", "")

    assert groups.unsupported == {
        "memory": "Memory limits are not enforced: no cgroups are mounted.",
        "cpu": "CPU limits are not enforced: no cgroups are mounted.",
        "pids": "Process limits are not enforced: no cgroups are mounted.",
    }


@pytest.mark.parametrize("file", ["memory.events", "memory.oom_control"])
def test_processes_killed_for_memory_are_counted(tmp_path: Path, file: str) -> None:
    path = tmp_path / file
    path.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n")
    before = oom_kills([str(tmp_path)])

    path.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")

    assert (before, oom_kills([str(tmp_path)])) == (0, 2)


def test_a_cgroup_with_processes_is_removed_later(version_1: Cgroups, tmp_path: Path) -> None:
    busy = tmp_path / "memory" / "user" / "framework-launcher-x" / "run"
    (busy / "process").mkdir(parents=True)
    version_1.remove([str(busy)])
    (busy / "process").rmdir()

    version_1.remove(())

    assert not busy.exists()


def test_close_removes_the_directories(version_1: Cgroups, tmp_path: Path) -> None:
    version_1.close()

    assert not os.listdir(tmp_path / "memory" / "user")
    assert not os.listdir(tmp_path / "cpu" / "user")


def test_cgroups_of_unknown_runs_are_removed(version_1: Cgroups, tmp_path: Path) -> None:
    parent = tmp_path / "memory" / "user" / "framework-launcher-x"
    for name in ("known", "unknown"):
        (parent / name).mkdir()

    version_1.remove_all_but({str(parent / "known")})

    assert os.listdir(parent) == ["known"]
    assert cgroups.oom_kills([str(parent / "unknown")]) == 0
