"""Executes commands in running containers, each for a limited time."""

from __future__ import annotations

import os
import signal

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
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        try:
            pid = os.fork()
            if not pid:
                _supervise(isolation, config | {"argv": argv}, abs(first), timeout, [null, writing, writing])
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
            os.close(null)
        command = self._running[pid] = _RunningCommand(respond, reading)
        self._loop.watch(reading, lambda _: self._read(command))

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


def _supervise(
    isolation: Isolation, config: Json, first: int, timeout: float, descriptors: list[int]
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
            _run_command(isolation, config, cgroups)
        code = _wait(pid, timeout)
    except Exception as error:
        os.write(2, str(error).encode())
    finally:
        os._exit(code)


def _run_command(isolation: Isolation, config: Json, cgroups: list[int]) -> NoReturn:
    code = NOT_EXECUTABLE
    try:
        os.setsid()
        isolation.execute(config, cgroups)
    except container_init.StartRefused as error:
        missing = "not found" in str(error) or "no such file" in str(error)
        code = NOT_FOUND if missing else NOT_EXECUTABLE
        os.write(2, str(error).encode())
    except Exception as error:
        os.write(2, str(error).encode())
    finally:
        os._exit(code)


def _wait(pid: int, timeout: float) -> int:
    timed_out = signal.sigtimedwait({signal.SIGCHLD}, timeout) is None
    if timed_out:
        os.killpg(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return TIMED_OUT if timed_out else linux.exit_code(status)
