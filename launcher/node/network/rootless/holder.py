"""
The program that holds the namespaces of a normal user's pod network.

Its child, the init, is the first process of a user, a network and a mount namespace: those of the bridge. The
namespaces of the pods are mounted in a tmpfs of this mount namespace. So the kernel removes everything with the last
process in them, also when all programs were killed.

The holder continues when the launcher ends, as the shim does, and ends when there is neither a launcher nor a process
in the namespace of a pod.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from launcher.node.network import namespaces
from launcher.node.network.rootless.outside import OutsideConnection
from launcher.node.shim import linux

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

#: In the directory of the network: locked by the launcher, and by the holder, which writes its state there.
LAUNCHER_LOCK, STATE = "launcher.lock", "holder"
#: Where the namespaces of the pods are mounted.
PODS = "namespaces"
#: The namespaces of the init, in the order in which they are entered.
ENTERED = ("user", "net", "mnt")
_CHECK_SECONDS = 1.0


def main(directory: str, options: str) -> None:
    """
    Holds the namespaces of the network in *directory*; *options* are those of ``_hold``.

    Returns at once in the calling process; a forked process does the work, and writes its state, or an error, to the
    standard output.
    """
    os.umask(0o077)
    if os.fork():
        return
    os.setsid()
    os.chdir("/")
    try:
        _hold(directory, **json.loads(options))
    except OSError as error:
        os.write(1, json.dumps({"error": str(error)}).encode())


def _hold(directory: str, *, join: int, outside: str) -> None:
    """
    Runs until the network is not used any more.

    *join* is a process in namespaces that exist, 0 to create them; *outside* the subnet of the connection to there.
    """
    lock = os.open(f"{directory}/{STATE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    pods = f"{directory}/{PODS}"
    os.makedirs(pods, exist_ok=True)
    init = _start_init(pods, join)
    connection = OutsideConnection(init, outside)
    state = {"pid": os.getpid(), "init": init, "outside": connection.start()}
    os.ftruncate(lock, 0)
    os.pwrite(lock, json.dumps(state).encode(), 0)
    os.write(1, json.dumps(state).encode())
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    while os.waitpid(init, os.WNOHANG) == (0, 0):
        connection.restart_if_ended()
        if _is_unused(directory, Path(f"/proc/{init}/root{pods}")):
            break
        time.sleep(_CHECK_SECONDS)
    with suppress(OSError):
        os.unlink(f"{directory}/{STATE}")


def _start_init(pods: str, join: int) -> int:
    """Starts the first process of the namespaces, and returns its pid. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    reading, writing = os.pipe()
    new = 0 if join else linux.NEW_USERS | linux.NEW_NETWORK | linux.NEW_MOUNTS
    init = linux.clone(new)
    if not init:
        _run_init(pods, join, (user, group), writing)
    os.close(writing)
    with open(reading, encoding="utf-8") as result:
        if error := result.read():
            raise OSError(error)
    return init


def _run_init(pods: str, join: int, users: tuple[int, int], result: int) -> NoReturn:
    """Prepares the namespaces and waits forever; closes *result*, to which an error is written before."""
    try:
        linux.end_with_parent()
        if join:
            enter(join)
        else:
            linux.map_to_itself(*users)
            linux.mount(None, "/", None, linux.MS_REC | linux.MS_SLAVE)
            linux.mount(
                "tmpfs", pods, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC, "mode=700"
            )
        # Nothing of the holder stays open, such as its lock.
        os.dup2(result, 0)
        linux.close_from(1)
        os.close(0)
        while True:
            signal.pause()
    except BaseException as error:
        os.write(result, str(error).encode())
    finally:
        os._exit(1)


def enter(process: int) -> None:
    """Moves this process, which has one thread, into the namespaces of an init."""
    files = [os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in ENTERED]
    for file in files:
        linux.enter(file)
        os.close(file)


def _is_unused(directory: str, pods: Path) -> bool:
    """Whether no launcher and no container uses the network. If so, no launcher can start until this process ends."""
    try:
        lock = os.open(f"{directory}/{LAUNCHER_LOCK}", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # the data directory was removed
        return not namespaces.are_in_use(pods.glob("*"))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    if namespaces.are_in_use(pods.glob("*")):
        os.close(lock)
        return False
    return True


def read_state(directory: Path) -> dict[str, Any] | None:
    """The state of the running holder; None if there is none. Call it with the lock of the launcher."""
    try:
        file = os.open(directory / STATE, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        state: dict[str, Any] = json.loads(os.read(file, 65536))
        return state
    finally:
        os.close(file)
    return None
