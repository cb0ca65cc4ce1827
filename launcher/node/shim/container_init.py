"""
What runs between the fork and the container's own program.

Two processes: an init, which is the first of the container's process namespace, makes its root, reaps what is orphaned
and has the last word on how the run ended; and the main process, which becomes the program. A default SIGTERM would do
nothing to a first process, so the program is the second.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import time
from contextlib import suppress

from launcher.node.shim import confinement, linux, mounts, run_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run_records import Json

#: Where an init has its descriptors, after 0, 1 and 2.
_KEEPER, _END, _LOCK = 3, 4, 5
#: Exit code of a run that never came to run its program.
NEVER_RAN = 128
#: No pipe holds more, unless root has changed it.
_MOST_LEFT = 1024 * 1024
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_FILES_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)


class StartRefused(Exception):
    """The container cannot be started as it is asked for."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def raise_files_limit() -> None:
    """The keeper may hold as many files open as it is allowed to; containers get what was there before."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_LIMIT[1], _FILES_LIMIT[1]))


def take(descriptors: list[int]) -> None:
    """These become 0, 1, 2, …; everything else is closed."""
    for place, descriptor in enumerate(descriptors):
        assert descriptor >= len(descriptors)
        os.dup2(descriptor, place, inheritable=place < 3)
    linux.close_from(len(descriptors))


def live(order: Json, descriptors: list[int], stage: str, scratch: str) -> NoReturn:
    """
    Be the first process of a run.

    *descriptors*: input, output, errors, the keeper's socket, the file for the last word, and the file that a keeper
    locks as long as it is there.
    """
    if order["way"] == "bwrap":
        _be_bubblewrap(order, descriptors)
    _init(order, descriptors, stage, scratch)


def _init(order: Json, descriptors: list[int], stage: str, scratch: str) -> NoReturn:
    """Make the run's root, start its program, and wait for the end."""
    code = NEVER_RAN
    try:
        take(descriptors)
        os.umask(0o022)
        os.setsid()
        joined = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in order["cgroups"]]
        _enter_sandbox(order, stage, scratch)
        main = os.fork()
        if not main:
            _be_main(order, joined)
        if order["way"] == "plain":
            linux.adopt_orphans()
            os.write(_KEEPER, json.dumps({"main": main}).encode() + b"\n")
        os.close(_KEEPER)
        code = _wait_for(main)
        if order["way"] == "plain":
            _end_descendants()
        os.write(_END, json.dumps({"exit-code": code, "at": time.time()}).encode() + b"\n")
        with suppress(OSError):  # a full disk: the exit code counts for more
            _keep_output()
    except StartRefused as error:
        _refuse(error.reason, str(error))
    except Exception as error:  # whatever it is, the keeper must not take it for a start
        _refuse("CreateContainerError", str(error))
    finally:
        os._exit(code)


def _enter_sandbox(order: Json, stage: str, scratch: str) -> None:
    if order["way"] == "plain":
        return
    if order["users"] is not None:
        map_to_itself(*order["users"])
    if order["hostname"]:
        linux.set_hostname(order["hostname"])
    try:
        mounts.build(order["steps"], stage, scratch)
    except OSError as error:
        words = str(error).replace(stage, "")
        raise StartRefused(
            "CreateContainerError", f"cannot prepare the container's files: {words}"
        ) from error


def map_to_itself(user: int, group: int) -> None:
    """In a new user namespace, be who one was outside."""
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        os.write(file, text.encode())
        os.close(file)


def _wait_for(main: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == main:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _keep_output() -> None:
    """Record the output that is left in the pipes where no keeper is there to read it: it goes with this process."""
    try:
        # Held until this process is over: a keeper that starts meanwhile waits, and then finds the record.
        fcntl.flock(_LOCK, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    left = {}
    for name, file in zip(run_records.OUTPUTS, (1, 2), strict=True):
        os.set_blocking(file, False)
        try:
            left[name] = os.read(file, _MOST_LEFT).decode("latin-1")
        except BlockingIOError:
            continue
    text = json.dumps({"output": left}).encode() + b"\n"
    while text:
        text = text[os.write(_END, text) :]


def _end_descendants() -> None:
    """Nothing that the run started is left: without a process namespace the kernel does not see to it."""
    try:
        while True:
            for pid in children(os.getpid()):
                os.kill(pid, signal.SIGKILL)
            os.waitpid(-1, 0)
    except ChildProcessError:
        return


def children(pid: int) -> list[int]:
    """The children of a process now."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def _refuse(reason: str, message: str) -> None:
    try:
        os.write(_KEEPER, json.dumps({"reason": reason, "message": message}).encode() + b"\n")
    except OSError:
        return  # a keeper that is gone has no use for it


def _be_main(order: Json, joined: list[int]) -> NoReturn:
    try:
        if order["way"] == "plain":
            os.setsid()
        _await_release()
        become(order, joined)
    except StartRefused as error:
        _refuse(error.reason, str(error))
    except Exception as error:  # whatever it is, the keeper must not take it for a start
        _refuse("CreateContainerError", str(error))
    finally:
        os._exit(NEVER_RAN)


def _await_release() -> None:
    """Go on when the run is on record. If its keeper has died before that, nobody knows of it: then it ends."""
    if not os.read(_KEEPER, 1):
        os._exit(NEVER_RAN)
    os.write(_END, run_records.BEGAN)


def _be_bubblewrap(order: Json, descriptors: list[int]) -> NoReturn:
    """The processes of bubblewrap take the places of both; what it has to say goes where the last word goes."""
    try:
        take(descriptors)
        os.umask(0o022)
        os.setsid()
        _await_release()
        for path in order["cgroups"]:
            group = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            os.write(group, b"0")
        arguments = os.memfd_create("arguments", 0)
        os.write(
            arguments, b"".join(word.encode(errors="surrogateescape") + b"\0" for word in order["arguments"])
        )
        os.lseek(arguments, 0, os.SEEK_SET)
        os.set_inheritable(_END, True)
        _be_ordinary()
        options = [
            "--args",
            str(arguments),
            "--json-status-fd",
            str(_END),
            "--chdir",
            order["directory"],
            "--",
        ]
        os.execve(order["bwrap"], ["bwrap", *options, *order["argv"]], order["environment"])  # noqa: S606  # what is asked for
    except Exception as error:
        _refuse("CreateContainerError", str(error))
    finally:
        os._exit(NEVER_RAN)


def become(order: Json, joined: list[int]) -> NoReturn:
    """Be the program of *order*, as its user, with its limits. Raises StartRefused."""
    for group in joined:
        os.write(group, b"0")
    if order.get("oom_score") is not None:
        # Always above our own, so that a container goes first.
        linux.set_oom_score(max(order["oom_score"], min(1000, linux.oom_score() + 1)))
    if order["way"] == "unshare":
        _confine(order)
    _be_user(order)
    try:
        os.chdir(order["directory"])
    except OSError as error:
        words = os.strerror(error.errno or 0).lower()
        raise StartRefused(
            "CreateContainerError", f'chdir to cwd ("{order["directory"]}") failed: {words}'
        ) from error
    _be_ordinary()
    if order.get("processes") is not None:
        most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        limit = order["processes"] if most == resource.RLIM_INFINITY else min(order["processes"], most)
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    _execute(order["argv"], order["environment"])


def _confine(order: Json) -> None:
    try:
        confinement.confine(order)
    except OSError as error:
        raise StartRefused("CreateContainerError", f"securityContext cannot be applied: {error}") from error


def _be_ordinary() -> None:
    """Undo what Python and the keeper have changed for themselves."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _FILES_LIMIT)
    # Python ignores two by itself, and whoever started the launcher in the background two more.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _be_user(order: Json) -> None:
    user, group = order["user"], order["group"]
    if os.geteuid() != 0 or (user is None and group is None and not order["groups"]):
        return
    try:
        os.setgroups(order["groups"])
        os.setgid(group or 0)
        os.setuid(user or 0)
    except OSError as error:
        raise StartRefused("CreateContainerError", f"cannot become user {user}: {error}") from error


def _execute(argv: list[str], environment: dict[str, str]) -> NoReturn:
    name = argv[0]
    looked = "/" not in name
    places = environment.get("PATH", _PATH).split(":") if looked else []
    candidates = [f"{place or '.'}/{name}" for place in places] if looked else [name]
    denied = False
    for path in candidates:
        try:
            os.execve(path, argv, environment)  # noqa: S606  # what is asked for
        except OSError as error:
            if error.errno == errno.EACCES:
                denied = True
            elif not looked or error.errno not in (errno.ENOENT, errno.ENOTDIR):
                words = os.strerror(error.errno or 0).lower()
                raise StartRefused("StartError", f'exec: "{name}": {path}: {words}') from error
    if denied:
        raise StartRefused("StartError", f'exec: "{name}": permission denied')
    raise StartRefused("StartError", f'exec: "{name}": executable file not found in $PATH')
