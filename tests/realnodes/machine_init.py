"""
Runs a simulated machine: ``python -m tests.realnodes.machine_init MACHINE``.

MACHINE is JSON: {"name": …, "cgroup": …, "directory": DIR, "shown": {"/TARGET": DIR, …}, "replaced": {"/proc/…": FILE,
…}}. The machine has its own processes, network, host name, /run and /proc; each DIR is mounted at its TARGET, each FILE
at a file of /proc; everything else is that of this machine. Its first process accepts the commands of the test bed's
guard: when it ends, the kernel ends all others and removes their mounts and network. It ends with the process that
started it, and then its cgroups and its directory are removed.

It uses only the standard library, so that it starts fast.
"""

import ctypes
import json
import os
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from tests.cluster import guard
from tests.realnodes import cgroups

_NEW_MOUNTS, _NEW_HOST_NAME, _NEW_PROCESSES, _NEW_NETWORK = 0x00020000, 0x04000000, 0x20000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE, _SHARED = 0x1000, 0x4000, 1 << 18, 1 << 20
_DETACH = 2
_PR_SET_PDEATHSIG = 1
#: Directories of the root that the new machine has its own of.
_OWN = frozenset({"/proc", "/run"})

_libc = ctypes.CDLL(None, use_errno=True)


def main(machine: Any) -> int:
    """Runs the machine until its input is closed. Returns an exit code."""
    # The tests handle SIGINT and SIGTERM, and end this process by closing its input.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        membership = cgroups.make(machine["cgroup"])
        # Only the children are in the new PID namespace: this process stays outside and cleans up.
        _check(_libc.unshare(_NEW_PROCESSES), "unshare")
        child = os.fork()
        if child == 0:
            _be(machine, membership)
            os._exit(0)
        os.close(0)
        # The first process of a PID namespace ends last: then no other process is left.
        return int(os.waitpid(child, 0)[1] != 0)
    finally:
        cgroups.remove(machine["cgroup"])
        shutil.rmtree(machine["directory"])


def _be(machine: Any, membership: list[Path]) -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for file in membership:
        file.write_text("0")  # the writer itself, and all that it starts
    _check(_libc.unshare(_NEW_MOUNTS | _NEW_HOST_NAME | _NEW_NETWORK), "unshare")
    socket.sethostname(machine["name"])
    root = Path(machine["directory"], "root")
    root.mkdir()
    _mount_all(str(root), machine["shown"], machine["replaced"])
    print("ready", flush=True)
    guard.main()


def _mount_all(root: str, shown: dict[str, str], replaced: dict[str, str]) -> None:
    """Mounts the filesystem of the new machine and makes it the root of this process."""
    _mount(None, "/", None, _PRIVATE | _RECURSIVE)
    _mount("tmpfs", root, "tmpfs", 0)
    for entry in os.scandir("/"):
        if entry.is_symlink():
            Path(root + entry.path).symlink_to(os.readlink(entry.path))
        elif entry.is_dir() and entry.path not in {*_OWN, *shown}:
            _show(entry.path, root + entry.path)
    for target, directory in shown.items():
        _show(directory, root + target)
    for path, kind in (("/proc", "proc"), ("/run", "tmpfs")):
        Path(root + path).mkdir()
        _mount(kind, root + path, kind, 0)
    for target, file in replaced.items():
        _mount(file, root + target, None, _BIND)
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _DETACH), "umount")
    # Shared within the machine: volumes that the kubelet mounts propagate to containers.
    _mount(None, "/", None, _SHARED | _RECURSIVE)


def _show(directory: str, target: str) -> None:
    Path(target).mkdir(parents=True, exist_ok=True)
    _mount(directory, target, None, _BIND | _RECURSIVE)


def _mount(source: str | None, target: str, kind: str | None, flags: int) -> None:
    words = [word if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), None), f"mount {source} at {target}")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
