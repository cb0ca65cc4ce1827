"""Limits of memory, CPU and processes by control groups, version 1 or 2, as far as this process may make any."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Microseconds in which a group may use its share of CPU.
_PERIOD = 100_000
#: The least that the kernel takes.
_LEAST_QUOTA = 1_000
_LIMITS = {"memory": "Memory", "cpu": "CPU", "pids": "Process"}
#: Settings that some kernels do not have.
_MAY_LACK = ("memory.swap.max", "memory.oom.group")
#: Where the launcher's own processes go, in a part of the tree that is left to us.
_LEAF = "launcher"
_FOLDER = "framework-launcher"


class Cgroups:
    """A place for the groups of runs, one hierarchy for each of memory, CPU and processes."""

    def __init__(self, name: str, mounts: str, own: str) -> None:
        """
        *name* tells these groups from those of other keepers.

        *mounts* and *own* are ``/proc/self/mountinfo`` and ``/proc/self/cgroup``.
        """
        #: Directory by controller, and whether it is of version 2.
        self._places: dict[str, tuple[str, bool]] = {}
        #: A sentence for each limit that cannot be set.
        self.cannot: dict[str, str] = {}
        self._left: set[str] = set()
        found = dict(_hierarchies(mounts, own))
        for controller in _LIMITS:
            try:
                self._places[controller] = _prepared(found, controller, f"{_FOLDER}-{name}")
            except OSError as error:
                limit = _LIMITS[controller]
                self.cannot[controller] = f"{limit} limits are not enforced: {error.strerror or error}."

    def make(self, run: str, memory: int | None, cpu: float | None, pids: int | None = None) -> list[str]:
        """The groups of a run that has these limits; none for limits that cannot be enforced."""
        made: list[str] = []
        for controller, limit in (("memory", memory), ("cpu", cpu), ("pids", pids)):
            if limit is None or controller not in self._places:
                continue
            place, second = self._places[controller]
            path = f"{place}/{run}"
            if path not in made:
                os.makedirs(path, exist_ok=True)
                made.append(path)
            for file, text in _settings(controller, limit, second=second):
                if file not in _MAY_LACK or os.path.exists(f"{path}/{file}"):
                    _write(f"{path}/{file}", text)
        return made

    def remove(self, paths: Iterable[str]) -> None:
        """These groups go, now or as soon as they can."""
        self._left.update(paths)
        for path in list(self._left):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                pass
            except OSError:
                continue  # a process in it has not quite gone
            self._left.discard(path)

    def remove_all_but(self, kept: set[str]) -> None:
        """Groups that an earlier keeper left behind go."""
        for place in {place for place, _ in self._places.values()}:
            self.remove(
                entry.path for entry in os.scandir(place) if entry.is_dir() and entry.path not in kept
            )

    def close(self) -> None:
        """The place itself goes, if nothing is left in it."""
        self.remove(place for place, _ in self._places.values())


def oom_kills(paths: Iterable[str]) -> int:
    """How many processes of the group the kernel has killed because the group used too much memory."""
    return sum(
        int(line.split()[1])
        for path in paths
        for file in ("memory.events", "memory.oom_control")
        for line in _lines(f"{path}/{file}")
        if line.startswith("oom_kill ")
    )


def _settings(controller: str, limit: float, *, second: bool) -> list[tuple[str, str]]:
    if controller == "memory":
        if not second:
            return [("memory.limit_in_bytes", str(int(limit)))]
        return [("memory.max", str(int(limit))), ("memory.swap.max", "0"), ("memory.oom.group", "1")]
    if controller == "pids":
        return [("pids.max", str(int(limit)))]
    quota = max(_LEAST_QUOTA, int(limit * _PERIOD))
    if second:
        return [("cpu.max", f"{quota} {_PERIOD}")]
    return [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota))]


def _hierarchies(mounts: str, own: str) -> Iterable[tuple[str, tuple[str, str]]]:
    """Controller (``""`` for version 2) to where it is mounted and where this process stands in it."""
    stands = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            stands[controller] = path
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, where = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        names = options.split(",") if kind == "cgroup" else [""] if kind == "cgroup2" else []
        for name in names:
            if name in stands:
                inside = stands[name].removeprefix(root.rstrip("/"))
                yield name, (where, where + inside.rstrip("/"))


def _prepared(found: dict[str, tuple[str, str]], controller: str, folder: str) -> tuple[str, bool]:
    """The directory for groups of this controller. Raises OSError that says why there can be none."""
    if controller in found:
        path = f"{found[controller][1]}/{folder}"
        os.makedirs(path, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(f"no right to change control groups in {path}")
        return path, False
    if "" not in found:
        raise FileNotFoundError("no control groups are mounted")
    top, here = found[""]
    if controller not in _read(f"{top}/cgroup.controllers").split():
        raise FileNotFoundError(f"this kernel or container has no {controller} controller")
    if here.endswith(f"/{_LEAF}"):  # an earlier keeper has moved us there
        here = os.path.dirname(here)
    if _delegated(here):
        # A group with processes of its own cannot pass controllers on: they go into one below.
        leaf = f"{here}/{_LEAF}"
        os.makedirs(leaf, exist_ok=True)
        for pid in _lines(f"{here}/cgroup.procs"):
            _write(f"{leaf}/cgroup.procs", pid)
        above = here
    elif os.access(f"{top}/cgroup.subtree_control", os.W_OK) and os.geteuid() == 0:
        above = top
    else:
        raise PermissionError(
            "no right to make control groups (start the launcher as root, or as a systemd unit with Delegate=yes)"
        )
    path = f"{above}/{folder}"
    os.makedirs(path, exist_ok=True)
    for group in (above, path):
        _write(f"{group}/cgroup.subtree_control", f"+{controller}")
    return path, True


def _delegated(group: str) -> bool:
    """Whether systemd has left this part of the tree to us."""
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(group, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _lines(path: str) -> list[str]:
    try:
        return _read(path).splitlines()
    except OSError:
        return []


def _write(path: str, text: str) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)
