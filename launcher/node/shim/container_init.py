"""What the processes between the fork and the container's program do in every isolation mode; see ``isolation``."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import resource
import signal
import termios
import time
from contextlib import suppress

from launcher.node.shim import linux, run_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.run_records import Json

#: Descriptors of an init after 0, 1 and 2: the socket to the shim, the end file and the shim's lock file.
_SHIM, END, _LOCK = 3, 4, 5
#: Exit code of a run whose program was never executed.
NEVER_RAN = 128
#: The largest pipe that a process without privileges can create.
_MAX_PIPE_BYTES = 1024 * 1024
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_FILES_LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)


class StartRefused(Exception):
    """The container cannot be started with its configuration."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def raise_files_limit() -> None:
    """Raises the shim's limit of open files to the hard limit; ``restore_defaults`` undoes it for containers."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_LIMIT[1], _FILES_LIMIT[1]))


def use_descriptors(descriptors: list[int]) -> None:
    """Renumbers *descriptors* to 0, 1, 2, … and closes all others."""
    for number, descriptor in enumerate(descriptors):
        assert descriptor >= len(descriptors)
        os.dup2(descriptor, number, inheritable=number < 3)
    linux.close_from(len(descriptors))


def become_session_leader(descriptors: list[int]) -> None:
    """Detaches this process, the first of a run, from the shim's session and descriptors."""
    use_descriptors(descriptors)
    os.umask(0o022)
    os.setsid()


def control_terminal() -> None:
    """Makes this process, the main one, the leader of a session whose controlling terminal is its input."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def close_socket() -> None:
    """Closes the init's socket to the shim; the program's start closes the other copy of it."""
    os.close(_SHIM)


def send(message: Json) -> None:
    """Sends *message* to the shim."""
    os.write(_SHIM, json.dumps(message).encode() + b"\n")


def send_refusal(reason: str, message: str) -> None:
    """Reports to the shim that the program cannot be started."""
    with suppress(OSError):  # the shim was killed
        send({"reason": reason, "message": message})


def wait_for(main: int) -> int:
    """Reaps children until *main* ends. Returns its exit code, 128 + n after signal n."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == main:
            return linux.exit_code(status)


def record_exit(code: int) -> None:
    """Records the exit code, and the output in the pipes that no shim can read."""
    os.write(END, json.dumps({"exit-code": code, "at": time.time()}).encode() + b"\n")
    if os.isatty(1):
        return  # the stream relay has the output
    with suppress(OSError):  # the disk is full: the exit code is recorded already
        record_output(dict(zip(run_records.OUTPUTS, (1, 2), strict=True)), END, _LOCK)


def lock_end_file(lock: int) -> bool:
    """
    Returns whether no shim runs; then none starts until this process ends, which may record output.

    A shim that starts meanwhile waits for the lock, and then reads the record.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def record_output(files: dict[str, int], end: int, lock: int, rest: bytes = b"") -> None:
    """Records the output that is left in the pipes, which end with this process, and *rest*, if no shim can read it."""
    if not lock_end_file(lock):
        return
    outputs = {}
    for name, file in files.items():
        os.set_blocking(file, False)
        try:
            outputs[name] = (os.read(file, _MAX_PIPE_BYTES) + rest).decode("latin-1")
        except BlockingIOError:
            outputs[name] = rest.decode("latin-1")
    text = json.dumps({"output": outputs}).encode() + b"\n"
    while text:
        text = text[os.write(end, text) :]


def wait_for_release() -> None:
    """Returns once the shim has recorded the run. Exits if the shim was killed before: the run is not recorded."""
    if not os.read(_SHIM, 1):
        os._exit(NEVER_RAN)
    os.write(END, run_records.BEGAN)


def enter_cgroups(config: Json, cgroups: list[int]) -> None:
    """Moves this process into the *cgroups* of its run, and sets its OOM score."""
    for group in cgroups:
        os.write(group, b"0")
    if config.get("oom_score") is not None:
        # Always above the shim's own, so that the container is killed first.
        linux.set_oom_score(max(config["oom_score"], min(1000, linux.oom_score() + 1)))


def execute(config: Json) -> NoReturn:
    """Replaces this process by the program of *config*, with its user and limits. Raises StartRefused."""
    _set_user(config)
    try:
        os.chdir(config["directory"])
    except OSError as error:
        message = os.strerror(error.errno or 0).lower()
        raise StartRefused(
            "CreateContainerError", f'chdir to cwd ("{config["directory"]}") failed: {message}'
        ) from error
    restore_defaults()
    if config.get("processes") is not None:
        hard_limit = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        limit = (
            config["processes"]
            if hard_limit == resource.RLIM_INFINITY
            else min(config["processes"], hard_limit)
        )
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    _exec_program(config["argv"], config["environment"])


def restore_defaults() -> None:
    """Restores the limit of open files and the signal handling that Python and the shim have changed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _FILES_LIMIT)
    # Python ignores the first two, and a shell that starts the launcher in the background the others.
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _set_user(config: Json) -> None:
    user, group = config["user"], config["group"]
    if os.geteuid() != 0 or (user is None and group is None and not config["groups"]):
        return
    try:
        os.setgroups(config["groups"])
        os.setgid(group or 0)
        os.setuid(user or 0)
    except OSError as error:
        raise StartRefused("CreateContainerError", f"cannot become user {user}: {error}") from error


def _exec_program(argv: list[str], environment: dict[str, str]) -> NoReturn:
    name = argv[0]
    uses_path = "/" not in name
    folders = environment.get("PATH", _DEFAULT_PATH).split(":") if uses_path else []
    candidates = [f"{folder or '.'}/{name}" for folder in folders] if uses_path else [name]
    denied = False
    for path in candidates:
        try:
            os.execve(path, argv, environment)  # noqa: S606  # the configured command
        except OSError as error:
            if error.errno == errno.EACCES:
                denied = True
            elif not uses_path or error.errno not in (errno.ENOENT, errno.ENOTDIR):
                message = os.strerror(error.errno or 0).lower()
                raise StartRefused("StartError", f'exec: "{name}": {path}: {message}') from error
    if denied:
        raise StartRefused("StartError", f'exec: "{name}": permission denied')
    raise StartRefused("StartError", f'exec: "{name}": executable file not found in $PATH')
