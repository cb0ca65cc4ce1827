"""This machine: its name and address, and how much of it we may use. Asks the kernel; nothing goes over a network."""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

#: Addresses set aside for documentation: a route to them tells which of our addresses others would see.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_LOOPBACK = "127.0.0.1"
_ROOT = Path("/")


def name() -> str:
    """The host name, made one that Kubernetes allows for a node."""
    return valid_name(socket.gethostname())


def valid_name(text: str) -> str:
    """*text* in small letters, digits, hyphens and dots; ``localhost`` if nothing of it is left."""
    parts = (re.sub(r"[^a-z0-9-]+", "-", part)[:63].strip("-") for part in text.lower().split("."))
    return ".".join(part for part in parts if part)[:253].strip("-.") or "localhost"


def address() -> str:
    """The address by which this machine reaches others; loopback where it reaches nobody."""
    for family, elsewhere in _ELSEWHERE:
        try:
            # Connecting a datagram socket picks a route and sends nothing.
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                found: str = probe.getsockname()[0]
        except OSError:
            continue
        return found
    return _LOOPBACK


def cpus(root: Path = _ROOT) -> float:
    """How many CPUs we may use: those of our affinity, or fewer where our control group says so."""
    limits = [len(os.sched_getaffinity(0)) + 0.0]
    for group in _groups(root):
        quota, _, period = _words(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.strip().isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits)


def memory(root: Path = _ROOT) -> int:
    """How many bytes of memory we may use: the machine's, or fewer where our control group says so."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", _words(root / "proc/meminfo"), re.MULTILINE)
    limits = [int(found[1]) * 1024] if found else []
    limits += [int(most) for group in _groups(root) if (most := _words(group / "memory.max")).isdigit()]
    return min(limits, default=1 << 30)


def gpus(root: Path = _ROOT) -> int:
    """How many NVIDIA GPUs the driver shows."""
    listed = root / "proc/driver/nvidia/gpus"
    if listed.is_dir():
        return sum(1 for _ in listed.iterdir())
    devices = root / "dev"
    return sum(bool(re.fullmatch(r"nvidia\d+", device.name)) for device in devices.glob("nvidia*"))


def info(root: Path = _ROOT) -> dict[str, str]:
    """What ``status.nodeInfo`` says of the machine itself."""
    system = os.uname()
    release = re.search(r'^PRETTY_NAME="?([^"\n]*)', _words(root / "etc/os-release"), re.MULTILINE)
    return {
        "architecture": architecture(system.machine),
        "bootID": _words(root / "proc/sys/kernel/random/boot_id"),
        "kernelVersion": system.release,
        "machineID": _words(root / "etc/machine-id"),
        "operatingSystem": system.sysname.lower(),
        "osImage": release[1] if release else system.sysname,
        "systemUUID": _words(root / "etc/machine-id"),
    }


def architecture(machine: str) -> str:
    """The kernel's name of a processor as Kubernetes writes it."""
    return {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}.get(machine, machine)


def _groups(root: Path) -> Iterator[Path]:
    """The directories of our control group and of those around it; every one of them may set a limit."""
    for line in _words(root / "proc/self/cgroup").splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            group = Path(path.lstrip("/"))
            for part in (group, *group.parents):
                yield root / "sys/fs/cgroup" / part


def _words(file: Path) -> str:
    """The text of a file; nothing where it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
