"""Limits memory, CPU and processes by cgroups, version 1 or 2, as far as this process may create them."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_CPU_PERIOD_MICROSECONDS = 100_000
#: The kernel's minimum.
_MIN_QUOTA_MICROSECONDS = 1_000
_LIMITS = {"memory": "Memory", "cpu": "CPU", "pids": "Process"}
#: Settings that some kernels do not have.
_OPTIONAL_SETTINGS = ("memory.swap.max", "memory.oom.group")
#: The cgroup of the launcher's own processes in a delegated subtree.
_LEAF = "launcher"
_FOLDER = "framework-launcher"


class Cgroups:
    """The cgroups of the runs of one shim."""

    def __init__(self, name: str, mounts: str, own: str) -> None:
        """
        *name* distinguishes these cgroups from those of other shims.

        *mounts* and *own* are ``/proc/self/mountinfo`` and ``/proc/self/cgroup``.
        """
        #: Directory by controller, and whether it is of version 2.
        self._directories: dict[str, tuple[str, bool]] = {}
        #: A sentence for each limit that cannot be set.
        self.unsupported: dict[str, str] = {}
        self._removable: set[str] = set()
        hierarchies = dict(_hierarchies(mounts, own))
        for controller in _LIMITS:
            try:
                self._directories[controller] = _prepare(hierarchies, controller, f"{_FOLDER}-{name}")
            except OSError as error:
                limit = _LIMITS[controller]
                self.unsupported[controller] = f"{limit} limits are not enforced: {error.strerror or error}."

    def create(self, run: str, memory: int | None, cpu: float | None, pids: int | None = None) -> list[str]:
        """Creates the cgroups of a run with these limits, except for limits that cannot be enforced."""
        created: list[str] = []
        for controller, limit in (("memory", memory), ("cpu", cpu), ("pids", pids)):
            if limit is None or controller not in self._directories:
                continue
            directory, is_v2 = self._directories[controller]
            path = f"{directory}/{run}"
            if path not in created:
                os.makedirs(path, exist_ok=True)
                created.append(path)
            for file, text in _settings(controller, limit, is_v2=is_v2):
                if file not in _OPTIONAL_SETTINGS or os.path.exists(f"{path}/{file}"):
                    _write(f"{path}/{file}", text)
        return created

    def remove(self, paths: Iterable[str]) -> None:
        """Removes these cgroups, and retries those that could not be removed before."""
        self._removable.update(paths)
        for path in list(self._removable):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                pass
            except OSError:
                continue  # a process in it is still exiting
            self._removable.discard(path)

    def remove_all_but(self, used: set[str]) -> None:
        """Removes the cgroups that an earlier shim left behind."""
        for directory in {directory for directory, _ in self._directories.values()}:
            self.remove(
                entry.path for entry in os.scandir(directory) if entry.is_dir() and entry.path not in used
            )

    def close(self) -> None:
        """Removes the directories of these cgroups, if they are empty."""
        self.remove(directory for directory, _ in self._directories.values())


def oom_kills(paths: Iterable[str]) -> int:
    """The number of processes in these cgroups that the kernel killed because a memory limit was exceeded."""
    return sum(
        int(line.split()[1])
        for path in paths
        for file in ("memory.events", "memory.oom_control")
        for line in _lines(f"{path}/{file}")
        if line.startswith("oom_kill ")
    )


def _settings(controller: str, limit: float, *, is_v2: bool) -> list[tuple[str, str]]:
    if controller == "memory":
        if not is_v2:
            return [("memory.limit_in_bytes", str(int(limit)))]
        return [("memory.max", str(int(limit))), ("memory.swap.max", "0"), ("memory.oom.group", "1")]
    if controller == "pids":
        return [("pids.max", str(int(limit)))]
    quota = max(_MIN_QUOTA_MICROSECONDS, int(limit * _CPU_PERIOD_MICROSECONDS))
    if is_v2:
        return [("cpu.max", f"{quota} {_CPU_PERIOD_MICROSECONDS}")]
    return [("cpu.cfs_period_us", str(_CPU_PERIOD_MICROSECONDS)), ("cpu.cfs_quota_us", str(quota))]


def _hierarchies(mounts: str, own: str) -> Iterable[tuple[str, tuple[str, str]]]:
    """Yields each controller (``""`` for version 2) with its mount point and the directory of this process's cgroup."""
    own_paths = {}
    for line in own.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own_paths[controller] = path
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        root, mount_point = before.split()[3:5]
        filesystem, _, options = after.split(" ", 2)
        names = options.split(",") if filesystem == "cgroup" else [""] if filesystem == "cgroup2" else []
        for name in names:
            if name in own_paths:
                relative = own_paths[name].removeprefix(root.rstrip("/"))
                yield name, (mount_point, mount_point + relative.rstrip("/"))


def _prepare(hierarchies: dict[str, tuple[str, str]], controller: str, folder: str) -> tuple[str, bool]:
    """
    Create the directory for cgroups of this controller.

    Returns it and whether it is of version 2. Raises OSError with the reason if there can be none.
    """
    if controller in hierarchies:
        path = f"{hierarchies[controller][1]}/{folder}"
        os.makedirs(path, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(f"no permission to change cgroups in {path}")
        return path, False
    if "" not in hierarchies:
        raise FileNotFoundError("no cgroups are mounted")
    top, current = hierarchies[""]
    if controller not in _read(f"{top}/cgroup.controllers").split():
        raise FileNotFoundError(f"this kernel or container has no {controller} controller")
    if current.endswith(f"/{_LEAF}"):  # an earlier shim has moved this process there
        current = os.path.dirname(current)
    if _is_delegated(current):
        # A cgroup with processes cannot enable controllers for its children: the processes move to a child.
        leaf = f"{current}/{_LEAF}"
        os.makedirs(leaf, exist_ok=True)
        for pid in _lines(f"{current}/cgroup.procs"):
            _write(f"{leaf}/cgroup.procs", pid)
        parent = current
    elif os.access(f"{top}/cgroup.subtree_control", os.W_OK) and os.geteuid() == 0:
        parent = top
    else:
        raise PermissionError(
            "no permission to create cgroups (start the launcher as root, or as a systemd unit with Delegate=yes)"
        )
    path = f"{parent}/{folder}"
    os.makedirs(path, exist_ok=True)
    for group in (parent, path):
        _write(f"{group}/cgroup.subtree_control", f"+{controller}")
    return path, True


def _is_delegated(group: str) -> bool:
    """Whether systemd has delegated this cgroup."""
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
