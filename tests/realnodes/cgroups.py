"""Cgroups of a simulated machine."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
#: The cgroups of a machine's own programs and of its pods: in version 2 a cgroup has either members or children.
DAEMONS, PODS = "daemons", "pods"
#: In version 1, these have to be set before a cgroup can have members.
_INHERITED = ("cpuset.cpus", "cpuset.mems")


def make(name: str) -> list[Path]:
    """Creates the cgroup *name* with its two children. Returns the files to which members of the first are written."""
    for hierarchy in _hierarchies():
        for path in (hierarchy / name, hierarchy / name / DAEMONS, hierarchy / name / PODS):
            path.mkdir()
            _enable_controllers(path)
    return [hierarchy / name / DAEMONS / "cgroup.procs" for hierarchy in _hierarchies()]


def remove(name: str) -> None:
    """Removes the cgroup and its descendants, which have no members."""
    for hierarchy in _hierarchies():
        for path in (*_below(hierarchy / name), hierarchy / name):
            with suppress(FileNotFoundError):
                path.rmdir()


def exists(name: str) -> bool:
    """Whether any of its cgroups exists."""
    return any((hierarchy / name).exists() for hierarchy in _hierarchies())


def _hierarchies() -> list[Path]:
    """One hierarchy for version 2, or one for each controller of version 1."""
    if (_ROOT / "cgroup.controllers").exists():
        return [_ROOT]
    return [path for path in _ROOT.iterdir() if (path / "cgroup.procs").exists() and not path.is_symlink()]


def _enable_controllers(path: Path) -> None:
    for name in _INHERITED:
        if (path / name).exists() and not (path / name).read_text().strip():
            (path / name).write_text((path.parent / name).read_text())
    controllers = path.parent / "cgroup.controllers"
    if controllers.exists():
        enabled = " ".join(f"+{controller}" for controller in controllers.read_text().split())
        (path.parent / "cgroup.subtree_control").write_text(enabled)


def _below(path: Path) -> Iterator[Path]:
    """All descendants, the innermost first."""
    for inner in sorted(path.iterdir()) if path.exists() else ():
        if inner.is_dir():
            yield from _below(inner)
            yield inner
