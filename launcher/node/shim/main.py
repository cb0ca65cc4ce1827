"""The keeper as a program: one per data directory, and it outlives whoever started it."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import socket
import time

from launcher.node.shim import capabilities, container_init, linux, run_records
from launcher.node.shim.cgroups import Cgroups
from launcher.node.shim.event_loop import Loop
from launcher.node.shim.release import release
from launcher.node.shim.server import ShimServer
from launcher.node.shim.supervisor import Supervisor

#: How long to wait for an earlier keeper that is about to end.
_PATIENCE = 10.0
SOCKET = "keeper.sock"
_MOST_TALK = 1024 * 1024


def main(data: str, options: str) -> None:
    """
    Keep the runs of *data* until nothing is left to keep.

    Returns in the process that was started as soon as the socket can be connected to; the work goes on in another.
    """
    os.umask(0o077)
    os.makedirs(data, exist_ok=True)
    folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lock = os.open(f"{data}/{run_records.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    listening = _claimed(lock, folder)
    if listening is None:
        return  # another keeper is there, and listens
    if os.fork():
        return
    os.setsid()
    os.chdir("/")
    _talk_to_file(f"{data}/keeper.log")
    _keep(data, json.loads(options), listening)
    # Not before the lock is about to go: whoever finds no socket may start another keeper.
    os.unlink(f"/proc/self/fd/{folder}/{SOCKET}")


def _claimed(lock: int, folder: int) -> socket.socket | None:
    """The socket of this data directory, now ours; None when another keeper listens on it."""
    # Reached by a short name: the path of a socket has little room, and the directory's may be long.
    path = f"/proc/self/fd/{folder}/{SOCKET}"
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if _listens(path):
                return None
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
    if os.path.lexists(path):
        os.unlink(path)
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(path)
    listening.listen(64)
    return listening


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(path) == 0


def _talk_to_file(path: str) -> None:
    """Output of its own, such as a traceback, goes to a file that begins anew when it has become long."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(file).st_size > _MOST_TALK:
        os.ftruncate(file, 0)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(null)
    os.close(file)


def _keep(data: str, options: dict[str, float], listening: socket.socket) -> None:
    # A collection writes to every object, which in the init of a container would copy every page. The keeper
    # collects now and then, and its children never.
    gc.disable()
    container_init.raise_files_limit()
    linux.protect_from_oom_killer()
    linux.adopt_orphans()
    signals = linux.signals_as_file({signal.SIGCHLD})
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    loop = Loop()
    cgroups = Cgroups(_name(data), _text("/proc/self/mountinfo"), _text("/proc/self/cgroup"))
    abilities = capabilities.detect_capabilities(data)
    keeper = Supervisor(data, loop, cgroups, abilities["users"], options)
    keeper.recover_runs()
    cannot = abilities["cannot"] | cgroups.cannot
    if os.geteuid() != 0:
        cannot.pop("pids", None)  # then it is a limit of the user
    facts = {**abilities, "cannot": cannot, "release": release()}
    server = ShimServer(listening, loop, keeper, facts)

    def child_ended(_: int) -> None:
        os.read(signals, 4096)
        keeper.reap()

    loop.watch(signals, child_ended)
    keeper.reap()
    _turn(loop, keeper, server, options["linger"])
    cgroups.close()


def _turn(loop: Loop, keeper: Supervisor, server: ShimServer, linger: float) -> None:
    """Do what comes up, until nobody needs it any more."""
    ticked = idle = time.monotonic()
    while True:
        hurry = keeper.poll_starting()
        server.flush()
        loop.turn(min(0.001 if hurry else 1.0, keeper.read_again()))
        now = time.monotonic()
        if now - ticked >= 1.0:
            keeper.tick()
            gc.collect()
            ticked = now
        if server.busy() or keeper.running():
            idle = now
        elif now - idle >= linger:
            return
        if server.stopped and not keeper.running():
            return


def _name(data: str) -> str:
    """Tells the data directories of one machine apart."""
    facts = os.stat(data)
    return f"{facts.st_dev:x}-{facts.st_ino:x}"


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
