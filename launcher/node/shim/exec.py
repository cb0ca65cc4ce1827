"""
Executes commands in running containers: for a limited time, or in a session of a client.

The command of a session has descriptors of the client as its input and output. The process that waits for it has the
client's connection: it writes the exit code there, and ends the command when the connection is closed. So a session
does not depend on the shim once it has started.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import stat
import termios
import time
from contextlib import suppress

from launcher.node.shim import container_init, linux
from launcher.node.shim.event_loop import Loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from launcher.node.shim.isolation import Isolation
    from launcher.node.shim.run import Respond
    from launcher.node.shim.run_records import Json

#: Exit codes, those of shells and of ``timeout``.
TIMED_OUT, NOT_EXECUTABLE, NOT_FOUND = 124, 126, 127
_MAX_OUTPUT_BYTES = 10 * 1024
#: The descriptor of the client's connection in the process that waits for the command of a session.
_CONNECTION = 3
#: The time between SIGHUP and SIGKILL for a command whose client has disconnected.
_HANGUP_SECONDS = 5.0


class _RunningCommand:
    __slots__ = ("output", "pipe", "respond")

    def __init__(self, respond: Respond, pipe: int) -> None:
        self.respond, self.pipe, self.output = respond, pipe, b""

    def read(self) -> int | None:
        """The number of bytes read; 0 at the end of the output, None if there may be more later."""
        try:
            data = os.read(self.pipe, 65536)
        except BlockingIOError:
            return None
        self.output += data[: _MAX_OUTPUT_BYTES - len(self.output)]
        return len(data)


class Commands:
    """The running commands, by the pid of the process that waits for each."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._running: dict[int, _RunningCommand] = {}

    def start(
        self,
        isolation: Isolation,
        config: Json,
        first: int,
        argv: list[str],
        timeout: float,
        respond: Respond,
    ) -> None:
        """Starts *argv* with the settings of *config*, in the namespaces of the process *first*."""
        config |= {"argv": argv}
        waiter = _TimeLimitWaiter(timeout)
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        try:
            pid = os.fork()
            if not pid:
                _supervise(isolation, config, abs(first), [null, writing, writing], waiter)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
            os.close(null)
        command = self._running[pid] = _RunningCommand(respond, reading)
        self._loop.watch(reading, lambda _: self._read(command))

    def start_session(
        self, isolation: Isolation, config: Json, first: int, request: Json, descriptors: list[int]
    ) -> None:
        """Starts ``argv`` of *request*; *descriptors*: its input, output and errors, and the client's connection."""
        config |= {"argv": request["argv"]}
        if request["tty"]:
            config["environment"] = {"TERM": "xterm", **config["environment"]}
        waiter = _SessionWaiter(request["n"], abs(first), tty=request["tty"])
        if not os.fork():
            _supervise(isolation, config, abs(first), descriptors, waiter)

    def _read(self, command: _RunningCommand) -> None:
        if command.read() == 0:
            self._loop.unwatch(command.pipe)

    def child_exited(self, pid: int, code: int) -> None:
        """Sends the response of the command that *pid* waited for, if there is one."""
        command = self._running.pop(pid, None)
        if command is None:
            return
        while command.read():
            pass
        self._loop.unwatch(command.pipe)
        os.close(command.pipe)
        command.respond({"code": code, "output": command.output.decode("latin-1")})


class _TimeLimitWaiter:
    """Waits for a command, and kills it after *seconds*."""

    tty = False

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def wait(self, pid: int) -> int:
        """Returns the exit code."""
        deadline = time.monotonic() + self._seconds
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return linux.exit_code(status)
            remaining = deadline - time.monotonic()
            # The signal may be that of an adopted process.
            if remaining <= 0 or signal.sigtimedwait({signal.SIGCHLD}, remaining) is None:
                _signal_group(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return TIMED_OUT

    def report(self, code: int) -> None:
        """Does nothing: the exit code of this process is the command's."""


class _SessionWaiter:
    """Waits for the command of a session, which ends with its client and with its container."""

    def __init__(self, number: int, first: int, *, tty: bool) -> None:
        """*number* is that of the client's request, *first* the first process of the container."""
        self.tty = tty
        self._number, self._first = number, first

    def wait(self, pid: int) -> int:
        """Returns the exit code."""
        signals = linux.signalfd({signal.SIGCHLD})
        poll = select.poll()
        poll.register(signals, select.POLLIN)
        poll.register(_CONNECTION, select.POLLRDHUP)
        kill_at = None
        try:
            poll.register(os.pidfd_open(self._first), select.POLLIN)
        except ProcessLookupError:
            kill_at = 0.0
        except OSError:
            pass  # Linux before 5.3: only the end of a PID namespace kills the command
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return linux.exit_code(status)
            timeout = None if kill_at is None else max(0.0, kill_at - time.monotonic()) * 1000
            ready = {file for file, _ in poll.poll(timeout)}
            if signals in ready:
                os.read(signals, 4096)
            elif _CONNECTION in ready:
                poll.unregister(_CONNECTION)
                _signal_group(pid, signal.SIGHUP)
                kill_at = time.monotonic() + _HANGUP_SECONDS
            else:
                # The container has ended, or the command has not after SIGHUP.
                _signal_group(pid, signal.SIGKILL)
                return linux.exit_code(os.waitpid(pid, 0)[1])

    def report(self, code: int) -> None:
        """Sends the exit code to the client."""
        with suppress(OSError):  # the client has disconnected
            os.write(_CONNECTION, json.dumps({"n": self._number, "code": code}).encode() + b"\n")


def _supervise(
    isolation: Isolation,
    config: Json,
    first: int,
    descriptors: list[int],
    waiter: _TimeLimitWaiter | _SessionWaiter,
) -> NoReturn:
    """Starts the command inside the container, waits for it, and exits with its exit code."""
    code = NOT_EXECUTABLE
    try:
        container_init.use_descriptors(descriptors)
        os.umask(0o022)
        cgroups = [os.open(path, os.O_WRONLY | os.O_CLOEXEC) for path in config["cgroups"]]
        isolation.enter_namespaces(first)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if not pid:
            _run_command(isolation, config, cgroups, tty=waiter.tty)
        code = waiter.wait(pid)
        isolation.kill_left_processes()
    except Exception as error:
        os.write(2, str(error).encode())
    finally:
        waiter.report(code)
        os._exit(code)


def _run_command(isolation: Isolation, config: Json, cgroups: list[int], *, tty: bool) -> NoReturn:
    code = NOT_EXECUTABLE
    try:
        os.setsid()
        if tty:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _give_streams(config["user"])
        isolation.execute(config, cgroups)
    except container_init.StartRefused as error:
        missing = "not found" in str(error) or "no such file" in str(error)
        code = NOT_FOUND if missing else NOT_EXECUTABLE
        os.write(2, f"{error}\n".encode())
    except Exception as error:
        os.write(2, f"{error}\n".encode())
    finally:
        os._exit(code)


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        os.kill(pid, number)  # it has not created its process group yet


def _give_streams(user: int | None) -> None:
    """Makes *user* the owner of the pipes or the terminal, so that programs can open them again, as /dev/stdout."""
    if user is None:
        return
    for file in (0, 1, 2):
        if stat.S_ISFIFO(os.fstat(file).st_mode) or os.isatty(file):
            with suppress(OSError):  # only root may do it
                os.fchown(file, user, -1)
