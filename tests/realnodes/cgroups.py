"""Control groups of a machine within this one."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
#: Of a machine's own group: where its own programs are, and where kubelet puts pods. A group of the second version has
#: members or groups in it, never both.
DAEMONS, PODS = "daemons", "pods"
#: With the first version, a group is empty until it is told what it may use.
_INHERITED = ("cpuset.cpus", "cpuset.mems")


def make(name: str) -> list[Path]:
    """Make the group *name* with its two groups; the files by which a process becomes a member of the first."""
    for hierarchy in _hierarchies():
        for path in (hierarchy / name, hierarchy / name / DAEMONS, hierarchy / name / PODS):
            path.mkdir()
            _let_use(path)
    return [hierarchy / name / DAEMONS / "cgroup.procs" for hierarchy in _hierarchies()]


def remove(name: str) -> None:
    """Remove the group and all groups in it, which have no members any more."""
    for hierarchy in _hierarchies():
        for path in (*_below(hierarchy / name), hierarchy / name):
            with suppress(FileNotFoundError):
                path.rmdir()


def exists(name: str) -> bool:
    """Whether anything of it is there."""
    return any((hierarchy / name).exists() for hierarchy in _hierarchies())


def _hierarchies() -> list[Path]:
    """One for all of the second version, or one for each controller of the first."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in _ROOT.iterdir() if (path / "cgroup.procs").exists() and not path.is_symlink()]


def _let_use(path: Path) -> None:
    for name in _INHERITED:
        if (path / name).exists() and not (path / name).read_text().strip():
            (path / name).write_text((path.parent / name).read_text())
    offered = path.parent / "cgroup.controllers"
    if offered.exists():
        wanted = " ".join(f"+{controller}" for controller in offered.read_text().split())
        (path.parent / "cgroup.subtree_control").write_text(wanted)


def _below(path: Path) -> Iterator[Path]:
    """Every group below, the innermost first."""
    for inner in sorted(path.iterdir()) if path.exists() else ():
        if inner.is_dir():
            yield from _below(inner)
            yield inner
