"""
What running containers have used: from their cgroups where they have some, else from their processes.

A container has cgroups only for its limits, so its CPU time may come from a cgroup and its memory from /proc.
"""

import os
from collections.abc import Iterable, Iterator, Mapping

from launcher.node.container_runtime import ResourceUsage

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessTree:
    """The processes of this machine at one time, read when they are needed."""

    def __init__(self) -> None:
        self._children: dict[int, list[int]] | None = None
        self._cpu_seconds: dict[int, float] = {}

    def usage(self, root: int) -> ResourceUsage:
        """What *root* and its descendants use; zero if it has ended."""
        pids = list(self._descendants(root))
        cpu = sum(self._cpu_seconds.get(pid, 0.0) for pid in pids)
        return ResourceUsage(cpu, sum(map(_private_bytes, pids)))

    def _descendants(self, root: int) -> Iterator[int]:
        if self._children is None:
            self._children = {}
            for name in filter(str.isdecimal, os.listdir("/proc")):
                self._read(int(name), self._children)
        found = [root]
        for pid in found:
            found += self._children.get(pid, ())
        yield from found

    def _read(self, pid: int, children: dict[int, list[int]]) -> None:
        # The program's name may contain spaces and brackets; the fields after the last bracket do not.
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        if fields:  # else it has ended
            children.setdefault(int(fields[1]), []).append(pid)
            # Its own time in user and kernel mode, and that of children that have ended.
            self._cpu_seconds[pid] = sum(map(int, fields[11:15])) / _TICKS


def usage_of(pid: int, cgroups: Iterable[str], processes: ProcessTree) -> ResourceUsage:
    """What the container with that first process and these cgroups has used."""
    paths = list(cgroups)
    cpu, memory = _cgroup_cpu_seconds(paths), _cgroup_memory_bytes(paths)
    if cpu is not None and memory is not None:
        return ResourceUsage(cpu, memory)
    used = processes.usage(pid)
    return ResourceUsage(
        used.cpu_seconds if cpu is None else cpu, used.memory_bytes if memory is None else memory
    )


def _cgroup_cpu_seconds(paths: Iterable[str]) -> float | None:
    for path in paths:
        if (microseconds := _values(f"{path}/cpu.stat").get("usage_usec")) is not None:
            return microseconds / 1e6
        if nanoseconds := _text(f"{path}/cpuacct.usage"):
            return int(nanoseconds) / 1e9
    return None


def _cgroup_memory_bytes(paths: Iterable[str]) -> int | None:
    """The working set, as the kubelet reports it: without file pages that were not used lately."""
    for path in paths:
        for file, inactive in (
            ("memory.current", "inactive_file"),
            ("memory.usage_in_bytes", "total_inactive_file"),
        ):
            if used := _text(f"{path}/{file}"):
                return max(0, int(used) - _values(f"{path}/memory.stat").get(inactive, 0))
    return None


def _private_bytes(pid: int) -> int:
    """The memory of a process without the pages of files that it shares."""
    sizes = _text(f"/proc/{pid}/statm").split()
    return (int(sizes[1]) - int(sizes[2])) * _PAGE_BYTES if sizes else 0


def _values(path: str) -> Mapping[str, int]:
    pairs = (line.split() for line in _text(path).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def _text(path: str) -> str:
    """The content; empty if it does not exist, also because a process or container has ended."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
