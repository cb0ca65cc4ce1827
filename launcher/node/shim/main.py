"""The shim's program: one process per data directory, which continues when the launcher ends."""

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

#: How long to wait for the end of an earlier shim that no longer listens.
_LOCK_TIMEOUT_SECONDS = 10.0
SOCKET = "keeper.sock"
_MAX_LOG_BYTES = 1024 * 1024


def main(data: str, options: str) -> None:
    """
    Supervise the runs of *data* until there are none and no launcher is connected.

    Returns in the calling process as soon as the socket accepts connections; a forked process does the work.
    """
    os.umask(0o077)
    os.makedirs(data, exist_ok=True)
    folder = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    lock = os.open(f"{data}/{run_records.LOCK}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    listener = _listen(lock, folder)
    if listener is None:
        return  # another shim listens
    if os.fork():
        return
    os.setsid()
    os.chdir("/")
    _redirect_output(f"{data}/keeper.log")
    _serve(data, json.loads(options), listener)
    # Not before the lock is about to be released: a launcher that finds no socket starts another shim.
    os.unlink(f"/proc/self/fd/{folder}/{SOCKET}")


def _listen(lock: int, folder: int) -> socket.socket | None:
    """Locks the data directory and returns its listening socket; None if another shim listens."""
    # Through /proc: the path of a socket is limited to 108 bytes, and that of the directory may be longer.
    path = f"/proc/self/fd/{folder}/{SOCKET}"
    deadline = time.monotonic() + _LOCK_TIMEOUT_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if _accepts_connections(path):
                return None
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if os.path.lexists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    return listener


def _accepts_connections(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


def _redirect_output(path: str) -> None:
    """Redirects the shim's own output, such as a traceback, to a file, which is truncated when it has become long."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(file).st_size > _MAX_LOG_BYTES:
        os.ftruncate(file, 0)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(null)
    os.close(file)


def _serve(data: str, options: dict[str, float], listener: socket.socket) -> None:
    # A garbage collection writes to every object, which in the init of a container would copy every page. The shim
    # collects once per second, its children never.
    gc.disable()
    container_init.raise_files_limit()
    linux.protect_from_oom_killer()
    linux.adopt_orphans()
    signals = linux.signalfd({signal.SIGCHLD})
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    loop = Loop()
    cgroups = Cgroups(_directory_id(data), _read("/proc/self/mountinfo"), _read("/proc/self/cgroup"))
    detected = capabilities.detect_capabilities(data)
    supervisor = Supervisor(data, loop, cgroups, detected["users"], options)
    supervisor.recover_runs()
    unsupported = detected["cannot"] | cgroups.unsupported
    if os.geteuid() != 0:
        unsupported.pop("pids", None)  # then the limit of the user is set
    hello = {**detected, "cannot": unsupported, "release": release()}
    server = ShimServer(listener, loop, supervisor, hello)

    def reap(_: int) -> None:
        os.read(signals, 4096)
        supervisor.reap()

    loop.watch(signals, reap)
    supervisor.reap()
    _run(loop, supervisor, server, options["linger"])
    cgroups.close()


def _run(loop: Loop, supervisor: Supervisor, server: ShimServer, linger: float) -> None:
    """Runs the event loop until the shim was idle for *linger* seconds, or is stopped."""
    ticked = busy = time.monotonic()
    while True:
        is_starting = supervisor.poll_starting()
        server.flush()
        loop.run_once(min(0.001 if is_starting else 1.0, supervisor.resume_reading()))
        now = time.monotonic()
        if now - ticked >= 1.0:
            supervisor.tick()
            gc.collect()
            ticked = now
        if server.is_connected() or supervisor.running():
            busy = now
        elif now - busy >= linger:
            return
        if server.stopped and not supervisor.running():
            return


def _directory_id(data: str) -> str:
    """An id that no other data directory of this machine has."""
    status = os.stat(data)
    return f"{status.st_dev:x}-{status.st_ino:x}"


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
