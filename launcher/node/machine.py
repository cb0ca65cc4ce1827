"""The name, address, resources and users of this machine, read without network access."""

import os
import pwd
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

#: Addresses reserved for documentation: the route to them determines this machine's outgoing address.
_REMOTE_ADDRESSES = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_NVIDIA_SMI_SECONDS = 10.0
_LOOPBACK = "127.0.0.1"
_ROOT = Path("/")


def name() -> str:
    """The host name, converted to a valid node name."""
    return valid_name(socket.gethostname())


def valid_name(text: str) -> str:
    """*text* reduced to lower-case letters, digits, hyphens and dots; ``localhost`` if nothing remains."""
    parts = (re.sub(r"[^a-z0-9-]+", "-", part)[:63].strip("-") for part in text.lower().split("."))
    return ".".join(part for part in parts if part)[:253].strip("-.") or "localhost"


def address() -> str:
    """The outgoing address of this machine; loopback without a network."""
    for family, remote in _REMOTE_ADDRESSES:
        try:
            # Connecting a datagram socket selects a route and sends nothing.
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((remote, 9))
                result: str = probe.getsockname()[0]
        except OSError:
            continue
        return result
    return _LOOPBACK


def cpus(root: Path = _ROOT) -> float:
    """The CPUs that this process may use: its affinity, limited by its cgroup."""
    limits = [len(os.sched_getaffinity(0)) + 0.0]
    for group in _cgroups(root):
        quota, _, period = _read(group / "cpu.max").partition(" ")
        if quota.isdigit() and period.strip().isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits)


def memory(root: Path = _ROOT) -> int:
    """The bytes of memory that this process may use: the machine's, limited by its cgroup."""
    match = re.search(r"^MemTotal:\s+(\d+) kB", _read(root / "proc/meminfo"), re.MULTILINE)
    limits = [int(match[1]) * 1024] if match else []
    limits += [int(limit) for group in _cgroups(root) if (limit := _read(group / "memory.max")).isdigit()]
    return min(limits, default=1 << 30)


def gpus(root: Path = _ROOT) -> int:
    """
    The number of NVIDIA GPUs that this process may use.

    The driver lists all of the machine, and ``/dev`` those of this container, or of removed ones too: the smaller
    number holds. Where neither has any, as in WSL, nvidia-smi is executed, which may take seconds.
    """
    driver = sum(1 for _ in (root / "proc/driver/nvidia/gpus").glob("*"))
    devices = sum(bool(re.fullmatch(r"nvidia\d+", device.name)) for device in (root / "dev").glob("nvidia*"))
    return min((count for count in (driver, devices) if count), default=0) or _gpus_of_nvidia_smi()


def _gpus_of_nvidia_smi() -> int:
    """The GPUs that ``nvidia-smi -L`` lists, without their MIG instances; 0 if it fails or does not exist."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    try:
        result = subprocess.run(  # noqa: S603 - a fixed command
            [program, "-L"], capture_output=True, text=True, timeout=_NVIDIA_SMI_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return len(re.findall(r"^GPU \d+:", result.stdout, re.MULTILINE))


def info(root: Path = _ROOT) -> dict[str, str]:
    """The fields of ``status.nodeInfo`` about the machine."""
    system = os.uname()
    release = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read(root / "etc/os-release"), re.MULTILINE)
    return {
        "architecture": architecture(system.machine),
        "bootID": _read(root / "proc/sys/kernel/random/boot_id"),
        "kernelVersion": system.release,
        "machineID": _read(root / "etc/machine-id"),
        "operatingSystem": system.sysname.lower(),
        "osImage": release[1] if release else system.sysname,
        "systemUUID": _read(root / "etc/machine-id"),
    }


def home_directory(user: int | None) -> str:
    """The home directory of the user, None for that of this process; the root directory for an unknown user."""
    try:
        return pwd.getpwuid(os.geteuid() if user is None else user).pw_dir
    except KeyError:
        return "/"


def primary_group(user: int) -> int:
    """The user's primary group; root's for an unknown user, like container engines."""
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return 0


def architecture(machine: str) -> str:
    """Converts the kernel's name of an architecture to that of Kubernetes."""
    return {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}.get(machine, machine)


def _cgroups(root: Path) -> Iterator[Path]:
    """The directories of this process's cgroup and its ancestors; each of them may set a limit."""
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, path = line.split(":", 2)
        if number == "0":
            group = Path(path.lstrip("/"))
            for part in (group, *group.parents):
                yield root / "sys/fs/cgroup" / part


def _read(file: Path) -> str:
    """The text of a file; empty if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
